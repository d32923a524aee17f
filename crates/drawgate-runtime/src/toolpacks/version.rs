//! Which of two versions is the older one.
//!
//! By the precedence of Semantic Versioning, taken generously: any number of parts, with or without
//! a leading `v`. Build metadata does not count.

use std::cmp::Ordering;

/// Whether `new` comes before `old`.
pub(super) fn is_older(new: &str, old: &str) -> bool {
    compare(new, old) == Ordering::Less
}

fn compare(left: &str, right: &str) -> Ordering {
    let (left, left_early) = parts(left);
    let (right, right_early) = parts(right);
    let numbers = compare_parts(&left, &right, "0");
    numbers.then_with(|| match (left_early.is_empty(), right_early.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => compare_parts(&left_early, &right_early, ""),
    })
}

/// The parts of the version itself, and of what follows the first `-`.
fn parts(version: &str) -> (Vec<&str>, Vec<&str>) {
    let version = version.trim().trim_start_matches(['v', 'V']);
    let version = version.split_once('+').map_or(version, |(version, _)| version);
    let (main, early) = version.split_once('-').unwrap_or((version, ""));
    let split = |text| if str::is_empty(text) { Vec::new() } else { text.split('.').collect() };
    (split(main), split(early))
}

fn compare_parts(left: &[&str], right: &[&str], missing: &str) -> Ordering {
    let at = |parts: &[&str], index: usize| (*parts.get(index).unwrap_or(&missing)).to_owned();
    (0..left.len().max(right.len()))
        .map(|index| compare_part(&at(left, index), &at(right, index)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Numbers by value and before words; words by their letters.
fn compare_part(left: &str, right: &str) -> Ordering {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.trim_start_matches('0').to_owned())
    };
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.len().cmp(&right.len()).then(left.cmp(&right)),
        // A part that is missing comes first of all.
        (Some(_), None) if right.is_empty() => Ordering::Greater,
        (None, Some(_)) if left.is_empty() => Ordering::Less,
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_their_order() {
        let order = [
            "0.9",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "v1.0.1",
            "1.2.0",
            "1.10",
            "2",
            "10.0.0",
            "99999999999999999999999.0",
        ];
        for (index, version) in order.iter().enumerate() {
            for later in order.iter().skip(index + 1) {
                assert!(is_older(version, later), "{version} < {later}");
                assert!(!is_older(later, version), "{later} > {version}");
            }
        }
        for (left, right) in [("1.0.0", "1.0"), ("v1", "1.0.0"), ("1.0.0+a", "1.0.0+b"), ("x", "x")]
        {
            assert_eq!(compare(left, right), Ordering::Equal, "{left} {right}");
        }
    }
}
