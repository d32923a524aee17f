//! Identifiers. Each is parsed once, at the edge, and trusted afterwards.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Longest source id and principal name.
const MAX_NAME: usize = 64;
/// Longest bare tool name; protocols recommend at most 128.
const MAX_TOOL: usize = 128;
/// Hexadecimal digits of the name's hash at the end of an identity that was cut.
const CUT_DIGITS: usize = 16;

/// Why a string is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a valid {kind}; use {rule}", super::shown_name(value))]
pub struct IdError {
    kind: &'static str,
    value: String,
    rule: &'static str,
}

fn check(
    kind: &'static str,
    value: &str,
    max: usize,
    rule: &'static str,
    dots: Dots,
) -> Result<(), IdError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let legal = |c: char| plain(c) || (dots == Dots::Allowed && c == '.');
    let starts = value.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    if starts && value.len() <= max && value.chars().all(legal) {
        return Ok(());
    }
    let shown: String = value.chars().take(MAX_TOOL).collect();
    Err(IdError { kind, value: shown, rule })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dots {
    Allowed,
    Refused,
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:expr, $dots:expr, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses the identifier.
            pub fn new(value: &str) -> Result<Self, IdError> {
                check($kind, value, $max, $rule, $dots)?;
                Ok(Self(value.into()))
            }

            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(value: String) -> Result<Self, IdError> {
                Self::new(&value)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.0.to_string()
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type!(
    /// Who offers a tool: a configured server, a pack, `builtin`.
    SourceId, "source id", MAX_NAME, Dots::Refused, "1 to 64 of `a-z A-Z 0-9 _ -`"
);
name_type!(
    /// Who calls: an agent's name, or `local` for the owner of the data folder.
    Principal, "agent name", MAX_NAME, Dots::Allowed, "1 to 64 of `a-z A-Z 0-9 _ - .`"
);
name_type!(
    /// What a model sees: unique in the gateway, and legal for every model API.
    WireName, "tool name", 64, Dots::Refused, "1 to 64 of `a-z A-Z 0-9 _ -`"
);

impl Principal {
    /// The owner of the data folder, who holds the admin token.
    #[must_use]
    pub fn local() -> Self {
        Self("local".into())
    }
}

/// A tool's one identity, `source:tool`, used in audit, policy and grants.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(into = "String")]
pub struct ToolId {
    text: Arc<str>,
    source: SourceId,
}

impl ToolId {
    /// Joins a source and the name that the source gives the tool.
    pub fn new(source: &SourceId, tool: &str) -> Result<Self, IdError> {
        check("tool name", tool, MAX_TOOL, "1 to 128 of `a-z A-Z 0-9 _ - .`", Dots::Allowed)?;
        Ok(Self { text: format!("{source}:{tool}").into(), source: source.clone() })
    }

    /// Joins a source and whatever name a server gives the tool. What is not legal in [`Self::new`] is
    /// percent-encoded; what is too long ends in `~` and digits of the name's hash. So no two names of
    /// a server have one identity, and none has that of an operation.
    #[must_use]
    pub fn of_any(source: &SourceId, name: &str) -> Self {
        let mut safe = String::new();
        for (index, byte) in name.bytes().enumerate().take(MAX_TOOL + 1) {
            let first = byte.is_ascii_alphanumeric() || byte == b'_';
            if first || (index > 0 && (byte == b'-' || byte == b'.')) {
                safe.push(char::from(byte));
            } else {
                let _ = write!(safe, "%{byte:02X}");
            }
        }
        if safe.is_empty() || safe.len() > MAX_TOOL {
            let digest = hex::encode(Sha256::digest(name.as_bytes()));
            safe.truncate(MAX_TOOL - CUT_DIGITS - 1);
            safe.push('~');
            safe.extend(digest.chars().take(CUT_DIGITS));
        }
        Self { text: format!("{source}:{safe}").into(), source: source.clone() }
    }

    /// What is written `source:tool`, whether or not there is such a tool.
    #[must_use]
    pub fn written(text: &str) -> Option<Self> {
        let (source, _) = text.split_once(':')?;
        Some(Self { text: text.into(), source: SourceId::new(source).ok()? })
    }

    /// Whether the source's own name is legal as it is.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !self.tool().contains(['%', '~'])
    }

    /// Joins a source and the name that the source gives an operation beside tools: `source:@name`,
    /// which no tool can be called.
    #[must_use]
    pub fn of_operation(source: &SourceId, name: &str) -> Self {
        Self { text: format!("{source}:@{name}").into(), source: source.clone() }
    }

    /// `source:tool`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The source that offers the tool.
    #[must_use]
    pub fn source(&self) -> &SourceId {
        &self.source
    }

    /// The name that the source gives the tool, with what is not legal encoded.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.text.get(self.source.as_str().len() + 1..).unwrap_or_default()
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

impl From<ToolId> for String {
    fn from(value: ToolId) -> String {
        value.text.to_string()
    }
}
