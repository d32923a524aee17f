//! A pack that was brought and looked at, but is not installed.
//!
//! One process may stage and another commit: what is known is kept beside the pack, and checked again
//! by whoever takes it up.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use drawgate_core::json;
use drawgate_sources::toolpack::Manifest;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::error::ToolpackError;
use super::folder::Folder;
use super::hash::{self, ManifestScope};
use super::id::PackId;
use super::lock::LockEntry;
use crate::files;

const RECORD: &str = "staged.json";

/// A pack that is ready to be installed. When it is dropped by the process that staged it, without
/// being installed, nothing remains of it.
#[derive(Debug)]
pub struct Staged {
    /// Where it is, for another process.
    pub name: String,
    /// Its id.
    pub id: PackId,
    /// What it says of itself.
    pub manifest: Manifest,
    /// Its entry in the lock file, if it is installed.
    pub entry: LockEntry,
    /// The entry that this one replaces.
    pub replaces: Option<LockEntry>,
    /// What of its source was left out.
    pub left_out: Vec<String>,
    pub(super) place: StagingFolder,
}

/// What is kept beside it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    id: PackId,
    entry: LockEntry,
    replaces: Option<LockEntry>,
    left_out: Vec<String>,
}

/// A staging folder for one pack, locked so that no other process deletes it.
#[derive(Debug)]
pub(super) struct StagingFolder {
    folder: Folder,
    pub(super) name: String,
    role: Role,
    _hold: File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Made it, and cleans it up.
    Maker,
    /// Found it.
    Finder,
}

impl StagingFolder {
    /// A new one.
    pub(super) fn make(folder: &Folder) -> Result<Self, ToolpackError> {
        // Keeps other processes from deleting it before it is locked.
        let _guard = folder.shared()?;
        let name = files::random_name().ok_or(ToolpackError::NoRandomness)?;
        let path = folder.staging_path(&name);
        DirBuilder::new().mode(0o700).create(&path).map_err(ToolpackError::io("make", &path))?;
        let hold = hold(&path).map_err(ToolpackError::io("lock", &path))?;
        Ok(Self { folder: folder.clone(), name, role: Role::Maker, _hold: hold })
    }

    fn find(folder: &Folder, name: &str) -> Result<Self, ToolpackError> {
        let gone = || ToolpackError::NotStaged(name.chars().take(64).collect());
        if name.len() != 32 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(gone());
        }
        let _guard = folder.shared()?;
        let hold = hold(&folder.staging_path(name)).map_err(|_| gone())?;
        Ok(Self { folder: folder.clone(), name: name.to_owned(), role: Role::Finder, _hold: hold })
    }

    /// Where the pack itself is.
    pub(super) fn pack(&self) -> std::path::PathBuf {
        self.folder.staged_pack(&self.name)
    }

    fn record(&self) -> std::path::PathBuf {
        self.folder.staging_path(&self.name).join(RECORD)
    }

    /// Nothing remains of it.
    pub(super) fn clear(&self) -> Result<(), ToolpackError> {
        let path = self.folder.staging_path(&self.name);
        files::delete(&path).map_err(ToolpackError::io("remove", &path))
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        if self.role == Role::Maker {
            // What can't be deleted now is swept away later.
            let _swept_later = self.clear();
        }
    }
}

fn hold(path: &Path) -> std::io::Result<File> {
    let folder = File::open(path)?;
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockShared)?;
    Ok(folder)
}

impl Staged {
    /// Writes down beside the pack what is known of it.
    pub(super) fn note(&self) -> Result<(), ToolpackError> {
        let record = Record {
            id: self.id.clone(),
            entry: self.entry.clone(),
            replaces: self.replaces.clone(),
            left_out: self.left_out.clone(),
        };
        // Text keys and plain values always serialise.
        let text = serde_json::to_vec(&record).unwrap_or_default();
        let path = self.place.record();
        files::replace(&path, &text, 0o600).map_err(ToolpackError::io("write", &path))
    }
}

#[cfg(test)]
impl Staged {
    /// As if its process had been killed.
    pub(super) fn abandon(mut self) {
        self.place.role = Role::Finder;
    }
}

impl Folder {
    /// Takes up what another process has staged and still holds.
    pub fn staged(&self, name: &str) -> Result<Staged, ToolpackError> {
        let place = StagingFolder::find(self, name)?;
        let path = place.record();
        let bytes = fs::read(&path).map_err(|_| ToolpackError::NotStaged(name.to_owned()))?;
        let record: Record = json::parse(&bytes)
            .map_err(|error| error.to_string())
            .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()))
            .map_err(|reason| ToolpackError::Lock { path, reason })?;
        let manifest = Manifest::read(&place.pack()).map_err(ToolpackError::Manifest)?;
        if !is_what_was_noted(&record, &manifest, &place)? {
            return Err(ToolpackError::NotStaged(name.to_owned()));
        }
        let Record { id, entry, replaces, left_out } = record;
        Ok(Staged { name: name.to_owned(), id, manifest, entry, replaces, left_out, place })
    }
}

fn is_what_was_noted(
    record: &Record,
    manifest: &Manifest,
    place: &StagingFolder,
) -> Result<bool, ToolpackError> {
    let pack = place.pack();
    Ok(manifest.id == record.id.as_str()
        && manifest.version == record.entry.version
        && manifest.permissions(&pack) == record.entry.permissions
        && manifest.definitions(&pack) == record.entry.definitions
        && hash::hash(&pack, ManifestScope::Meaning)? == record.entry.content_hash)
}
