//! What differs between two texts, line by line, as people know it from version control.

use std::time::{Duration, Instant};

use similar::{Algorithm, ChangeTag};

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// After this time the rest of the texts is shown whole, one after the other.
const PATIENCE: Duration = Duration::from_secs(1);

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
    let deadline = Some(Instant::now() + PATIENCE);
    let changes = similar::capture_diff_slices_deadline(Algorithm::Myers, old, new, deadline);
    let changes = changes.iter().flat_map(|change| change.iter_changes(old, new));
    changes.map(|change| (change.tag().into(), change.value())).collect()
}

impl From<ChangeTag> for Mark {
    fn from(tag: ChangeTag) -> Self {
        match tag {
            ChangeTag::Equal => Self::Same,
            ChangeTag::Delete => Self::Removed,
            ChangeTag::Insert => Self::Added,
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
            ("a\nb\nc\nd", "a\nc\nb\nd", " a|+c| b|-c| d"),
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
