//! The file of authorised keys: whether it can be trusted, and how it is changed without losing what
//! people wrote in it.
//!
//! Whoever can write the file decides who may connect. So it must be ours alone, as sshd demands it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Room for more than ten thousand of the largest keys.
const MAX_FILE: u64 = 16 * 1024 * 1024;
/// Writable by the group or by everybody.
const OTHERS_WRITE: u32 = 0o022;
/// A folder where only the owner of a file may replace it.
const STICKY: u32 = 0o1000;

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
pub(super) type Stamp = Option<[i128; 6]>;

/// The file, wherever it is.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
}

impl KeyFile {
    /// The file at this path, which need not be there.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes; none if there is no such file.
    pub fn read(&self) -> Result<Vec<u8>, FileProblem> {
        let unreadable = |error: io::Error| FileProblem::Unreadable {
            path: self.path.display().to_string(),
            reason: error.to_string(),
        };
        let path = match self.path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(error)),
        };
        if let Some(folder) = path.parent() {
            check_folder(folder, &folder.metadata().map_err(unreadable)?)?;
        }
        // A pipe must not hold us up.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let file = file.map_err(unreadable)?;
        check_file(&path, &file.metadata().map_err(unreadable)?)?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(FileProblem::TooLarge(path.display().to_string()));
        }
        Ok(bytes)
    }

    /// Puts other bytes in its place, whole or not at all. A link stays one.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let path = match self.path.canonicalize() {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.path.clone(),
            Err(error) => return Err(error),
        };
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
        let file = self.path.metadata().ok()?;
        let folder = self.path.parent().and_then(|folder| folder.metadata().ok());
        let changed = i128::from(file.ctime()) * 1_000_000_000 + i128::from(file.ctime_nsec());
        Some([
            changed,
            i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec()),
            i128::from(file.size()),
            i128::from(file.ino()),
            folder.as_ref().map_or(0, |folder| i128::from(folder.mode())),
            folder.as_ref().map_or(0, |folder| i128::from(folder.uid())),
        ])
    }
}

fn write_new(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    // Left behind by a process of the same number that died.
    let _ = std::fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn check_folder(folder: &Path, metadata: &std::fs::Metadata) -> Result<(), FileProblem> {
    let shown = || folder.display().to_string();
    if !is_ours(metadata) {
        return Err(FileProblem::NotOurs(shown()));
    }
    if metadata.mode() & OTHERS_WRITE != 0 && metadata.mode() & STICKY == 0 {
        return Err(FileProblem::Writable(shown()));
    }
    Ok(())
}

fn check_file(path: &Path, metadata: &std::fs::Metadata) -> Result<(), FileProblem> {
    let shown = || path.display().to_string();
    if !metadata.is_file() {
        return Err(FileProblem::NotAFile(shown()));
    }
    if !is_ours(metadata) {
        return Err(FileProblem::NotOurs(shown()));
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        return Err(FileProblem::Writable(shown()));
    }
    Ok(())
}

/// Ours, or the system administrator's, who can do anything anyway.
fn is_ours(metadata: &std::fs::Metadata) -> bool {
    let us = rustix::process::geteuid().as_raw();
    [us, 0].contains(&metadata.uid())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
