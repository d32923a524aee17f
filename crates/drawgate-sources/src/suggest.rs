//! "Did you mean …?"

/// The candidate that `typed` is most probably a misspelling of.
#[must_use]
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong; with more, a suggestion is a guess.
    let allowed = typed.chars().count().max(3) / 3;
    let typed = plain(typed);
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, &plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Case and separators are not what people get wrong on purpose: `maxBodyBytes` is
/// `max_body_bytes`.
fn plain(word: &str) -> Vec<char> {
    word.chars().filter(|c| *c != '_' && *c != '-').flat_map(char::to_lowercase).collect()
}

/// Edits (insert, remove, replace, swap neighbours) that lead from one word to the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(x != y);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_misspellings_and_only_those() {
        let known = ["command", "args", "env", "url", "max_body_bytes", "timeout_seconds"];
        let cases = [
            ("comand", Some("command")),
            ("commnad", Some("command")),
            ("arg", Some("args")),
            ("agrs", Some("args")),
            ("maxBodyBytes", Some("max_body_bytes")),
            ("timeout-secs", Some("timeout_seconds")),
            ("uri", Some("url")),
            ("colour", None),
            ("", None),
        ];
        for (typed, expected) in cases {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
    }
}
