//! The data folder and the lock that lets one process write in it.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::trusted::followed::FollowedPath;
use crate::{own_files, ownership};

/// Why a data folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It is not there.
    #[error("there is no data folder `{}`: no gateway has run on it yet", path.display())]
    Absent {
        /// The folder.
        path: PathBuf,
    },
    /// It can't be made, read or written.
    #[error("data folder `{}` can't be used; check that it exists and that you may write in it", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It, or a file in it, belongs to somebody else.
    #[error("data folder: `{}` belongs to user id {owner}, and you are {user}; choose a folder of your own", path.display())]
    Foreign {
        /// The folder, or the file in it.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// This process's user.
        user: u32,
    },
    /// Others may look into it, or change something in it.
    #[error("data folder: others may open `{}` (mode {mode:03o}); if it is your own, run `chmod -R go-rwx {}`; if it came with a repository or from somebody else, remove it", path.display(), dir.display())]
    Open {
        /// The folder, or the file in it.
        path: PathBuf,
        /// The folder.
        dir: PathBuf,
        /// The mode.
        mode: u32,
    },
    /// Others may put another folder in its place.
    #[error("others may write `{}`, and put another data folder in the place of `{}`; run `chmod go-w {}`, or choose a folder elsewhere", path.display(), dir.display(), path.display())]
    Replaceable {
        /// The folder above.
        path: PathBuf,
        /// The data folder.
        dir: PathBuf,
    },
    /// Another process writes in it.
    #[error("data folder `{}` is in use by process {pid}; stop it or choose another folder", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
        /// The process that holds the lock.
        pid: String,
    },
}

/// A data folder.
#[derive(Debug, Clone)]
pub struct DataDir {
    path: PathBuf,
}

/// The right to write in a data folder, until dropped.
#[derive(Debug)]
pub struct DataDirLock {
    /// The system releases the lock when the file is closed, also after `kill -9`.
    _file: File,
}

impl DataDir {
    /// The file whose lock is the right to write.
    pub(crate) const LOCK: &str = "lock";
    /// The file whose lock is the right to follow.
    pub(crate) const NEXT_LOCK: &str = "next.lock";
    /// The database of state.
    pub(crate) const STATE: &str = "drawgate.db";
    /// The database of the audit log.
    pub(crate) const AUDIT: &str = "audit.db";
    /// The folder in it that the built-in tools write.
    pub const WORKSPACE: &str = "workspace";
    /// The folder in it where servers have folders of their own.
    pub const SERVERS: &str = "servers";
    /// The folder in it with the files of plugins, which their programs read.
    pub const PLUGINS: &str = "plugins";
    /// The folder in it with packages that were fetched for servers, which their programs read.
    pub const PACKAGES: &str = "packages";
    /// The folder in it where runs of other programs have folders of their own.
    pub const RUNS: &str = "runs";
    /// The folder of toolpacks, which is in it where the configuration is; their commands read it.
    pub const TOOLPACKS: &str = "toolpacks";
    /// The folders in it that programs and tools write.
    pub const WRITABLE: &[&str] = &[Self::WORKSPACE, Self::SERVERS, Self::RUNS];
    /// The list of all folders that programs and tools could write at some time.
    pub const WRITABLE_LIST: &str = "writable.jsonl";
    /// What is in these is not the gateway's own.
    pub const ROOMS: &[&str] = &[
        Self::WORKSPACE,
        Self::SERVERS,
        Self::PLUGINS,
        Self::PACKAGES,
        Self::RUNS,
        Self::TOOLPACKS,
    ];

    /// Opens a folder for writing; makes it, for its owner alone, if it is not there. What is there must
    /// be its owner's alone as well, with all that is in it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DataDirError> {
        let path = path.into();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|source| DataDirError::Io { path: path.clone(), source })?;
        let dir = Self::existing(path)?;
        dir.check_files()?;
        dir.keep_out_of_git()?;
        Ok(dir)
    }

    /// Opens a folder that must be there, for reading. It must be its owner's alone; root reads those of
    /// others, too.
    pub fn existing(path: impl Into<PathBuf>) -> Result<Self, DataDirError> {
        let dir = Self { path: path.into() };
        match fs::read_dir(&dir.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(DataDirError::Absent { path: dir.path });
            }
            found => drop(found.map_err(failed(&dir.path))?),
        }
        dir.check_folder()?;
        Ok(dir)
    }

    /// Takes the lock.
    pub fn exclusive(&self) -> Result<DataDirLock, DataDirError> {
        self.take(Self::LOCK)
    }

    /// Takes the right to follow the process that writes in the folder now. Others that would leave it to
    /// who has it ask [`successor`](Self::successor).
    pub fn succeed(&self) -> Result<DataDirLock, DataDirError> {
        self.take(Self::NEXT_LOCK)
    }

    /// The process that writes in a folder, if there is one.
    #[must_use]
    pub fn user(path: &Path) -> Option<u32> {
        lock_holder(&path.join(Self::LOCK))
    }

    /// The process that has the right to write next in a folder, if there is one.
    #[must_use]
    pub fn successor(path: &Path) -> Option<u32> {
        lock_holder(&path.join(Self::NEXT_LOCK))
    }

    fn take(&self, name: &str) -> Result<DataDirLock, DataDirError> {
        let path = self.file(name);
        let failed = |source| DataDirError::Io { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = own_files::open(&path, &mut options).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(DataDirError::Locked {
                    path: self.path.clone(),
                    pid: holder(&mut file),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
        Ok(DataDirLock { _file: file })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a store has been opened in it before.
    #[must_use]
    pub fn has_state(&self) -> bool {
        self.file(Self::STATE).exists()
    }

    /// A file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Checks the folder itself, and that nobody else can put another in its place. (Who owns a folder
    /// above can, but that one would be theirs, and is refused.) Root looks after everybody's.
    fn check_folder(&self) -> Result<(), DataDirError> {
        let found = fs::metadata(&self.path).map_err(failed(&self.path))?;
        if !rustix::process::geteuid().is_root() {
            check_owner(&self.path, &found)?;
        }
        if ownership::is_open(&found) {
            return Err(self.open_to_others(&self.path, &found));
        }
        let followed = FollowedPath::of(&self.path);
        for above in followed.entries().flat_map(|entry| entry.ancestors().skip(1)) {
            let found = fs::metadata(above).map_err(failed(above))?;
            if ownership::others_replace_in(&found) {
                let (path, dir) = (above.to_owned(), self.path.clone());
                return Err(DataDirError::Replaceable { path, dir });
            }
        }
        Ok(())
    }

    /// Checks all that is in it but for what is not the gateway's own. Nobody else can read what is in a
    /// closed folder, but they may have written it while it was open.
    fn check_files(&self) -> Result<(), DataDirError> {
        check_owner(&self.path, &fs::metadata(&self.path).map_err(failed(&self.path))?)?;
        let rooms: Vec<PathBuf> = Self::ROOMS.iter().map(|room| self.file(room)).collect();
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            // What is gone by now needs no check.
            let Some(entries) = unless_gone(fs::read_dir(&folder)).map_err(failed(&folder))? else {
                continue;
            };
            for entry in entries {
                let path = entry.map_err(failed(&folder))?.path();
                let found = unless_gone(path.symlink_metadata()).map_err(failed(&path))?;
                let Some(found) = found else { continue };
                check_owner(&path, &found)?;
                if rooms.contains(&path) || found.is_symlink() {
                    continue;
                }
                if ownership::others_write(&found) {
                    return Err(self.open_to_others(&path, &found));
                }
                if found.is_dir() {
                    folders.push(path);
                }
            }
        }
        Ok(())
    }

    fn open_to_others(&self, path: &Path, found: &Metadata) -> DataDirError {
        let (path, dir) = (path.to_owned(), self.path.clone());
        DataDirError::Open { path, dir, mode: found.mode() & 0o777 }
    }

    /// Nobody means to publish it, and what a repository brings is not to be trusted.
    fn keep_out_of_git(&self) -> Result<(), DataDirError> {
        let path = self.file(".gitignore");
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.and_then(|mut file| file.write_all(b"*\n")).map_err(failed(&path)),
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> DataDirError {
    let path = path.to_owned();
    move |source| DataDirError::Io { path, source }
}

fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), DataDirError> {
    if ownership::is_ours(found) {
        return Ok(());
    }
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    Err(DataDirError::Foreign { path: path.to_owned(), owner, user })
}

/// The process that holds the lock of a file, which has written its id there. Trying the lock would keep it
/// from others for a moment, so the kernel's list is read.
fn lock_holder(path: &Path) -> Option<u32> {
    let mut file = own_files::open_to_read(path).ok()?;
    let inode = file.metadata().ok()?.ino();
    let pid = holder(&mut file);
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let is_it = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words.as_slice(), [_, "FLOCK", _, "WRITE", of, place, ..]
            if *of == pid && place.rsplit(':').next() == Some(inode.to_string().as_str()))
    };
    if locks.lines().any(is_it) { pid.parse().ok() } else { None }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(16).read_to_string(&mut text) {
        Ok(_)
            if text.trim().bytes().all(|byte| byte.is_ascii_digit()) && !text.trim().is_empty() =>
        {
            text.trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}
