//! Patterns of tool names: `*` stands for any run of characters.

use std::fmt;

/// Longest pattern; no tool name is longer.
const MAX_PATTERN: usize = 128;

/// The names of tools that a pack may offer. None at all unless a pattern says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolPatterns(Vec<String>);

/// A word that can't be a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a pattern of tool names; use 1 to 128 of `a-z A-Z 0-9 _ - . *`", .0.escape_debug())]
pub struct PatternError(String);

impl ToolPatterns {
    /// Reads patterns with spaces between them.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
        let mut patterns = Vec::new();
        for word in text.split_ascii_whitespace() {
            if word.len() > MAX_PATTERN || !word.chars().all(legal) {
                return Err(PatternError(word.chars().take(MAX_PATTERN).collect()));
            }
            patterns.push(word.to_owned());
        }
        Ok(Self(patterns))
    }

    /// Whether a pack may offer a tool of this name.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ToolPatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Never takes longer than the product of the two lengths: only the last `*` is ever tried again.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if name.get(read) == Some(byte) => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((star_at, covered)) = star else { return false };
                star = Some((star_at, covered + 1));
                at = star_at + 1;
                read = covered + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_their_patterns() {
        let rows = [
            ("*", "read_file", true),
            ("read_file", "read_file", true),
            ("read_file", "read_files", false),
            ("read_*", "read_file", true),
            ("read_*", "read_", true),
            ("read_*", "write_file", false),
            ("*_file", "read_file", true),
            ("*_file", "read_file_", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("a*b*c", "abc", true),
            ("*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("one two_*", "two_x", true),
            ("one two_*", "one two_x", false),
            ("**", "x", true),
            ("READ", "read", false),
            ("", "x", false),
            ("x", "", false),
        ];
        for (patterns, name, expected) in rows {
            let patterns = ToolPatterns::parse(patterns).unwrap();
            assert_eq!(patterns.allows(name), expected, "{patterns}: {name}");
        }
    }

    #[test]
    fn other_characters_make_no_pattern() {
        for text in ["a?", "[a]", "a,b", "ä", "a\u{0}", &"x".repeat(129)] {
            assert!(ToolPatterns::parse(text).is_err(), "{text:?}");
        }
    }
}
