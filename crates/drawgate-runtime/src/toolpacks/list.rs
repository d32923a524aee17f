//! What is installed, and whether it is what was installed.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use drawgate_sources::toolpack::{Manifest, Problem, Problems};
use rustix::io::Errno;

use super::error::{Code, ToolpackError, Unread};
use super::folder::Folder;
use super::hash::{self, ManifestScope};
use super::id::PackId;
use super::lock::{self, LockEntries, LockEntry};

/// A pack that is in the folder or in the lock file.
#[derive(Debug, Clone)]
pub struct Installed {
    /// Its name, which is that of its folder.
    pub id: String,
    /// Where it is.
    pub folder: PathBuf,
    /// Whether it is what was installed.
    pub integrity: Integrity,
    /// What it says of itself.
    pub manifest: Result<Manifest, Problems>,
    /// What the lock file says of it.
    pub entry: Option<LockEntry>,
}

/// Whether a pack is what was installed. Prints as what follows "it".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integrity {
    /// It is.
    Locked,
    /// It is not, or can't be any more; in which way, in words that follow "it".
    Changed(String),
    /// The machine could not say; it may the next time.
    Unread(Unread),
    /// Nothing is known of it.
    Foreign,
    /// It is not there.
    Missing,
}

impl Installed {
    /// Whether its tools are to be offered.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.enabled)
    }

    /// Whether its tools may be offered: it is enabled, valid and what was installed.
    #[must_use]
    pub fn is_loadable(&self) -> bool {
        self.is_enabled() && self.manifest.is_ok() && self.integrity == Integrity::Locked
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => formatter.write_str("is as it was installed"),
            Self::Changed(how) => formatter.write_str(how),
            Self::Unread(what) => {
                write!(formatter, "can't be compared with what was installed: {what}")
            }
            Self::Foreign => formatter.write_str("was not installed by drawgate"),
            Self::Missing => formatter.write_str("is in the lock file, but its folder is gone"),
        }
    }
}

/// Every pack. The caller holds the folder's lock.
pub(super) fn all(folder: &Folder) -> Result<Vec<Installed>, ToolpackError> {
    let lock = lock::read(folder.lock_path())?;
    let mut names: BTreeSet<String> = lock.keys().map(ToString::to_string).collect();
    names.extend(folders(folder)?);
    Ok(names.into_iter().map(|name| examine(folder, &lock, name)).collect())
}

/// One pack. The caller holds the folder's lock.
pub(super) fn one(folder: &Folder, id: &PackId) -> Result<Installed, ToolpackError> {
    let lock = lock::read(folder.lock_path())?;
    let there = folder.pack_path(id).symlink_metadata().is_ok();
    if there || lock.contains_key(id) {
        return Ok(examine(folder, &lock, id.to_string()));
    }
    let installed = all(folder)?.into_iter().map(|pack| pack.id).collect();
    Err(ToolpackError::Unknown { id: id.to_string(), installed })
}

/// The names of folders, and of links that could be taken for some.
fn folders(folder: &Folder) -> Result<Vec<String>, ToolpackError> {
    let failed = || ToolpackError::io::<std::io::Error>("read", folder.path());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.path()).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && !entry.file_type().map_err(failed())?.is_file() {
            names.push(name);
        }
    }
    Ok(names)
}

fn examine(folder: &Folder, lock: &LockEntries, id: String) -> Installed {
    let place = folder.path().join(&id);
    let entry = id.parse().ok().and_then(|id: PackId| lock.get(&id)).cloned();
    let integrity = integrity(&place, entry.as_ref());
    let manifest = Manifest::read(&place).and_then(|manifest| named_as(manifest, &id));
    Installed { id, folder: place, integrity, manifest, entry }
}

fn integrity(place: &Path, entry: Option<&LockEntry>) -> Integrity {
    let Some(entry) = entry else { return Integrity::Foreign };
    match place.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Integrity::Missing,
        Err(error) => Integrity::Unread(Unread::new(place, &error)),
        Ok(data) if !data.is_dir() => changed("it is not a folder any more"),
        Ok(_) => judge(hash::hash(place, ManifestScope::Meaning), &entry.content_hash),
    }
}

/// What a look at the files comes to.
fn judge(found: Result<String, ToolpackError>, installed: &str) -> Integrity {
    match found {
        Ok(found) if found == installed => Integrity::Locked,
        Ok(_) => changed("its files are not those that were installed"),
        Err(ToolpackError::Io { path, source, .. }) if may_pass(&source) => {
            Integrity::Unread(Unread::new(&path, &source))
        }
        // An earlier version may have installed it, or it was put there since.
        Err(ToolpackError::Rejected { code: Code::Path, message }) => Integrity::Changed(format!(
            "holds a name that this version refuses: {message}; if it came with the pack, ask its author to rename it"
        )),
        Err(error) => changed(&error.to_string()),
    }
}

fn changed(how: &str) -> Integrity {
    Integrity::Changed(format!("was changed since it was installed: {how}"))
}

/// Whether an error says nothing of the file: it is not another than it was, or none.
fn may_pass(error: &io::Error) -> bool {
    let is_other = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NXIO];
    Errno::from_io_error(error).is_none_or(|error| !is_other.contains(&error))
}

/// A pack answers to the name of its folder, and to no other.
fn named_as(manifest: Manifest, id: &str) -> Result<Manifest, Problems> {
    if manifest.id == id {
        return Ok(manifest);
    }
    let problem = Problem {
        path: "$.id".to_owned(),
        message: format!("`{}` is not the name of its folder, `{id}`", manifest.id),
        hint: Some("move it away, and install it from there".to_owned()),
    };
    Err(Problems { problems: vec![problem] })
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
