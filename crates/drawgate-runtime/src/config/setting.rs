//! A value in `env` or `headers`: a reference to an environment variable, or a literal that might
//! be a secret and is therefore never printed.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// What stands in for a value that must not be seen.
pub(super) const MASK: &str = "****";
const REFERENCE: &str = "env:";

/// The text of a value in `env` or `headers`. It prints and serializes as `env:NAME` if it is a
/// reference, and as `****` if it is anything else.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Setting(String);

impl Setting {
    /// Takes the text as it stands in the file.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text as it stands in the file, for the one place that resolves it.
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
    pub(super) fn is_broken_reference(&self) -> bool {
        self.0.starts_with(REFERENCE) && self.variable().is_none()
    }

    fn shown(&self) -> &str {
        if self.variable().is_some() { &self.0 } else { MASK }
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

/// Prefixes that well-known services give their keys.
const KEY_PREFIXES: [&str; 16] = [
    "sk-",
    "sk_",
    "pk_live_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
    "npm_",
    "hf_",
];
/// Parts of names whose values are secrets, compared without case, `_` and `-`.
const SECRET_NAMES: [&str; 8] =
    ["token", "secret", "password", "passwd", "apikey", "accesskey", "credential", "authorization"];
/// Shorter values under a secret's name are more often switches (`TOKEN_MODE=on`) than secrets.
const SHORTEST_SECRET: usize = 8;
/// Random text of this length and up is taken for a key whatever it is called.
const RANDOM_LENGTH: usize = 32;

/// Whether a literal under this name is probably a secret.
pub(super) fn looks_like_secret(name: &str, value: &str) -> bool {
    let bare: String = name.chars().filter(|c| *c != '_' && *c != '-').collect();
    let bare = bare.to_ascii_lowercase();
    let named = SECRET_NAMES.iter().any(|part| bare.contains(part));
    (named && value.len() >= SHORTEST_SECRET) || is_key_shaped(value)
}

/// Whether a text has the form of a well-known service's key, or of random text.
pub(super) fn is_key_shaped(value: &str) -> bool {
    let known = KEY_PREFIXES.iter().any(|prefix| value.starts_with(prefix));
    (known && value.len() >= 16) || is_random(value)
}

fn is_random(value: &str) -> bool {
    let has = |test: fn(&char) -> bool| value.chars().any(|c| test(&c));
    value.len() >= RANDOM_LENGTH
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "+/=_-".contains(c))
        && !value.starts_with('/')
        && has(char::is_ascii_digit)
        && has(char::is_ascii_uppercase)
        && has(char::is_ascii_lowercase)
}
