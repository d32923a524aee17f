//! One change at a time, also where several gateways share a file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Another process needs milliseconds for a change.
const PATIENCE: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(10);

/// Keeps others who ask from changing the file while it lives. It stands on a file beside it, since
/// every change puts another file in its place, and others can't open that one to hold us up.
#[derive(Debug)]
pub(in super::super) struct Busy {
    _file: File,
}

impl Busy {
    /// Waits until nobody else changes the file.
    pub(super) fn wait(file: &Path) -> io::Result<Self> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let lock = file.with_file_name(format!(".{name}.lock"));
        let file = options.open(&lock).map_err(|error| {
            let shown = lock.display();
            io::Error::new(
                error.kind(),
                format!("`{shown}`: {error}; if another user made it, remove it"),
            )
        })?;
        for _ in 0..PATIENCE {
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
