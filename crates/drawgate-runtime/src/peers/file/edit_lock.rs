//! A lock for edits of the file of keys, also where several gateways share it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use drawgate_host::own_files;

/// Another process needs milliseconds for a change.
const ATTEMPTS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(10);

/// The right to edit the file while it lives. The lock is on a separate file beside it, because every
/// edit replaces the file itself, and because other users can't open that one to block us.
#[derive(Debug)]
pub(in super::super) struct EditLock {
    _file: File,
}

impl EditLock {
    /// Waits until no other process edits the file.
    pub(super) fn acquire(file: &Path) -> io::Result<Self> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let lock = file.with_file_name(format!(".{name}.lock"));
        let file = own_files::open(&lock, &mut options).map_err(|error| {
            let shown = lock.display();
            io::Error::new(
                error.kind(),
                format!("`{shown}`: {error}; if another user made it, remove it"),
            )
        })?;
        for _ in 0..ATTEMPTS {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        let message = "another process is changing it; try again when it is done";
        Err(io::Error::new(io::ErrorKind::WouldBlock, message))
    }
}
