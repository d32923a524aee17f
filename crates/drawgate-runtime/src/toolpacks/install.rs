//! Bringing a pack here, looking at it, and installing it.

use std::fs;
use std::path::Path;

use drawgate_sources::toolpack::{FILE as MANIFEST, Manifest};

use super::archive;
use super::change::Change;
use super::copy;
use super::error::{Code, ToolpackError};
use super::folder::Folder;
use super::github::Download;
use super::hash::{self, ManifestScope};
use super::id::PackId;
use super::list::{self, Installed};
use super::lock::{self, LockEntries, LockEntry};
use super::origin::Origin;
use super::pin;
use super::staged::{Staged, StagingFolder};
use crate::time;

/// On which terms a pack is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// What was asked for.
    pub intent: Intent,
    /// Whether it may be older than what is installed.
    pub downgrade: Downgrade,
    /// The time, for the lock file.
    pub now_ms: u64,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// To have it; a reference that has moved since is refused.
    Install,
    /// To have it as it is now.
    Update,
}

/// Whether a pack may be older than the installed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Downgrade {
    /// It may not.
    Refuse,
    /// It may.
    Allow,
}

/// Where a pack came from, for the lock file.
struct Provenance {
    source: String,
    reference: Option<String>,
    commit: Option<String>,
    archive_hash: Option<String>,
}

impl Folder {
    /// Stages a pack from a folder of this machine.
    pub fn stage_folder(&self, source: &Path, terms: &Terms) -> Result<Staged, ToolpackError> {
        let source = fs::canonicalize(source).map_err(ToolpackError::io("read", source))?;
        let place = StagingFolder::make(self)?;
        let left_out = copy::copy(&source, &place.pack(), self.path())?;
        let provenance = Provenance {
            source: Origin::Folder(source).locked_as(),
            reference: None,
            commit: None,
            archive_hash: None,
        };
        self.inspect(place, provenance, left_out, terms)
    }

    /// Stages a pack from an archive of GitHub.
    pub fn stage_archive(
        &self,
        download: &Download,
        terms: &Terms,
    ) -> Result<Staged, ToolpackError> {
        let place = StagingFolder::make(self)?;
        let pinned = &download.pinned;
        archive::unpack(&download.archive, Some(&pinned.commit), &place.pack())?;
        let provenance = Provenance {
            source: pinned.source.locked_as(),
            reference: Some(pinned.reference.clone()),
            commit: Some(pinned.commit.clone()),
            archive_hash: Some(hash::of_bytes(&download.archive)),
        };
        self.inspect(place, provenance, Vec::new(), terms)
    }

    /// Installs what was staged: its folder and its entry, both or neither.
    pub fn commit(&self, staged: Staged) -> Result<Installed, ToolpackError> {
        let _guard = self.exclusive()?;
        let lock = lock::read(self.lock_path())?;
        let is_expected = match (lock.get(&staged.id), &staged.replaces) {
            (None, None) => true,
            (Some(now), Some(before)) => now.is_same_installation(before),
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_expected {
            let message =
                format!("`{}` was changed by another process meanwhile; try again", staged.id);
            return Err(ToolpackError::rejected(Code::Pin, message));
        }
        self.check_place(&lock, &staged.id)?;
        let pack = staged.place.pack();
        if hash::hash(&pack, ManifestScope::Meaning)? != staged.entry.content_hash {
            return Err(ToolpackError::NotStaged(staged.name.clone()));
        }
        let (id, entry) = (staged.id.clone(), Box::new(staged.entry.clone()));
        self.apply(&Change::Install { id, staged: pack, entry })?;
        staged.place.clear()?;
        let id = staged.id;
        list::one(self, &id)
    }

    /// Reads a pack that lies in its place, and whether it may be installed.
    fn inspect(
        &self,
        place: StagingFolder,
        provenance: Provenance,
        left_out: Vec<String>,
        terms: &Terms,
    ) -> Result<Staged, ToolpackError> {
        let pack = place.pack();
        let manifest = read_manifest(&pack)?;
        let id: PackId = manifest
            .id
            .parse()
            .map_err(|error| ToolpackError::rejected(Code::Manifest, format!("{error}")))?;
        let entry = entry(&manifest, &pack, provenance, terms)?;
        let lock = self.lock()?;
        let replaces = pin::check(&lock, &id, &entry, terms)?;
        self.check_place(&lock, &id)?;
        let name = place.name.clone();
        let staged = Staged { name, id, manifest, entry, replaces, left_out, place };
        staged.note()?;
        Ok(staged)
    }

    /// What was put there by hand is not overwritten.
    fn check_place(&self, lock: &LockEntries, id: &PackId) -> Result<(), ToolpackError> {
        let place = self.pack_path(id);
        if lock.contains_key(id) || place.symlink_metadata().is_err() {
            return Ok(());
        }
        let message = format!(
            "`{}` is there, but was not installed by drawgate; move it away first",
            place.display()
        );
        Err(ToolpackError::rejected(Code::Source, message))
    }
}

fn read_manifest(pack: &Path) -> Result<Manifest, ToolpackError> {
    if !pack.join(MANIFEST).is_file() {
        let message = format!("there is no `{MANIFEST}` in it, so it is not a toolpack");
        return Err(ToolpackError::rejected(Code::Manifest, message));
    }
    Manifest::read(pack).map_err(ToolpackError::Manifest)
}

fn entry(
    manifest: &Manifest,
    pack: &Path,
    provenance: Provenance,
    terms: &Terms,
) -> Result<LockEntry, ToolpackError> {
    Ok(LockEntry {
        version: manifest.version.clone(),
        source: provenance.source,
        reference: provenance.reference,
        commit: provenance.commit,
        content_hash: hash::hash(pack, ManifestScope::Meaning)?,
        content_hash_before: None,
        archive_hash: provenance.archive_hash,
        definitions: manifest.definitions(pack),
        permissions: manifest.permissions(pack),
        installed_at: time::iso(terms.now_ms),
        // Whatever its author says: an operator enables it.
        enabled: false,
        accepted: Vec::new(),
    })
}
