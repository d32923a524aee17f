//! How configuration becomes a source.

use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_core::source::ToolSource;
use drawgate_host::Host;
use drawgate_host::secrets::SecretError;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{builtin, command, mcp, oneshot, openapi, pack, toolpack};

/// Every kind, in the order in which help lists them.
pub const KINDS: &[SourceKind] = &[
    builtin::KIND,
    command::KIND,
    mcp::KIND,
    oneshot::KIND,
    openapi::KIND,
    pack::KIND,
    toolpack::KIND,
];

/// Makes a source of its configuration, without starting anything yet.
type Build = fn(SourceId, Value, &Arc<Host>) -> Result<Arc<dyn ToolSource>, ConfigError>;

/// One kind of source.
#[derive(Debug, Clone, Copy)]
pub struct SourceKind {
    name: &'static str,
    build: Option<Build>,
}

impl SourceKind {
    pub(crate) const fn new(name: &'static str, build: Build) -> Self {
        Self { name, build: Some(build) }
    }

    /// A kind whose sources register themselves.
    pub(crate) const fn unconfigured(name: &'static str) -> Self {
        Self { name, build: None }
    }

    /// Its name in configuration.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Makes a source of its configuration, without starting anything yet.
    pub fn build(
        &self,
        id: SourceId,
        config: Value,
        host: &Arc<Host>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        let build = self.build.ok_or(ConfigError::NotConfigurable(self.name))?;
        build(id, config, host)
    }
}

/// Why configuration does not describe a source.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no such kind.
    #[error("unknown kind of source `{name}`; use {known}")]
    UnknownKind {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Sources of this kind register themselves.
    #[error("sources of kind `{0}` can't be configured; they register themselves")]
    NotConfigurable(&'static str),
    /// A field is missing, unknown or of the wrong type.
    #[error("{0}")]
    Shape(String),
    /// A field that this combination needs is missing.
    #[error("`{field}` is missing; {why}")]
    Missing {
        /// The field.
        field: &'static str,
        /// Why it is needed.
        why: &'static str,
    },
    /// A field that this combination does not use is present.
    #[error("`{field}` has no meaning here; {why}")]
    Unused {
        /// The field.
        field: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// A field refers to a variable that can't be used. The field comes last: after a name such as
    /// `headers.Authorization` and a colon, logs would hide which variable it is.
    #[error("{reason} (in `{field}`)")]
    Variable {
        /// The field.
        field: String,
        /// What is wrong, and what to do.
        reason: SecretError,
    },
    /// A field has a value that can't be used.
    #[error("`{field}`: {reason}")]
    Value {
        /// The field.
        field: String,
        /// What is wrong, and what to do.
        reason: String,
    },
}

impl ConfigError {
    pub(crate) fn variable(field: impl Into<String>, reason: SecretError) -> Self {
        Self::Variable { field: field.into(), reason }
    }

    pub(crate) fn value(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Value { field: field.into(), reason: reason.into() }
    }
}

/// The kind of this name.
pub fn kind(name: &str) -> Result<&'static SourceKind, ConfigError> {
    KINDS.iter().find(|kind| kind.name() == name).ok_or_else(|| {
        let known: Vec<String> = KINDS.iter().map(|kind| format!("`{}`", kind.name())).collect();
        ConfigError::UnknownKind { name: name.escape_debug().to_string(), known: known.join(", ") }
    })
}

/// Makes a source of the named kind.
pub fn build(
    name: &str,
    id: SourceId,
    config: Value,
    host: &Arc<Host>,
) -> Result<Arc<dyn ToolSource>, ConfigError> {
    kind(name)?.build(id, config, host)
}

/// Reads a kind's configuration struct.
pub(crate) fn parse<T: DeserializeOwned>(config: Value) -> Result<T, ConfigError> {
    serde_json::from_value(config).map_err(|error| ConfigError::Shape(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for expected in KINDS {
            assert_eq!(kind(expected.name()).unwrap().name(), expected.name());
            assert_eq!(KINDS.iter().filter(|other| other.name() == expected.name()).count(), 1);
        }
    }

    #[test]
    fn an_unknown_kind_is_answered_with_the_known_ones() {
        let error = kind("carrier_pigeon").err().unwrap().to_string();
        assert_eq!(
            error,
            "unknown kind of source `carrier_pigeon`; use `builtin`, `command`, `mcp`, `oneshot`, `openapi`, `pack`, `toolpack`"
        );
    }
}
