//! Whether the files that are open are still those of the data folder.
//!
//! `SQLite` goes on writing to a file that was removed or replaced, and all of it is gone with the
//! process. So device and inode of every file are compared from time to time, and a store whose files are
//! not there any more takes nothing further.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use drawgate_core::store::StoreError;

use super::super::lock::DataDir;
use super::connection::corrupt;

/// The files of a store that must stay, with those that `SQLite` keeps beside its own.
const FILES: [&str; 7] = [
    "audit.db",
    "audit.db-shm",
    "audit.db-wal",
    "drawgate.db",
    "drawgate.db-shm",
    "drawgate.db-wal",
    "lock",
];

/// The files of an open store, as they were when it was opened.
#[derive(Debug)]
pub(super) struct Presence {
    files: Vec<(PathBuf, (u64, u64))>,
    lost: OnceLock<String>,
}

impl Presence {
    /// Remembers the files that are there now.
    pub(super) fn new(dir: &DataDir) -> Self {
        let files = FILES.iter().map(|name| dir.file(name));
        let files = files.filter_map(|path| id(&path).ok().map(|id| (path, id))).collect();
        Self { files, lost: OnceLock::new() }
    }

    /// Compares. What was lost once stays lost: events between are in no file.
    pub(super) fn look(&self) {
        if self.lost.get().is_some() {
            return;
        }
        let gone = self.files.iter().find(|(path, known)| match id(path) {
            Ok(found) => found != *known,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        });
        let Some((path, _)) = gone else { return };
        let reason = format!(
            "`{}` was removed or replaced while the gateway was running, so nothing can be stored any more; \
             stop it, put the file back or restore a backup, and start it again",
            path.display()
        );
        tracing::error!("{reason}");
        drop(self.lost.set(reason));
    }

    /// Fails once a file is gone.
    pub(super) fn check(&self, operation: &'static str) -> Result<(), StoreError> {
        self.lost.get().map_or(Ok(()), |reason| Err(corrupt(operation, reason)))
    }
}

/// Device and inode. Nothing is opened: closing it would release `SQLite`'s locks.
fn id(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
