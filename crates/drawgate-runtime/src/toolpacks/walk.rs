//! Goes through a folder without following anything out of it.
//!
//! Every file and folder is opened relative to its parent, links are refused by name, and how much
//! there may be is bounded.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::error::{Code, ToolpackError};
use super::paths;

/// Most files and folders in a pack.
pub(super) const MAX_ENTRIES: usize = 10_000;

/// Most bytes of all files of a pack together.
pub(super) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Deepest folder in a pack.
pub(super) const MAX_DEPTH: usize = 32;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// What is told of each file and folder, parents first and in the order of names.
pub(super) trait Visitor {
    /// Whether to pass over something in a folder.
    fn skips(&mut self, _path: &[u8], _name: &CStr) -> bool {
        false
    }
    /// A folder.
    fn folder(&mut self, path: &str, stat: &Stat) -> Result<(), ToolpackError>;
    /// A regular file.
    fn file(&mut self, path: &str, file: File, executable: bool) -> Result<(), ToolpackError>;
}

/// Goes through the whole folder. The way to it may lead over links; nothing in it may be one.
pub(super) fn walk(root: &Path, visitor: &mut dyn Visitor) -> Result<(), ToolpackError> {
    let folder =
        rustix::fs::open(root, FOLDER, Mode::empty()).map_err(ToolpackError::io("read", root))?;
    Walk { root, visitor, entries: 0, bytes: 0 }.folder(&folder, b"", 0)
}

/// Whether a file may be run by its owner.
pub(super) const fn is_executable(mode: u32) -> bool {
    mode & 0o100 != 0
}

struct Walk<'a> {
    root: &'a Path,
    visitor: &'a mut dyn Visitor,
    entries: usize,
    bytes: u64,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &OwnedFd, path: &[u8], depth: usize) -> Result<(), ToolpackError> {
        if depth > MAX_DEPTH {
            return Err(too_much(&format!("its folders are nested deeper than {MAX_DEPTH}")));
        }
        for name in self.names(folder, path)? {
            let mut inner = path.to_vec();
            if !inner.is_empty() {
                inner.push(b'/');
            }
            inner.extend_from_slice(name.to_bytes());
            if !self.visitor.skips(&inner, &name) {
                self.entry(folder, &name, &inner, depth)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        parent: &OwnedFd,
        name: &CStr,
        path: &[u8],
        depth: usize,
    ) -> Result<(), ToolpackError> {
        let path = paths::check(path)?;
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(too_much(&format!("it has more than {MAX_ENTRIES} files and folders")));
        }
        let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(self.failed("read", path))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let folder = self.open(parent, name, path, FOLDER)?;
                self.visitor.folder(path, &stat)?;
                self.folder(&folder, path.as_bytes(), depth + 1)
            }
            FileType::RegularFile => self.file(parent, name, path),
            FileType::Symlink => Err(link(path)),
            _ => Err(special(path)),
        }
    }

    fn file(&mut self, parent: &OwnedFd, name: &CStr, path: &str) -> Result<(), ToolpackError> {
        // Without it, opening what has just become a pipe would wait for a writer.
        let file = self.open(parent, name, path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let stat = rustix::fs::fstat(&file).map_err(self.failed("read", path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(special(path));
        }
        self.bytes = self.bytes.saturating_add(u64::try_from(stat.st_size).unwrap_or(u64::MAX));
        if self.bytes > MAX_BYTES {
            return Err(too_much(&format!("its files have more than {MAX_BYTES} bytes")));
        }
        self.visitor.file(path, File::from(file), is_executable(stat.st_mode))
    }

    fn open(
        &self,
        parent: &OwnedFd,
        name: &CStr,
        path: &str,
        flags: OFlags,
    ) -> Result<OwnedFd, ToolpackError> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(|error| match error {
            Errno::LOOP => link(path),
            other => self.failed("read", path)(other),
        })
    }

    fn names(&self, folder: &OwnedFd, path: &[u8]) -> Result<Vec<CString>, ToolpackError> {
        let failed = || self.failed("read", &String::from_utf8_lossy(path));
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name().to_owned();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name);
            }
            if names.len() > MAX_ENTRIES {
                return Err(too_much(&format!("a folder in it has more than {MAX_ENTRIES} names")));
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn failed(
        &self,
        action: &'static str,
        path: &str,
    ) -> impl FnOnce(Errno) -> ToolpackError + use<> {
        ToolpackError::io(action, &self.root.join(path))
    }
}

fn too_much(what: &str) -> ToolpackError {
    ToolpackError::rejected(Code::Limit, format!("the toolpack is too large: {what}"))
}

fn link(path: &str) -> ToolpackError {
    let message = format!(
        "`{}` is a symbolic link, and a toolpack has none; put the file itself there",
        paths::shown(path.as_bytes())
    );
    ToolpackError::rejected(Code::Link, message)
}

fn special(path: &str) -> ToolpackError {
    let message = format!(
        "`{}` is neither a regular file nor a folder, and a toolpack has nothing else",
        paths::shown(path.as_bytes())
    );
    ToolpackError::rejected(Code::Type, message)
}
