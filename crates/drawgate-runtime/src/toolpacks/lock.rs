//! `toolpacks.lock`: what was installed, from where, and what it was.
//!
//! It stands beside the folder of packs, is meant to be kept in version control, and is read
//! strictly: a lock file that is partly understood would protect nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use drawgate_core::json;
use drawgate_sources::toolpack::Permissions;
use serde::{Deserialize, Serialize};

use super::error::ToolpackError;
use super::files;
use super::hash;
use super::id::PackId;
use super::origin::is_commit;

/// The form of the file.
const FORMAT: u32 = 1;

const MODE: u32 = 0o644;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockFile {
    format: u32,
    /// The installed packs.
    pub toolpacks: BTreeMap<PackId, LockEntry>,
}

/// One installed pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockEntry {
    /// Its version, as its manifest says.
    pub version: String,
    /// Where it came from: `path:/a/folder` or `github:owner/repo`.
    pub source: String,
    /// The branch, tag or commit that was asked for.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The commit that it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The hash of its files.
    pub content_hash: String,
    /// The hash of the archive that it came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_hash: Option<String>,
    /// The hash of each tool's definition.
    pub definitions: BTreeMap<String, String>,
    /// What it may do.
    pub permissions: Permissions,
    /// When it was installed, by ISO 8601.
    pub installed_at: String,
}

impl Default for LockFile {
    fn default() -> Self {
        Self { format: FORMAT, toolpacks: BTreeMap::new() }
    }
}

impl LockFile {
    /// The ids of what is installed in a folder, as far as its lock file can be read.
    #[must_use]
    pub fn ids(folder: &Path) -> BTreeSet<String> {
        let lock = Self::read(&folder.with_file_name(super::folder::LOCK_FILE)).unwrap_or_default();
        lock.toolpacks.keys().map(ToString::to_string).collect()
    }

    /// Reads the file; without one, nothing is installed.
    pub(super) fn read(path: &Path) -> Result<Self, ToolpackError> {
        let Some(bytes) = files::read_if_there(path)? else { return Ok(Self::default()) };
        Self::parse(&bytes).map_err(|reason| ToolpackError::Lock { path: path.to_owned(), reason })
    }

    /// Replaces the file.
    pub(super) fn write(&self, path: &Path) -> Result<(), ToolpackError> {
        files::replace(path, self.text().as_bytes(), MODE)
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let value = json::parse(bytes).map_err(|error| error.to_string())?;
        let format = value.get("format").and_then(serde_json::Value::as_u64);
        if format != Some(u64::from(FORMAT)) {
            return Err(format!("its `format` is not {FORMAT}, the one this version knows"));
        }
        let lock: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        match lock.toolpacks.iter().find_map(|(id, entry)| Some((id, entry.fault()?))) {
            Some((id, fault)) => Err(format!("the entry of `{id}` {fault}")),
            None => Ok(lock),
        }
    }

    fn text(&self) -> String {
        // Text keys and plain values always serialise.
        serde_json::to_string_pretty(self).map(|text| text + "\n").unwrap_or_default()
    }
}

impl LockEntry {
    fn fault(&self) -> Option<&'static str> {
        let hashes = std::iter::once(&self.content_hash).chain(&self.archive_hash);
        if !hashes.into_iter().all(|text| hash::is_hash(text)) {
            return Some("has a hash that is none");
        }
        match (&self.commit, self.source.starts_with("github:")) {
            (Some(commit), true) if !is_commit(commit) => Some("has a commit that is none"),
            (None, true) => Some("has no commit"),
            (Some(_), false) => Some("has a commit, but is not from a repository"),
            (Some(_), true) | (None, false) => None,
        }
    }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
