//! Changing what is installed, without a journal: the lock is the truth, and the folder follows it.
//!
//! What an install brings is complete under `.staged`, by its hash, before the lock names it; what a
//! removal takes is under `.leaving` before the lock stops naming it. After that, the folder is made what
//! the lock says; after a process that was killed, the next one that opens the folder does so.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::error::ToolpackError;
use super::folder::{Folder, entries};
use super::hash::{self, HASH_PREFIX, ManifestScope};
use super::id::PackId;
use super::lock::{self, LockEntries, LockEntry};
use crate::files;

/// A change of a folder of packs and its lock.
#[derive(Debug)]
pub(super) enum Change {
    /// What is staged in this place takes that of the pack.
    Install { id: PackId, staged: PathBuf, entry: Box<LockEntry> },
    /// A pack goes away.
    Remove { id: PackId },
}

impl Folder {
    /// Makes a change, or leaves all as it was. The caller holds the folder's lock.
    pub(super) fn apply(&self, change: &Change) -> Result<(), ToolpackError> {
        let locked = self.prepare(change).and_then(|()| self.write_lock(change));
        let settled = self.settle();
        let before = locked?;
        match settled {
            Err(error) if !self.is_in_place(change) => {
                // What can't be taken back is settled by the next process that comes.
                if lock::edit(self.lock_path(), |lock| *lock = before).is_ok() {
                    let _settled_later = self.settle();
                }
                Err(error)
            }
            Err(error) => {
                tracing::warn!(%error, "what a change of toolpacks has left is removed later");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Whether the folder is as it is to be after a change.
    fn is_in_place(&self, change: &Change) -> bool {
        match change {
            Change::Install { id, entry, .. } => {
                content_hash(&self.pack_path(id)).as_ref() == Some(&entry.content_hash)
            }
            Change::Remove { id } => self.pack_path(id).symlink_metadata().is_err(),
        }
    }

    /// Brings the files to where they are found after a kill. Until the lock is replaced that changes
    /// nothing: what is staged is not named, and what leaves comes back.
    pub(super) fn prepare(&self, change: &Change) -> Result<(), ToolpackError> {
        let (from, to) = match change {
            Change::Install { staged, entry, .. } => {
                (staged.clone(), self.staged_path(&entry.content_hash))
            }
            Change::Remove { id } => (self.pack_path(id), self.leaving_path(id)),
        };
        if from.symlink_metadata().is_ok() {
            files::delete(&to).map_err(ToolpackError::io("remove", &to))?;
        }
        match fs::rename(&from, &to) {
            // A pack whose folder is gone can be removed.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound
                    && matches!(change, Change::Remove { .. }) =>
            {
                Ok(())
            }
            moved => moved.map_err(ToolpackError::io("write", &to)),
        }?;
        sync_both(&from, &to)
    }

    /// Has the lock say what is new, and returns what it said before.
    pub(super) fn write_lock(&self, change: &Change) -> Result<LockEntries, ToolpackError> {
        lock::edit(self.lock_path(), |lock| match change {
            Change::Install { id, entry, .. } => {
                let mut entry = entry.as_ref().clone();
                entry.content_hash_before = lock.get(id).map(|old| old.content_hash.clone());
                lock.insert(id.clone(), entry);
            }
            Change::Remove { id } => drop(lock.remove(id)),
        })
    }

    /// Whether nothing waits to be settled.
    pub(crate) fn is_settled(&self) -> bool {
        let is_empty = |place: PathBuf| entries(&place).is_ok_and(|entries| entries.is_empty());
        is_empty(self.staged_folder()) && is_empty(self.leaving_folder())
    }

    /// Makes the folder what the lock says. The caller holds the folder's lock.
    pub(super) fn settle(&self) -> Result<(), ToolpackError> {
        if self.is_settled() {
            return Ok(());
        }
        let lock = lock::read(self.lock_path())?;
        let staged = entries(&self.staged_folder())?;
        let staged = staged.iter().map(|staged| self.settle_staged(&lock, staged));
        let staged = staged.fold(Ok(()), Result::and);
        let leaving = entries(&self.leaving_folder())?;
        let leaving = leaving.iter().map(|leaving| self.settle_leaving(&lock, leaving));
        leaving.fold(staged, Result::and).and_then(|()| self.empty_trash())
    }

    /// Puts a staged pack in its place if the lock names it. What is there then is another version, or
    /// files that were changed.
    fn settle_staged(&self, lock: &LockEntries, staged: &Path) -> Result<(), ToolpackError> {
        let by_hash = |hash: &str| {
            lock.iter().find(|(_, entry)| entry.content_hash == hash).map(|(id, _)| id)
        };
        if let Some(id) = content_hash(staged).as_deref().and_then(by_hash) {
            let place = self.pack_path(id);
            if content_hash(&place) != content_hash(staged) {
                self.put(staged, &place)?;
            }
        }
        if staged.symlink_metadata().is_err() {
            return Ok(());
        }
        let brought = format!("{HASH_PREFIX}{}", name(staged));
        let is_version = content_hash(staged).is_some_and(|hash| {
            let mut known =
                lock.values().map(|entry| (&entry.content_hash, &entry.content_hash_before));
            hash == brought
                || known.any(|(now, before)| *now == hash || before.as_ref() == Some(&hash))
        });
        if is_version {
            return self.throw_away(staged);
        }
        let id = by_hash(&brought).map_or_else(|| name(staged), ToString::to_string);
        self.quarantine(staged, &id)
    }

    /// Brings a pack back that the lock still names; the others are removed.
    fn settle_leaving(&self, lock: &LockEntries, leaving: &Path) -> Result<(), ToolpackError> {
        let (id, place) = (name(leaving), self.path().join(name(leaving)));
        let is_named = lock.keys().any(|named| named.as_str() == id);
        match (is_named, place.symlink_metadata().is_ok()) {
            (true, false) => rename(leaving, &place, RenameFlags::empty()),
            (true, true) => self.quarantine(leaving, &id),
            (false, _) => self.throw_away(leaving),
        }
    }

    /// Puts a pack in its place. What was there comes to where the pack was.
    fn put(&self, staged: &Path, place: &Path) -> Result<(), ToolpackError> {
        if place.symlink_metadata().is_err() {
            return rename(staged, place, RenameFlags::NOREPLACE);
        }
        match rename(staged, place, RenameFlags::EXCHANGE) {
            // This file system can't exchange: for a moment the folder is missing.
            Err(ToolpackError::Io { source, .. })
                if [Some(Errno::INVAL), Some(Errno::NOSYS)]
                    .contains(&Errno::from_io_error(&source)) =>
            {
                let aside = self.trash_path()?;
                rename(place, &aside, RenameFlags::empty())?;
                rename(staged, place, RenameFlags::empty())?;
                rename(&aside, staged, RenameFlags::empty())
            }
            exchanged => exchanged,
        }
    }

    /// Keeps files that were changed since they were installed: the last ones of each pack.
    fn quarantine(&self, place: &Path, id: &str) -> Result<(), ToolpackError> {
        let kept = self.quarantine_path(id);
        if let Some(folder) = kept.parent() {
            fs::create_dir_all(folder).map_err(ToolpackError::io("make", folder))?;
        }
        files::delete(&kept).map_err(ToolpackError::io("remove", &kept))?;
        let shown = kept.display();
        tracing::warn!(toolpack = id, "its files had been changed; they are kept in `{shown}`");
        rename(place, &kept, RenameFlags::empty())
    }

    /// Takes a folder out of sight in one step; deleting it takes many.
    fn throw_away(&self, place: &Path) -> Result<(), ToolpackError> {
        rename(place, &self.trash_path()?, RenameFlags::empty())
    }
}

fn name(place: &Path) -> String {
    place.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn content_hash(folder: &Path) -> Option<String> {
    hash::hash(folder, ManifestScope::Meaning).ok()
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), ToolpackError> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, flags) {
        Err(Errno::INVAL | Errno::NOSYS) if flags != RenameFlags::EXCHANGE => {
            fs::rename(from, to).map_err(ToolpackError::io("write", to))
        }
        renamed => renamed.map_err(ToolpackError::io("write", to)),
    }?;
    sync_both(from, to)
}

fn sync_both(one: &Path, other: &Path) -> Result<(), ToolpackError> {
    for parent in [one, other].into_iter().filter_map(Path::parent) {
        files::sync_folder(parent).map_err(ToolpackError::io("write", parent))?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
