//! The folder that holds the installed packs.
//!
//! Each pack is a folder in it; names that begin with a dot are the gateway's own: `.busy` keeps two
//! processes from changing it at once, `.staging` holds what is being brought, `.staged` and `.leaving`
//! what a change is about, `.trash` what is being deleted, `.quarantine` files that were changed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drawgate_host::own_files;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::change::Change;
use super::error::{Code, ToolpackError};
use super::hash::HASH_PREFIX;
use super::id::PackId;
use super::list::{self, Installed, Integrity};
use super::lock::{self, LockEntries, LockEntry};
use crate::files;
use crate::lock::{Consent, LOCK_FILE};

const BUSY: &str = ".busy";
const STAGING: &str = ".staging";
const STAGED: &str = ".staged";
const LEAVING: &str = ".leaving";
const TRASH: &str = ".trash";
const QUARANTINE: &str = ".quarantine";

/// Another process needs milliseconds for what it does under the lock.
const PATIENCE: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(10);

/// The folder of installed packs, and the lock file beside it.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    lock_path: PathBuf,
}

/// Keeps others away while it lives.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

impl Folder {
    /// Opens the folder, makes it if it is not there, and finishes what a killed process began.
    pub fn open(folder: &Path) -> Result<Self, ToolpackError> {
        let folder = Self::at(folder)?;
        folder.exclusive()?;
        Ok(folder)
    }

    /// The folder, made if it is not there.
    pub(super) fn at(folder: &Path) -> Result<Self, ToolpackError> {
        let path = std::path::absolute(folder).map_err(ToolpackError::io("open", folder))?;
        let lock_path = path.with_file_name(LOCK_FILE);
        for part in ["", STAGING, STAGED, LEAVING, TRASH].map(|name| path.join(name)) {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&part);
            made.map_err(ToolpackError::io("make", &part))?;
        }
        Ok(Self { path, lock_path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the lock file is.
    #[must_use]
    pub fn lock_path(&self) -> &Path {
        &self.lock_path
    }

    /// What the lock file says.
    pub fn lock(&self) -> Result<LockEntries, ToolpackError> {
        let _guard = self.shared()?;
        lock::read(&self.lock_path)
    }

    /// Every pack that is there or should be, by name.
    pub fn list(&self) -> Result<Vec<Installed>, ToolpackError> {
        let _guard = self.shared()?;
        list::all(self)
    }

    /// One pack.
    pub fn get(&self, id: &PackId) -> Result<Installed, ToolpackError> {
        let _guard = self.shared()?;
        list::one(self, id)
    }

    /// Enables a pack with an operator's consent, if it is valid and as it was installed.
    pub fn enable(
        &self,
        id: &PackId,
        consent: Option<Consent>,
    ) -> Result<Installed, ToolpackError> {
        let _guard = self.exclusive()?;
        check_fit(&self.own(id)?)?;
        self.edit_entry(id, |entry| entry.enable(consent))
    }

    /// Disables a pack.
    pub fn disable(&self, id: &PackId) -> Result<Installed, ToolpackError> {
        let _guard = self.exclusive()?;
        self.own(id)?;
        self.edit_entry(id, LockEntry::disable)
    }

    fn edit_entry(
        &self,
        id: &PackId,
        change: impl FnOnce(&mut LockEntry),
    ) -> Result<Installed, ToolpackError> {
        lock::edit(&self.lock_path, |lock| {
            if let Some(entry) = lock.get_mut(id) {
                change(entry);
            }
        })?;
        list::one(self, id)
    }

    /// Removes a pack: its folder and its entry.
    pub fn remove(&self, id: &PackId) -> Result<(), ToolpackError> {
        let _guard = self.exclusive()?;
        self.own(id)?;
        self.apply(&Change::Remove { id: id.clone() })
    }

    /// A pack that is ours to change.
    fn own(&self, id: &PackId) -> Result<Installed, ToolpackError> {
        let pack = list::one(self, id)?;
        if pack.integrity != Integrity::Foreign {
            return Ok(pack);
        }
        let message = format!(
            "`{id}` {}; move `{}` away, or install it from there",
            pack.integrity,
            pack.folder.display()
        );
        Err(ToolpackError::rejected(Code::Source, message))
    }

    /// Alone, with nothing left unfinished.
    pub(super) fn exclusive(&self) -> Result<FolderLock, ToolpackError> {
        let guard = self.alone()?;
        if let Err(error) = self.settle() {
            let folder = self.path.display();
            tracing::warn!(%error, "`{folder}` can't be made what its lock says");
        }
        self.sweep()?;
        Ok(guard)
    }

    /// Alone, whatever is left unfinished.
    pub(super) fn alone(&self) -> Result<FolderLock, ToolpackError> {
        self.acquire(FlockOperation::NonBlockingLockExclusive)
    }

    /// Shared with other readers; no process may change anything meanwhile.
    pub(super) fn shared(&self) -> Result<FolderLock, ToolpackError> {
        let guard = self.acquire(FlockOperation::NonBlockingLockShared)?;
        if self.is_settled() {
            return Ok(guard);
        }
        drop(guard);
        drop(self.exclusive()?);
        self.acquire(FlockOperation::NonBlockingLockShared)
    }

    fn acquire(&self, operation: FlockOperation) -> Result<FolderLock, ToolpackError> {
        let path = self.path.join(BUSY);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file =
            own_files::open(&path, &mut options).map_err(ToolpackError::io("open", &path))?;
        for _ in 0..PATIENCE {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(FolderLock { _file: file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(PAUSE),
                Err(error) => return Err(ToolpackError::io("lock", &path)(error)),
            }
        }
        Err(ToolpackError::Busy(self.path.clone()))
    }

    /// Deletes what dead processes staged, and the trash. What a living one stages is held by it.
    fn sweep(&self) -> Result<(), ToolpackError> {
        for place in entries(&self.path.join(STAGING))? {
            let held = File::open(&place).is_ok_and(|folder| {
                rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err()
            });
            if !held {
                files::delete(&place).map_err(ToolpackError::io("remove", &place))?;
            }
        }
        self.empty_trash()
    }

    pub(super) fn empty_trash(&self) -> Result<(), ToolpackError> {
        let delete =
            |place: &PathBuf| files::delete(place).map_err(ToolpackError::io("remove", place));
        entries(&self.path.join(TRASH))?.iter().try_for_each(delete)
    }

    pub(super) fn pack_path(&self, id: &PackId) -> PathBuf {
        self.path.join(id.as_str())
    }

    /// Where whole versions are that the lock is about to name.
    pub(super) fn staged_folder(&self) -> PathBuf {
        self.path.join(STAGED)
    }

    pub(super) fn staged_path(&self, content_hash: &str) -> PathBuf {
        self.staged_folder().join(content_hash.trim_start_matches(HASH_PREFIX))
    }

    /// Where packs are that the lock is about not to name any more.
    pub(super) fn leaving_folder(&self) -> PathBuf {
        self.path.join(LEAVING)
    }

    pub(super) fn leaving_path(&self, id: &PackId) -> PathBuf {
        self.leaving_folder().join(id.as_str())
    }

    pub(super) fn quarantine_path(&self, id: &str) -> PathBuf {
        self.path.join(QUARANTINE).join(id)
    }

    /// An unused place for what is to be deleted.
    pub(super) fn trash_path(&self) -> Result<PathBuf, ToolpackError> {
        let name = files::random_name().ok_or(ToolpackError::NoRandomness)?;
        Ok(self.path.join(TRASH).join(name))
    }

    /// Where something is staged under a name.
    pub(super) fn staging_path(&self, name: &str) -> PathBuf {
        self.path.join(STAGING).join(name)
    }

    /// The pack itself in there.
    pub(super) fn staged_pack(&self, name: &str) -> PathBuf {
        self.staging_path(name).join("pack")
    }
}

fn check_fit(pack: &Installed) -> Result<(), ToolpackError> {
    match &pack.integrity {
        Integrity::Locked => {}
        Integrity::Unread(what) => return Err(ToolpackError::Unread(what.clone())),
        Integrity::Changed(_) | Integrity::Foreign | Integrity::Missing => {
            let message = format!(
                "`{}` can't be enabled: it {}; install it again, or put back what was installed",
                pack.id, pack.integrity
            );
            return Err(ToolpackError::rejected(Code::Pin, message));
        }
    }
    match &pack.manifest {
        Ok(_) => Ok(()),
        Err(problems) => Err(ToolpackError::Manifest(problems.clone())),
    }
}

/// What is in a folder of our own.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>, ToolpackError> {
    let read = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>();
    read().map_err(ToolpackError::io("read", folder))
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
