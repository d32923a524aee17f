//! What is looked at in the files of a pack, and what can come between.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use drawgate_core::{canonical, json};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::super::manifest;

/// Most files and folders, and deepest folder. An installed pack has no more.
const MAX_ENTRIES: usize = 10_000;
const MAX_DEPTH: usize = 32;

/// What the file system says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// What is in it has marks of its own.
    Folder,
    File {
        place: (u64, u64),
        size: u64,
        mode: u32,
        written: (i64, i64),
        changed: (i64, i64),
    },
}

/// What a program would find in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    Folder,
    File { digest: String, is_program: bool },
}

/// Why files are not known to be the same.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// They are not; how.
    #[error("{0}")]
    Changed(String),
    /// The machine could not say; it may the next time.
    #[error("`{path}` can't be read: {source}")]
    Unread { path: String, source: io::Error },
}

impl Fault {
    pub(super) fn changed(path: &Path) -> Self {
        Self::Changed(format!("`{}` was changed", shown(path)))
    }

    /// What an error says of a file that was there.
    pub(super) fn of(path: &Path, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            // It is another than it was, or none.
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => {
                Self::Changed(format!("`{}`: {source}", shown(path)))
            }
            Some(_) | None => Self::Unread { path: shown(path), source },
        }
    }

    fn kind(path: &Path) -> Self {
        Self::Changed(format!("`{}` is neither a file nor a folder", shown(path)))
    }
}

pub(super) fn shown(path: &Path) -> String {
    drawgate_core::model::shown_name(&path.to_string_lossy())
}

/// The marks of everything in a folder, by path. No pack has links, or anything else.
pub(super) fn marks(root: &Path) -> Result<BTreeMap<PathBuf, Mark>, Fault> {
    let mut found = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        let failed = |error| Fault::of(&folder, error);
        for entry in fs::read_dir(root.join(&folder)).map_err(failed)? {
            let path = folder.join(entry.map_err(failed)?.file_name());
            let mark = mark(root, &path)?;
            if mark == Mark::Folder {
                open.push(path.clone());
            }
            let is_deep = path.components().count() > MAX_DEPTH;
            found.insert(path, mark);
            if is_deep || found.len() > MAX_ENTRIES {
                return Err(Fault::Changed("it has too many files and folders".to_owned()));
            }
        }
    }
    Ok(found)
}

fn mark(root: &Path, path: &Path) -> Result<Mark, Fault> {
    let data = root.join(path).symlink_metadata().map_err(|error| Fault::of(path, error))?;
    match data.file_type() {
        kind if kind.is_dir() => Ok(Mark::Folder),
        kind if kind.is_file() => Ok(Mark::File {
            place: (data.dev(), data.ino()),
            size: data.size(),
            mode: data.mode(),
            written: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        }),
        _ => Err(Fault::kind(path)),
    }
}

pub(super) fn content(root: &Path, path: &Path, mark: Mark) -> Result<Content, Fault> {
    if mark == Mark::Folder {
        return Ok(Content::Folder);
    }
    let failed = |error| Fault::of(path, error);
    let mut file = open(&root.join(path)).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if !data.is_file() {
        return Err(Fault::kind(path));
    }
    let is_program = data.permissions().mode() & 0o100 != 0;
    let digest =
        if path == Path::new(manifest::FILE) { meaning(&mut file) } else { digest(&mut file) };
    Ok(Content::File { digest: digest.map_err(failed)?, is_program })
}

/// It may be another file than the one that was looked at: no link is followed, and no pipe waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn digest(file: &mut File) -> io::Result<String> {
    let mut digest = Sha256::new();
    io::copy(file, &mut digest)?;
    Ok(canonical::hex(&digest.finalize()))
}

/// The manifest but for `enabled`, which the operator switches.
fn meaning(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(manifest::MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let Ok(Value::Object(mut members)) = json::parse(&bytes) else {
        return Ok(canonical::sha256_hex(&bytes));
    };
    members.shift_remove("enabled");
    Ok(canonical::hash(&Value::Object(members)))
}
