//! The file of authorised keys: whether it can be trusted, and how it is changed without losing what
//! people wrote in it.
//!
//! Whoever can write the file decides who may connect. So it must be ours alone, as sshd demands it.

mod edit_lock;
mod trust;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub(super) use self::edit_lock::EditLock;
use crate::settle;

/// Room for more than ten thousand of the largest keys.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Why no key of the file counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// The system does not let us.
    #[error("`{path}` can't be read: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// A folder, a device or a pipe.
    #[error("`{0}` is not a regular file")]
    NotAFile(String),
    /// Somebody else's.
    #[error("`{0}` belongs to another user, who could authorise keys; run `chown` on it")]
    NotOurs(String),
    /// Others may write it.
    #[error("others may write `{0}` and authorise keys; run `chmod go-w` on it")]
    Writable(String),
    /// Larger than any list.
    #[error("`{0}` is larger than 16 MiB")]
    TooLarge(String),
}

/// Changes when the file, or whether it can be trusted, does.
pub(super) type Stamp = (settle::Stamp, Option<FileProblem>);

/// The file, wherever it is.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
    home: Option<PathBuf>,
}

impl KeyFile {
    /// The file at this path, which need not be there.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, home: None }
    }

    /// Trusts what is above the user's home folder, as sshd does; without it, folders are checked up
    /// to the root.
    #[must_use]
    pub fn with_home(self, home: Option<PathBuf>) -> Self {
        Self { home: home.and_then(|home| home.canonicalize().ok()), ..self }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes; none if there is no such file.
    pub fn read(&self) -> Result<Vec<u8>, FileProblem> {
        let path = match self.path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&self.path)(error)),
        };
        self.check_folders(Some(&path))?;
        // A pipe must not hold us up.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let file = file.map_err(unreadable(&path))?;
        trust::check_file(&path, &file.metadata().map_err(unreadable(&path))?)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable(&path))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(FileProblem::TooLarge(path.display().to_string()));
        }
        Ok(bytes)
    }

    /// Waits until nobody else changes it, and keeps them from it.
    pub(super) fn lock(&self) -> io::Result<EditLock> {
        EditLock::acquire(&self.real_path()?)
    }

    /// Puts other bytes in its place, whole or not at all. A link stays one. The caller holds
    /// [`Self::lock`] since before it read what it changes.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let path = self.real_path()?;
        let mode = path.metadata().map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let next = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let written = write_new(&next, mode, bytes).and_then(|()| std::fs::rename(&next, &path));
        if written.is_err() {
            // What can't be put in place must not stay beside it either.
            let _ = std::fs::remove_file(&next);
        }
        written?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    pub(super) fn stamp(&self) -> Stamp {
        let path = self.path.canonicalize().ok();
        let problem = path.and_then(|path| self.check_folders(Some(&path)).err());
        (settle::stamp(&self.path), problem)
    }

    /// Where it is behind links, or will be.
    fn real_path(&self) -> io::Result<PathBuf> {
        match self.path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(self.path.clone()),
            other => other,
        }
    }

    /// Whether a file would count there.
    pub(super) fn check_place(&self) -> Result<(), FileProblem> {
        match self.path.canonicalize() {
            Ok(real) => self.check_folders(Some(&real)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.check_folders(None),
            Err(error) => Err(unreadable(&self.path)(error)),
        }
    }

    /// Checks the folders on the way to the file, by its name and behind links in it. (Those on the
    /// way from one link to a second one are not looked at.)
    fn check_folders(&self, real: Option<&Path>) -> Result<(), FileProblem> {
        let named = std::path::absolute(&self.path).map_err(unreadable(&self.path))?;
        let named = named.parent().unwrap_or(&named);
        let beside = named.canonicalize().map_err(unreadable(named))?;
        let home = self.home.as_deref();
        trust::check_folders(&beside, home)?;
        if named != beside {
            trust::check_folders(named, home)?;
        }
        match real.and_then(Path::parent) {
            Some(folder) if folder != beside => trust::check_folders(folder, home),
            Some(_) | None => Ok(()),
        }
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> FileProblem {
    move |error| FileProblem::Unreadable {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

fn write_new(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    // Left behind by a process of the same number that died.
    let _ = std::fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
