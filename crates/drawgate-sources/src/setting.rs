//! A value in `env` or `headers`: a reference to an environment variable, or a literal that might
//! be a secret and is therefore never printed.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// The text that is printed in place of a value that must not be seen.
pub const MASK: &str = "****";
const REFERENCE: &str = "env:";

/// The text of a value in `env` or `headers`. It prints and serializes as `env:NAME` if it is a
/// reference, and as `****` if it is anything else.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Setting(String);

impl Setting {
    /// Takes the text as it is in the file.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text as it is in the file, for the one place that resolves it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The variable that the value refers to, if it is a well-formed reference.
    #[must_use]
    pub fn variable(&self) -> Option<&str> {
        self.0.strip_prefix(REFERENCE).filter(|name| is_variable_name(name))
    }

    /// Whether the value is meant as a reference but names no variable.
    #[must_use]
    pub fn is_broken_reference(&self) -> bool {
        self.0.starts_with(REFERENCE) && self.variable().is_none()
    }

    /// The value as it may be shown: `env:NAME`, or [`MASK`].
    #[must_use]
    pub fn shown(&self) -> &str {
        if self.variable().is_some() { &self.0 } else { MASK }
    }
}

impl From<String> for Setting {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.shown(), f)
    }
}

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.shown())
    }
}

fn is_variable_name(name: &str) -> bool {
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
