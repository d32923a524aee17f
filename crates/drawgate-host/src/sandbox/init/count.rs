//! The walk through the writable folders, for what is newer than the program.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};

use super::quota::Amount;
use super::sweep::Folder;

/// Entries of a folder between two questions whether to go on.
const AT_ONCE: usize = 1024;

/// Most folders that wait to be looked into: each is a path, of up to 4 KiB. Those beyond count as closed ones.
const MAX_LEFT: usize = 20_000;

/// What is newer than the program.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) new: Amount,
    /// Whether some folders could not be opened: closed by their mode, or deeper than a path may be long.
    pub(super) is_partial: bool,
    started: i64,
    most: Amount,
}

impl Count {
    /// Nothing yet. Times before `started` are old; it stops above `most`.
    pub(super) const fn new(started: i64, most: Amount) -> Self {
        Self { new: Amount { files: 0, bytes: 0 }, is_partial: false, started, most }
    }

    /// Adds what is in the folders; `None` if it was interrupted.
    pub(super) fn walked(
        mut self,
        folders: &[Folder],
        interrupted: &dyn Fn() -> bool,
    ) -> Option<Self> {
        for folder in folders {
            self.walk(folder.handle(), interrupted)?;
        }
        Some(self)
    }

    fn walk(&mut self, top: BorrowedFd<'_>, interrupted: &dyn Fn() -> bool) -> Option<()> {
        let mut left = vec![PathBuf::from(".")];
        while let Some(path) = left.pop().filter(|_| !self.new.is_above(self.most)) {
            if interrupted() {
                return None;
            }
            if left.len() > MAX_LEFT {
                self.is_partial = true;
                left.truncate(MAX_LEFT);
            }
            let Ok(entries) = open(top, &path) else {
                self.is_partial = true;
                continue;
            };
            self.add_entries(entries, &path, &mut left, interrupted)?;
        }
        Some(())
    }

    fn add_entries(
        &mut self,
        mut entries: Dir,
        path: &Path,
        left: &mut Vec<PathBuf>,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<()> {
        let mut number = 0;
        while let Some(Ok(entry)) = entries.read() {
            number += 1;
            if number % AT_ONCE == 0 && interrupted() {
                return None;
            }
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if let Ok(folder) = entries.fd() {
                self.add(folder, name);
            }
            if entry.file_type() == FileType::Directory {
                left.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
        Some(())
    }

    fn add(&mut self, folder: BorrowedFd<'_>, name: &std::ffi::CStr) {
        let wanted = StatxFlags::BTIME | StatxFlags::CTIME | StatxFlags::BLOCKS;
        let Ok(found) = statx(folder, name, AtFlags::SYMLINK_NOFOLLOW, wanted) else { return };
        if found.stx_ctime.tv_sec < self.started {
            return;
        }
        self.new.bytes = self.new.bytes.saturating_add(found.stx_blocks.saturating_mul(512));
        let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        if !has_birth || found.stx_btime.tv_sec >= self.started {
            self.new.files = self.new.files.saturating_add(1);
        }
    }
}

/// Follows no link: the program may put one in the place of any folder meanwhile.
fn open(top: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let folder = openat2(top, path, flags, Mode::empty(), within)?;
    Dir::new(folder)
}
