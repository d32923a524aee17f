//! Takes over, once, what the version before kept: `toolpacks.lock`, a journal, and `enabled` in manifests.

use std::io;
use std::path::{Path, PathBuf};

use drawgate_core::json;
use drawgate_host::user_files;
use drawgate_sources::toolpack::Manifest;
use serde::Deserialize;
use serde_json::Value;

use super::change::Change;
use super::error::ToolpackError;
use super::folder::Folder;
use super::hash::{self, ManifestScope};
use super::id::PackId;
use super::lock::{self, LockEntries, LockEntry};
use crate::files;
use crate::lock::Consent;

const OLD_LOCK: &str = "toolpacks.lock";
const OLD_JOURNAL: &str = ".journal";
const OLD_FORMAT: u64 = 1;

/// What the journal says was begun.
#[derive(Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
enum Begun {
    Install { id: PackId, staged: String, entry: Value },
    Remove { id: PackId },
}

impl Folder {
    /// Takes over what the version before kept in a folder of packs, if it is there, and the consents that
    /// `consent` finds for what is installed. The lock gets all of it at once, or nothing.
    pub fn take_over(
        folder: &Path,
        consent: impl Fn(&PackId, &LockEntry) -> Option<Consent>,
    ) -> Result<(), ToolpackError> {
        let folder = Self::at(folder)?;
        let _guard = folder.alone()?;
        let (old_lock, journal) = folder.old_files();
        let mut old = read_old_lock(&old_lock)?;
        let begun = read_journal(&journal)?;
        if let Some(begun) = &begun {
            folder.finish(begun, &mut old)?;
        }
        lock::edit(folder.lock_path(), |lock| {
            for (id, mut entry) in old {
                let staged = folder.staged_path(&entry.content_hash);
                entry.enabled =
                    is_enabled(&if staged.exists() { staged } else { folder.pack_path(&id) });
                lock.entry(id).or_insert(entry);
            }
            for (id, entry) in lock.iter_mut().filter(|(_, entry)| entry.enabled) {
                entry.accepted.extend(consent(id, entry));
            }
        })?;
        folder.settle()?;
        for file in [old_lock, journal] {
            files::discard(&file).map_err(ToolpackError::io("remove", &file))?;
        }
        Ok(())
    }

    /// Whether the version before kept something there.
    #[must_use]
    pub fn is_old(folder: &Path) -> bool {
        folder.with_file_name(OLD_LOCK).exists() || folder.join(OLD_JOURNAL).exists()
    }

    fn old_files(&self) -> (PathBuf, PathBuf) {
        (self.path().with_file_name(OLD_LOCK), self.path().join(OLD_JOURNAL))
    }

    /// Brings to its end what the journal says; an install whose files are gone was not begun.
    fn finish(&self, begun: &Begun, old: &mut LockEntries) -> Result<(), ToolpackError> {
        match begun {
            Begun::Install { id, staged, entry } => {
                let entry = old_entry(entry.clone()).map_err(unusable(&self.old_files().1))?;
                let staged = self.staged_pack(staged);
                let has = |place: &Path| {
                    hash::hash(place, ManifestScope::Meaning)
                        .is_ok_and(|hash| hash == entry.content_hash)
                };
                if has(&self.pack_path(id)) {
                    old.insert(id.clone(), entry);
                } else if has(&staged) {
                    let entry = Box::new(entry);
                    self.prepare(&Change::Install {
                        id: id.clone(),
                        staged,
                        entry: entry.clone(),
                    })?;
                    old.insert(id.clone(), *entry);
                }
                Ok(())
            }
            Begun::Remove { id } if old.remove(id).is_some() => {
                self.prepare(&Change::Remove { id: id.clone() })
            }
            Begun::Remove { .. } => Ok(()),
        }
    }
}

/// Whether the manifest says so, which was the record of it.
fn is_enabled(pack: &Path) -> bool {
    Manifest::read(pack).is_ok_and(|manifest| manifest.enabled)
}

fn read_old_lock(path: &Path) -> Result<LockEntries, ToolpackError> {
    let Some(bytes) = read_if_there(path)? else { return Ok(LockEntries::new()) };
    let read = || {
        let mut lock = json::parse(&bytes).map_err(|error| error.to_string())?;
        if lock["format"].as_u64() != Some(OLD_FORMAT) {
            return Err(format!("its `format` is not {OLD_FORMAT}"));
        }
        let Value::Object(entries) = lock["toolpacks"].take() else {
            return Err("it has no `toolpacks`".to_owned());
        };
        let entry = |(id, entry): (String, Value)| {
            let id: PackId = id.parse().map_err(|error| format!("{error}"))?;
            Ok((id, old_entry(entry)?))
        };
        lock::checked(entries.into_iter().map(entry).collect::<Result<_, String>>()?)
    };
    read().map_err(unusable(path))
}

/// An entry of the version before, which said elsewhere whether a pack is enabled.
fn old_entry(mut entry: Value) -> Result<LockEntry, String> {
    entry["enabled"] = false.into();
    serde_json::from_value(entry).map_err(|error| error.to_string())
}

fn read_journal(path: &Path) -> Result<Option<Begun>, ToolpackError> {
    let Some(bytes) = read_if_there(path)? else { return Ok(None) };
    let value = json::parse(&bytes).map_err(|error| error.to_string());
    let begun =
        value.and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()));
    begun.map(Some).map_err(unusable(path))
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, ToolpackError> {
    match user_files::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ToolpackError::io("read", path)(error)),
    }
}

fn unusable(path: &Path) -> impl FnOnce(String) -> ToolpackError + use<> {
    let path = path.to_owned();
    move |reason| ToolpackError::Lock { path, reason }
}

#[cfg(test)]
#[path = "takeover_tests.rs"]
mod tests;
