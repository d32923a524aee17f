//! The folder that holds the installed packs.
//!
//! Each pack is a folder in it; names that begin with a dot are the gateway's own: `.busy` keeps two
//! processes from changing it at once, `.journal` is what has to be finished, `.staging` holds what
//! is being brought, `.trash` what is being deleted.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drawgate_host::own_files;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::enabled::{self, Enabled};
use super::error::{Code, ToolpackError};
use super::files;
use super::id::PackId;
use super::journal::{self, Act};
use super::list::{self, Installed, Integrity};
use super::lock::LockFile;

/// The name of the lock file, beside the folder.
pub const LOCK_FILE: &str = "toolpacks.lock";
const BUSY: &str = ".busy";
const JOURNAL: &str = ".journal";
const STAGING: &str = ".staging";
const TRASH: &str = ".trash";

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
        let path = std::path::absolute(folder).map_err(ToolpackError::io("open", folder))?;
        let lock_path = path.with_file_name(LOCK_FILE);
        let folder = Self { path, lock_path };
        for part in [&folder.path, &folder.path.join(STAGING), &folder.path.join(TRASH)] {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(part);
            made.map_err(ToolpackError::io("make", part))?;
        }
        folder.exclusive()?;
        Ok(folder)
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
    pub fn lock(&self) -> Result<LockFile, ToolpackError> {
        let _guard = self.shared()?;
        LockFile::read(&self.lock_path)
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

    /// Enables or disables a pack. Only one that is valid and as it was installed can be enabled.
    pub fn set_enabled(&self, id: &PackId, to: Enabled) -> Result<Installed, ToolpackError> {
        let _guard = self.exclusive()?;
        let pack = self.own(id)?;
        if to == Enabled::On {
            check_fit(&pack)?;
        }
        enabled::switch(&pack.folder, &self.path.join(STAGING), to)?;
        list::one(self, id)
    }

    /// Removes a pack: its folder and its entry.
    pub fn remove(&self, id: &PackId) -> Result<(), ToolpackError> {
        let _guard = self.exclusive()?;
        self.own(id)?;
        let trash = files::random_name()?;
        journal::apply(self, &Act::Remove { id: id.clone(), trash })?;
        self.empty_trash()
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
        let guard = self.acquire(FlockOperation::NonBlockingLockExclusive)?;
        journal::recover(self)?;
        self.sweep()?;
        Ok(guard)
    }

    /// Shared with other readers; no process may change anything meanwhile.
    pub(super) fn shared(&self) -> Result<FolderLock, ToolpackError> {
        let guard = self.acquire(FlockOperation::NonBlockingLockShared)?;
        if !self.journal_path().exists() {
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
                delete(&place)?;
            }
        }
        self.empty_trash()
    }

    fn empty_trash(&self) -> Result<(), ToolpackError> {
        entries(&self.path.join(TRASH))?.iter().try_for_each(|place| delete(place))
    }

    pub(super) fn pack_path(&self, id: &PackId) -> PathBuf {
        self.path.join(id.as_str())
    }

    pub(super) fn journal_path(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    pub(super) fn trash_path(&self, name: &str) -> PathBuf {
        self.path.join(TRASH).join(name)
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
fn entries(folder: &Path) -> Result<Vec<PathBuf>, ToolpackError> {
    let read = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>();
    read().map_err(ToolpackError::io("read", folder))
}

/// Deletes a file or a folder with all in it, without following links.
pub(super) fn delete(place: &Path) -> Result<(), ToolpackError> {
    let is_folder = fs::symlink_metadata(place).is_ok_and(|data| data.is_dir());
    let deleted = if is_folder { fs::remove_dir_all(place) } else { fs::remove_file(place) };
    match deleted {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ToolpackError::io("remove", place)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
