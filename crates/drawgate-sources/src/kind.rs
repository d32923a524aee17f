//! The table of kinds of sources, and what can be wrong with the configuration of one.
//!
//! To add a kind, add a folder and a row. What the configuration and toolpacks say about a kind is
//! described by its own [`ServerKind`] and [`ConnectorKind`].

use std::fmt;

use drawgate_host::secrets::SecretError;

use crate::server::ServerKind;
use crate::toolpack::ConnectorKind;
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

/// One kind of source: its name, and where it can be described.
#[derive(Clone, Copy)]
pub struct SourceKind {
    name: &'static str,
    server: Option<&'static dyn ServerKind>,
    connector: Option<&'static dyn ConnectorKind>,
}

impl SourceKind {
    /// A kind that neither servers of the configuration nor connectors of toolpacks have.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, server: None, connector: None }
    }

    /// The same kind, for servers of the configuration too.
    #[must_use]
    pub const fn with_server(self, server: &'static dyn ServerKind) -> Self {
        Self { server: Some(server), ..self }
    }

    /// The same kind, for connectors of toolpacks too.
    #[must_use]
    pub const fn with_connector(self, connector: &'static dyn ConnectorKind) -> Self {
        Self { connector: Some(connector), ..self }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The kinds that a configuration and its toolpacks may use: [`KINDS`], unless the program that embeds the
/// gateway has further ones.
#[derive(Clone, Copy, Debug)]
pub struct Kinds(&'static [SourceKind]);

impl Kinds {
    /// These kinds.
    #[must_use]
    pub const fn new(kinds: &'static [SourceKind]) -> Self {
        Self(kinds)
    }

    /// What servers of the configuration can be, in the order of the table.
    pub fn servers(self) -> impl Iterator<Item = &'static dyn ServerKind> {
        self.0.iter().filter_map(|kind| kind.server)
    }

    /// The kind of servers that this word of `protocol` stands for.
    #[must_use]
    pub fn server(self, protocol: &str) -> Option<&'static dyn ServerKind> {
        self.servers().find(|kind| kind.protocol() == protocol)
    }

    /// What connectors of toolpacks can be, by name, in the order of the table.
    pub fn connectors(self) -> impl Iterator<Item = (&'static str, &'static dyn ConnectorKind)> {
        self.0.iter().filter_map(|kind| Some((kind.name, kind.connector?)))
    }

    /// The kind of connectors of this name.
    #[must_use]
    pub fn connector(self, name: &str) -> Option<&'static dyn ConnectorKind> {
        self.connectors().find(|(known, _)| *known == name).map(|(_, kind)| kind)
    }
}

impl Default for Kinds {
    fn default() -> Self {
        Self(KINDS)
    }
}

impl PartialEq for Kinds {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(SourceKind::name).eq(other.0.iter().map(SourceKind::name))
    }
}

/// Why configuration does not describe a source.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_protocols_are_unique() {
        let kinds = Kinds::default();
        let mut names: Vec<&str> = KINDS.iter().map(SourceKind::name).collect();
        let mut protocols: Vec<&str> = kinds.servers().map(ServerKind::protocol).collect();
        for words in [&mut names, &mut protocols] {
            let all = words.len();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words.len(), all, "{words:?}");
        }
    }
}
