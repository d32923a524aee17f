//! Files in which MCP clients keep their servers: reads them, and removes servers from them in place.
//!
//! Adding the gateway's own entry is up to `connect`; which files there are, too.

pub(super) mod jsonc;
mod tables;

use std::path::Path;

use serde_json::Value;

/// The language of a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// With comments and trailing commas, as editors write it.
    Json,
    Toml,
}

impl Format {
    pub(super) fn of(path: &Path) -> Self {
        let is_toml = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("toml"));
        if is_toml { Self::Toml } else { Self::Json }
    }

    /// Reads a file's whole content. A file with nothing but blanks and comments is an empty object.
    pub(super) fn parse(self, text: &str) -> anyhow::Result<Value> {
        match self {
            Self::Json => jsonc::parse(text),
            Self::Toml => Ok(serde_json::to_value(tables::parse(text)?)?),
        }
    }

    /// Removes members of objects or tables, each given by the keys that lead to it. Everything else
    /// stays as it is, comments and layout too; what is not there needs no removal.
    pub(super) fn remove(self, text: &str, members: &[Vec<&str>]) -> anyhow::Result<String> {
        match self {
            Self::Json => jsonc::remove(text, members),
            Self::Toml => tables::remove(text, members),
        }
    }
}

#[cfg(test)]
#[path = "client_files/client_files_tests.rs"]
mod tests;
