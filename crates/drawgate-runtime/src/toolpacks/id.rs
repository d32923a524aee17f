//! The name of a pack, which is also the name of its folder.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest name: a folder's name with room for what others put around it.
const MAX_LENGTH: usize = 64;

/// A pack's name: lower-case letters, digits, `-` and `_`, beginning with a letter or digit. As
/// a folder's name it can't be hidden, leave its folder or look like an option.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PackId(String);

/// Not the name of a pack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not the id of a toolpack; use up to {MAX_LENGTH} lower-case letters, digits, `-` and `_`, such as `github-cli`",
    .0.escape_debug()
)]
pub struct PackIdError(String);

impl PackId {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PackId {
    type Err = PackIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let fits = text.len() <= MAX_LENGTH
            && text.starts_with(plain)
            && text.chars().all(|c| plain(c) || matches!(c, '-' | '_'));
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(PackIdError(text.chars().take(MAX_LENGTH).collect()))
        }
    }
}

impl TryFrom<String> for PackId {
    type Error = PackIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PackId> for String {
    fn from(id: PackId) -> Self {
        id.0
    }
}

impl fmt::Display for PackId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_as_folders() {
        for good in ["a", "github-cli", "x_1-2", "9lives"] {
            assert_eq!(good.parse::<PackId>().unwrap().as_str(), good);
        }
        let long = "a".repeat(65);
        for bad in
            ["", ".", "..", ".hidden", "-x", "_x", "a/b", "a\\b", "A", "a b", "a.b", "ä", &long]
        {
            assert!(bad.parse::<PackId>().is_err(), "{bad}");
        }
    }
}
