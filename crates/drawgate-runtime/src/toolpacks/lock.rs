//! What `drawgate.lock` says about toolpacks: what was installed, from where, what it was, and whether
//! it is enabled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use drawgate_host::seal::SealingKey;
use drawgate_sources::toolpack::Permissions;
use serde::{Deserialize, Serialize};

use super::error::ToolpackError;
use super::hash;
use super::id::PackId;
use super::origin::is_commit;
use crate::lock::{Consent, LOCK_FILE, LockFile, Section, Subject};

/// The installed packs.
pub type LockEntries = BTreeMap<PackId, LockEntry>;

/// The most consents to one pack: data folders that share its folder.
const MAX_CONSENTS: usize = 16;
/// What consents to packs are about.
const KIND: &str = "toolpack";

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
    /// The hash of the files that it replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash_before: Option<String>,
    /// The hash of the archive that it came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_hash: Option<String>,
    /// The hash of each tool's definition.
    pub definitions: BTreeMap<String, String>,
    /// What it may do.
    pub permissions: Permissions,
    /// When it was installed, by ISO 8601.
    pub installed_at: String,
    /// Whether its tools are offered.
    pub enabled: bool,
    /// Who enabled it when, on which data folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Consent>,
}

/// The ids of what is installed in a folder, as far as its lock can be read.
#[must_use]
pub fn installed_ids(folder: &Path) -> BTreeSet<String> {
    let entries = read(&folder.with_file_name(LOCK_FILE)).unwrap_or_default();
    entries.keys().map(ToString::to_string).collect()
}

/// Reads what a lock file says about packs.
pub(super) fn read(path: &Path) -> Result<LockEntries, ToolpackError> {
    entries(&LockFile::read(path)?).map_err(unusable(path))
}

/// Changes what a lock file says about packs, and returns what it said before.
pub(super) fn edit(
    path: &Path,
    change: impl FnOnce(&mut LockEntries),
) -> Result<LockEntries, ToolpackError> {
    LockFile::edit(path, |file| {
        let before = entries(file).map_err(unusable(path))?;
        let mut after = before.clone();
        change(&mut after);
        file.set_entries(Section::Toolpacks, &after).map_err(unusable(path))?;
        Ok(before)
    })
}

/// The packs of a lock, none of which is only partly understood.
pub(super) fn checked(entries: LockEntries) -> Result<LockEntries, String> {
    match entries.iter().find_map(|(id, entry)| Some((id, entry.fault()?))) {
        Some((id, fault)) => Err(format!("the entry of `{id}` {fault}")),
        None => Ok(entries),
    }
}

fn entries(file: &LockFile) -> Result<LockEntries, String> {
    checked(file.entries(Section::Toolpacks)?)
}

fn unusable(path: &Path) -> impl FnOnce(String) -> ToolpackError {
    |reason| ToolpackError::Lock { path: path.to_owned(), reason }
}

impl LockEntry {
    /// Enables the pack, with the consent of an operator.
    pub fn enable(&mut self, consent: Option<Consent>) {
        self.enabled = true;
        self.accepted.extend(consent);
        let excess = self.accepted.len().saturating_sub(MAX_CONSENTS);
        self.accepted.drain(..excess);
    }

    /// Disables the pack, and withdraws what was consented to.
    pub fn disable(&mut self) {
        self.enabled = false;
        self.accepted.clear();
    }

    /// What a consent to this pack is about.
    #[must_use]
    pub fn subject<'a>(&'a self, id: &'a str) -> Subject<'a> {
        Subject { kind: KIND, id, content_hash: &self.content_hash }
    }

    /// Whether an operator has consented to it on the data folder with this key.
    #[must_use]
    pub fn is_accepted(&self, id: &str, key: &SealingKey) -> bool {
        self.accepted.iter().any(|consent| consent.is_valid(key, self.subject(id)))
    }

    /// Whether it tells of the same installation.
    pub(super) fn is_same_installation(&self, other: &Self) -> bool {
        (&self.content_hash, &self.commit, &self.installed_at)
            == (&other.content_hash, &other.commit, &other.installed_at)
    }

    fn fault(&self) -> Option<&'static str> {
        let hashes = [Some(&self.content_hash), self.content_hash_before.as_ref()];
        let mut hashes = hashes.into_iter().chain([self.archive_hash.as_ref()]).flatten();
        if !hashes.all(|text| hash::is_hash(text)) {
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
