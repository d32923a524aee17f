//! The workspace's files.
//!
//! Every path is resolved by the kernel below the workspace's folder and through no symbolic link
//! (`openat2`), so that nothing that lies in the folder can lead out of it, not even when it changes
//! during the call.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use drawgate_host::sandbox::protected;
use drawgate_host::trusted::{Conflict, Trusted, WatchedFolder};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::path::{FilePath, MAX_DEPTH, PathError, UNFINISHED};

/// Largest file that is written.
const MAX_WRITE: usize = 8 * 1024 * 1024;
/// Largest file that is read.
const MAX_READ: u64 = 16 * 1024 * 1024;
/// Most files in a list.
const MAX_LISTED: usize = 1_000;
/// Most entries that are looked at for a list.
const MAX_VISITED: usize = 100_000;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// A folder of files.
#[derive(Debug)]
pub(super) struct Workspace {
    root: OwnedFd,
    next: AtomicU64,
    /// What is read by no name.
    trusted: Trusted,
    watched: WatchedFolder,
    /// Protected names that may be written.
    unprotected: Vec<String>,
}

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Contents {
    Text(String),
    Binary(Vec<u8>),
}

/// One file in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) path: String,
    pub(super) size: u64,
}

/// A list of files, in order.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<Listed>,
    pub(super) truncated: bool,
    visited: usize,
}

/// Why an operation failed, for the model.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkspaceError {
    #[error(transparent)]
    Path(PathError),
    #[error("no such file `{0}`; `vfs_list` shows what there is")]
    Missing(String),
    #[error("`{0}` is not a file")]
    NotFile(String),
    #[error("`{0}` can't be used: a part of it is a file or a symbolic link, not a folder")]
    NotFolder(String),
    #[error("`{path}` is too large: {size} bytes, at most {limit} are possible")]
    TooLarge { path: String, size: u64, limit: u64 },
    #[error(
        "`{path}` can't be changed: `{name}` is a protected name, which people and programs trust; \
         use another name, or ask the operator to list it in `builtin.unprotected`"
    )]
    Protected { path: String, name: &'static str },
    #[error("`{0}` is another name of a file of the gateway's own; it can't be read")]
    Trusted(String),
    #[error("the workspace can't be used now: {0}")]
    Conflict(Conflict),
    #[error("`content` is not valid base64")]
    Encoding,
    #[error("`{path}`: {source}")]
    System { path: String, source: io::Error },
}

impl Workspace {
    pub(super) fn open(
        folder: &Path,
        trusted: Trusted,
        unprotected: &[String],
    ) -> io::Result<Self> {
        let root = trusted.open_writable(folder)?;
        let unprotected = unprotected.to_vec();
        let watched = WatchedFolder::new(folder.to_owned(), trusted.clone());
        Ok(Self { root, next: AtomicU64::new(0), trusted, watched, unprotected })
    }

    /// Whether it may still be used: something could have been mounted in it.
    pub(super) fn check(&self) -> Result<(), WorkspaceError> {
        self.watched.check().map_err(WorkspaceError::Conflict)
    }

    pub(super) fn read(&self, path: &FilePath) -> Result<Contents, WorkspaceError> {
        // Not opened before it is known: opening a named pipe would wait for its writer, and closing
        // another name of a database would release the store's locks on it.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = beneath(&self.root, path.as_str(), flags, Mode::empty());
        let found = File::from(found.map_err(|error| explain(path, error))?);
        let system = |source| WorkspaceError::System { path: path.to_string(), source };
        let metadata = found.metadata().map_err(system)?;
        if !metadata.is_file() {
            return Err(WorkspaceError::NotFile(path.to_string()));
        }
        if self.trusted.is(&metadata) {
            return Err(WorkspaceError::Trusted(path.to_string()));
        }
        let file = File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).map_err(system)?;
        let mut bytes = Vec::new();
        file.take(MAX_READ + 1).read_to_end(&mut bytes).map_err(system)?;
        if bytes.len() as u64 > MAX_READ {
            return Err(WorkspaceError::TooLarge {
                path: path.to_string(),
                size: metadata.len(),
                limit: MAX_READ,
            });
        }
        Ok(String::from_utf8(bytes)
            .map_or_else(|error| Contents::Binary(error.into_bytes()), Contents::Text))
    }

    pub(super) fn write(&self, path: &FilePath, bytes: &[u8]) -> Result<(), WorkspaceError> {
        if bytes.len() > MAX_WRITE {
            let (size, limit) = (bytes.len() as u64, MAX_WRITE as u64);
            return Err(WorkspaceError::TooLarge { path: path.to_string(), size, limit });
        }
        self.check_name(path)?;
        let (folders, name) = path.split();
        let folder = self.make_folders(folders).map_err(|error| explain(path, error))?;
        make_way(&folder, name, path)?;
        let unfinished = format!(
            "{UNFINISHED}{}-{}",
            std::process::id(),
            self.next.fetch_add(1, Ordering::Relaxed)
        );
        let outcome = replace(&folder, &unfinished, name, bytes);
        if outcome.is_err() {
            // What can't be removed now is hidden from lists by its name.
            let _left = rustix::fs::unlinkat(&folder, &unfinished, AtFlags::empty());
        }
        outcome.map_err(|source| WorkspaceError::System { path: path.to_string(), source })
    }

    pub(super) fn delete(&self, path: &FilePath) -> Result<(), WorkspaceError> {
        self.check_name(path)?;
        let (folder, name) = path.as_str().rsplit_once('/').unwrap_or((".", path.as_str()));
        let parent = beneath(&self.root, folder, FOLDER, Mode::empty())
            .map_err(|error| explain(path, error))?;
        if kind(&parent, name).map_err(|error| explain(path, error))? != FileType::RegularFile {
            return Err(WorkspaceError::NotFile(path.to_string()));
        }
        rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(|error| explain(path, error))
    }

    fn check_name(&self, path: &FilePath) -> Result<(), WorkspaceError> {
        match protected::by_path(path.as_str(), &self.unprotected) {
            Some(name) => Err(WorkspaceError::Protected { path: path.to_string(), name }),
            None => Ok(()),
        }
    }

    /// Files whose paths begin with `prefix`.
    pub(super) fn list(&self, prefix: &str) -> Result<Listing, WorkspaceError> {
        let mut listing = Listing::default();
        let root = beneath(&self.root, ".", FOLDER, Mode::empty());
        let walked = root.and_then(|root| listing.walk(&root, "", prefix, 0));
        walked.map_err(|error| WorkspaceError::System {
            path: prefix.escape_debug().to_string(),
            source: error.into(),
        })?;
        listing.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listing)
    }

    fn make_folders<'a>(&self, folders: impl Iterator<Item = &'a str>) -> Result<OwnedFd, Errno> {
        let mut current = beneath(&self.root, ".", FOLDER, Mode::empty())?;
        for folder in folders {
            match rustix::fs::mkdirat(&current, folder, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            current = beneath(&current, folder, FOLDER, Mode::empty())?;
        }
        Ok(current)
    }
}

impl Listing {
    fn walk(
        &mut self,
        folder: &OwnedFd,
        at: &str,
        prefix: &str,
        depth: usize,
    ) -> Result<(), Errno> {
        for name in names(folder)? {
            self.visited += 1;
            if self.files.len() >= MAX_LISTED || self.visited > MAX_VISITED {
                self.truncated = true;
                return Ok(());
            }
            let path = if at.is_empty() { name.clone() } else { format!("{at}/{name}") };
            match kind(folder, &name) {
                Ok(FileType::RegularFile)
                    if path.starts_with(prefix) && !name.starts_with(UNFINISHED) =>
                {
                    self.add(folder, &name, path);
                }
                Ok(FileType::Directory) if depth < MAX_DEPTH && leads_to(&path, prefix) => {
                    // It may be gone by now, or a symbolic link; then it has no files.
                    if let Ok(inner) = beneath(folder, &name, FOLDER, Mode::empty()) {
                        self.walk(&inner, &path, prefix, depth + 1)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, folder: &OwnedFd, name: &str, path: String) {
        if let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            self.files.push(Listed { path, size: u64::try_from(stat.st_size).unwrap_or_default() });
        }
    }
}

/// Whether a folder may hold paths that begin with the prefix.
fn leads_to(folder: &str, prefix: &str) -> bool {
    let folder = format!("{folder}/");
    folder.starts_with(prefix) || prefix.starts_with(&folder)
}

/// Names in a folder, in order, without those that are not UTF-8.
fn names(folder: &OwnedFd) -> Result<Vec<String>, Errno> {
    let mut names: Vec<String> = Dir::read_from(folder)?
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
        .filter(|name| name != "." && name != "..")
        .take(MAX_VISITED)
        .collect();
    names.sort();
    Ok(names)
}

fn kind(folder: &OwnedFd, name: &str) -> Result<FileType, Errno> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// Only a file may be replaced, and an empty folder, which is not listed.
fn make_way(folder: &OwnedFd, name: &str, path: &FilePath) -> Result<(), WorkspaceError> {
    match kind(folder, name) {
        Ok(FileType::RegularFile) | Err(Errno::NOENT) => Ok(()),
        Ok(FileType::Directory) => rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)
            .map_err(|_| WorkspaceError::NotFile(path.to_string())),
        Ok(_) => Err(WorkspaceError::NotFile(path.to_string())),
        Err(error) => Err(explain(path, error)),
    }
}

/// Writes beside the file and renames, so that a reader sees the old content or the new.
fn replace(folder: &OwnedFd, unfinished: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = File::from(beneath(folder, unfinished, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes)?;
    file.sync_data()?;
    Ok(rustix::fs::renameat(folder, unfinished, folder, name)?)
}

fn beneath(folder: impl AsFd, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(&folder, path, flags, mode, resolve) {
            // The kernel could not prove that the path stayed beneath, because something moved.
            Err(Errno::AGAIN | Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

fn explain(path: &FilePath, error: Errno) -> WorkspaceError {
    match error {
        Errno::NOENT => WorkspaceError::Missing(path.to_string()),
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => WorkspaceError::NotFolder(path.to_string()),
        Errno::ISDIR | Errno::NXIO => WorkspaceError::NotFile(path.to_string()),
        other => WorkspaceError::System { path: path.to_string(), source: other.into() },
    }
}
