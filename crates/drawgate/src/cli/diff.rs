//! What differs between two texts, line by line, as people know it from version control.

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// Beyond so many comparisons the texts are shown whole, one after the other.
const MAX_WORK: usize = 4_000_000;

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// In both.
    Same,
    /// Only in the old text.
    Removed,
    /// Only in the new text.
    Added,
    /// Unchanged lines that are not shown.
    Skipped,
}

impl Mark {
    /// What stands before the line.
    pub(super) const fn sign(self) -> &'static str {
        match self {
            Self::Same => " ",
            Self::Removed => "-",
            Self::Added => "+",
            Self::Skipped => "@",
        }
    }
}

/// The lines of both texts in order, changes with their surroundings.
pub(super) fn lines<'a>(old: &'a str, new: &'a str) -> Vec<(Mark, &'a str)> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    surrounded(&compare(&old, &new))
}

fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Mark, &'a str)> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (rest_old, rest_new) = (old.get(head..).unwrap_or(&[]), new.get(head..).unwrap_or(&[]));
    let tail = rest_old.iter().rev().zip(rest_new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (middle_old, end) = rest_old.split_at(rest_old.len() - tail);
    let (middle_new, _) = rest_new.split_at(rest_new.len() - tail);
    let same = |line: &&'a str| (Mark::Same, *line);
    let mut all: Vec<(Mark, &str)> = old.iter().take(head).map(same).collect();
    all.extend(middle(middle_old, middle_new));
    all.extend(end.iter().map(same));
    all
}

/// The part that differs at both ends, by the longest common subsequence.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Mark, &'a str)> {
    let width = new.len() + 1;
    if width.saturating_mul(old.len()) > MAX_WORK {
        let removed = old.iter().map(|line| (Mark::Removed, *line));
        return removed.chain(new.iter().map(|line| (Mark::Added, *line))).collect();
    }
    // How much two ends have in common, from each pair of lines on.
    let mut common = vec![0_u32; width * (old.len() + 1)];
    let at = |table: &[u32], a: usize, b: usize| table.get(a * width + b).copied().unwrap_or(0);
    for (a, old_line) in old.iter().enumerate().rev() {
        for (b, new_line) in new.iter().enumerate().rev() {
            let most = if old_line == new_line {
                at(&common, a + 1, b + 1) + 1
            } else {
                at(&common, a + 1, b).max(at(&common, a, b + 1))
            };
            if let Some(cell) = common.get_mut(a * width + b) {
                *cell = most;
            }
        }
    }
    let (mut a, mut b) = (0, 0);
    let mut all = Vec::new();
    loop {
        match (old.get(a), new.get(b)) {
            (Some(old_line), Some(new_line)) if old_line == new_line => {
                all.push((Mark::Same, *old_line));
                (a, b) = (a + 1, b + 1);
            }
            (Some(line), next)
                if next.is_none() || at(&common, a + 1, b) >= at(&common, a, b + 1) =>
            {
                all.push((Mark::Removed, *line));
                a += 1;
            }
            (_, Some(line)) => {
                all.push((Mark::Added, *line));
                b += 1;
            }
            (_, None) => return all,
        }
    }
}

/// Leaves out unchanged lines that are far from any change.
fn surrounded<'a>(all: &[(Mark, &'a str)]) -> Vec<(Mark, &'a str)> {
    let mut near = vec![false; all.len()];
    for (at, _) in all.iter().enumerate().filter(|(_, (mark, _))| *mark != Mark::Same) {
        let from = at.saturating_sub(CONTEXT);
        near.iter_mut().skip(from).take(at - from + CONTEXT + 1).for_each(|near| *near = true);
    }
    let mut shown: Vec<(Mark, &str)> = Vec::new();
    for (line, near) in all.iter().zip(near) {
        if near {
            shown.push(*line);
        } else if shown.last().is_none_or(|(mark, _)| *mark != Mark::Skipped) {
            shown.push((Mark::Skipped, "…"));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> String {
        let line = |(mark, line): (Mark, &str)| format!("{}{line}", mark.sign());
        lines(old, new).into_iter().map(line).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn differences() {
        let cases = [
            ("a\nb", "a\nb", "@…"),
            ("", "a\nb", "+a|+b"),
            ("a\nb", "", "-a|-b"),
            ("a\nb\nc", "a\nx\nc", " a|-b|+x| c"),
            ("a\nb\nc", "b\nc\nd", "-a| b| c|+d"),
            ("a\nb\nc\nd", "a\nc\nb\nd", " a|-b| c|+b| d"),
            ("1\n2\n3\n4\n5\n6\n7\n8\n9", "1\n2\n3\n4\n5\n6\n7\n8\n0", "@…| 6| 7| 8|-9|+0"),
        ];
        for (old, new, expected) in cases {
            assert_eq!(shown(old, new), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn both_texts_can_be_read_from_it_however_long_they_are() {
        for count in [50, 5000] {
            let old: Vec<String> = (0..count).map(|at| format!("{}", at % 7)).collect();
            let new: Vec<String> = (0..count).map(|at| format!("{}", at % 5)).collect();
            let (old, new): (Vec<&str>, Vec<&str>) = (
                old.iter().map(String::as_str).collect(),
                new.iter().map(String::as_str).collect(),
            );
            let all = compare(&old, &new);
            let without = |gone: Mark| -> Vec<&str> {
                all.iter().filter(|(mark, _)| *mark != gone).map(|(_, line)| *line).collect()
            };
            assert_eq!(without(Mark::Added), old);
            assert_eq!(without(Mark::Removed), new);
        }
    }
}
