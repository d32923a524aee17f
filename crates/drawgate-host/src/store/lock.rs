//! The data folder and the lock that lets one process write in it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Why a data folder can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It can't be made, read or written.
    #[error("data folder `{}` can't be used; check that it exists and that you may write in it", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It belongs to somebody else.
    #[error("data folder `{}` belongs to user id {owner}, and you are {user}; choose a folder of your own", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// This process's user.
        user: u32,
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
    /// Opens a folder for writing; makes it, for its owner alone, if it is not there.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, DataDirError> {
        let path = path.into();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|source| DataDirError::Io { path: path.clone(), source })?;
        let dir = Self::existing(path)?;
        dir.check_owner()?;
        Ok(dir)
    }

    /// Opens a folder that must be there, for reading.
    pub fn existing(path: impl Into<PathBuf>) -> Result<Self, DataDirError> {
        let path = path.into();
        match fs::read_dir(&path) {
            Ok(_) => Ok(Self { path }),
            Err(source) => Err(DataDirError::Io { path, source }),
        }
    }

    /// Takes the lock.
    pub fn exclusive(&self) -> Result<DataDirLock, DataDirError> {
        let path = self.file("lock");
        let failed = |source| DataDirError::Io { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(failed)?;
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

    /// A file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn check_owner(&self) -> Result<(), DataDirError> {
        let metadata = fs::metadata(&self.path)
            .map_err(|source| DataDirError::Io { path: self.path.clone(), source })?;
        let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
        if owner == user {
            return Ok(());
        }
        Err(DataDirError::Foreign { path: self.path.clone(), owner, user })
    }
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
