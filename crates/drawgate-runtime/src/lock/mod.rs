//! `drawgate.lock`: the record of what is installed, and the only one.
//!
//! It holds the toolpacks, and the packages of servers that package runners start. What an entry says is
//! its kind's business; this module reads the file strictly, replaces it whole, and knows what a consent
//! is. The file is meant to be kept in version control.

mod consent;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drawgate_core::json;
use drawgate_host::user_files;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::files;
pub use consent::{Consent, Subject};

/// The name of the lock file.
pub const LOCK_FILE: &str = "drawgate.lock";

/// The form of the file.
const VERSION: u32 = 2;
/// The form before it, which had servers alone.
const SERVERS_ALONE: u32 = 1;
/// The largest file: a hundred servers with the most that an ordinary one needs.
const MAX_BYTES: u64 = 16 << 20;
/// The mode of a new file.
const MODE: u32 = 0o644;
/// Another process needs milliseconds for a change.
const PATIENCE: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(10);

/// The kinds of entries, each a section of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Packages, by the servers that they are for.
    Servers,
    /// Toolpacks, by their ids.
    Toolpacks,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockFile {
    version: u32,
    #[serde(default)]
    servers: Map<String, Value>,
    #[serde(default)]
    toolpacks: Map<String, Value>,
}

/// Why the lock file can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The machine refused.
    #[error("can't {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is damaged, or from a newer version.
    #[error("`{}` can't be used: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process does not finish its change.
    #[error("another process is changing `{}`; try again when it has finished", .0.display())]
    Busy(PathBuf),
}

impl Default for LockFile {
    fn default() -> Self {
        Self { version: VERSION, servers: Map::new(), toolpacks: Map::new() }
    }
}

impl LockFile {
    /// Reads the file; without one, nothing is installed.
    pub fn read(path: &Path) -> Result<Self, LockError> {
        match bytes_of(path) {
            Ok(bytes) => Self::parse(&bytes)
                .map_err(|reason| LockError::Content { path: path.to_owned(), reason }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(failed("read", path)(source)),
        }
    }

    /// Changes the file, whole or not at all, while no other process changes it. A link to it stays one.
    pub fn edit<T, E: From<LockError>>(
        path: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let _alone = alone(&path)?;
        let before = Self::read(&path)?;
        let mut after = Self { version: VERSION, ..before.clone() };
        let changed = change(&mut after)?;
        if after != before {
            after.check_readable().map_err(failed("write", &path))?;
            let mode = fs::metadata(&path).map_or(MODE, |data| data.permissions().mode() & 0o777);
            files::replace(&path, after.text().as_bytes(), mode).map_err(failed("write", &path))?;
        }
        Ok(changed)
    }

    /// Whether it could be read again.
    fn check_readable(&self) -> io::Result<()> {
        Self::parse(&bounded(self.text().into_bytes())?).map(drop).map_err(io::Error::other)
    }

    /// What a section holds.
    pub fn entries<I: DeserializeOwned + Ord, E: DeserializeOwned>(
        &self,
        section: Section,
    ) -> Result<BTreeMap<I, E>, String> {
        let entries = match section {
            Section::Servers => &self.servers,
            Section::Toolpacks => &self.toolpacks,
        };
        serde_json::from_value(Value::Object(entries.clone())).map_err(|error| error.to_string())
    }

    /// Replaces what a section holds.
    pub fn set_entries<I: Serialize, E: Serialize>(
        &mut self,
        section: Section,
        entries: &BTreeMap<I, E>,
    ) -> Result<(), String> {
        let entries = serde_json::to_value(entries).map_err(|error| error.to_string())?;
        let Value::Object(entries) = entries else { return Err("it has no names".to_owned()) };
        match section {
            Section::Servers => self.servers = entries,
            Section::Toolpacks => self.toolpacks = entries,
        }
        Ok(())
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        // Text keys and plain values always serialise.
        serde_json::to_string_pretty(self).map(|text| text + "\n").unwrap_or_default()
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let value = json::parse(bytes).map_err(|error| error.to_string())?;
        let lock: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        match lock.version {
            VERSION => Ok(lock),
            SERVERS_ALONE if lock.toolpacks.is_empty() => Ok(lock),
            version => Err(format!("version {version} is not known")),
        }
    }
}

/// Keeps other processes from changing the file.
fn alone(path: &Path) -> Result<File, LockError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let folder = File::open(folder).map_err(failed("open the folder of", path))?;
    for _ in 0..PATIENCE {
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(folder),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(PAUSE),
            Err(error) => return Err(failed("lock the folder of", path)(error.into())),
        }
    }
    Err(LockError::Busy(path.to_owned()))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LockError + use<> {
    let path = path.to_owned();
    move |source| LockError::Io { action, path, source }
}

fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    user_files::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    bounded(bytes)
}

fn bounded(text: Vec<u8>) -> io::Result<Vec<u8>> {
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("a lock file may have {MAX_BYTES} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
