//! The walk through the writable folders, for what is newer than the program.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};

use super::sweep::Folder;
use super::used::Amount;

/// Entries of a folder between two questions whether to go on.
const AT_ONCE: usize = 1024;
/// A path longer than this is opened in two steps: the kernel takes no longer ones than 4096 bytes.
pub(super) const STEP: usize = 2048;
/// So many steps below a folder nobody has work to do, but somebody who hides files from the counting.
pub(super) const DEEPEST: usize = 64;

/// What is newer than the program.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) new: Amount,
    started: i64,
    most: Amount,
    /// Whether some of it could not be looked at.
    pub(super) is_partial: bool,
    /// Whether there are folders so deep that they are not even looked for.
    pub(super) is_too_deep: bool,
}

/// A folder that is still to be counted.
struct Left {
    /// The folder from which its path leads; the top if there is none, and how many steps below it.
    from: Option<Rc<OwnedFd>>,
    steps: usize,
    path: PathBuf,
}

impl Count {
    /// Nothing yet. Times before `started` are old; it stops above `most`.
    pub(super) const fn new(started: i64, most: Amount) -> Self {
        let new = Amount { files: 0, bytes: 0 };
        Self { new, started, most, is_partial: false, is_too_deep: false }
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

    /// Whether it is more than it may be.
    pub(super) const fn is_over(&self) -> bool {
        self.is_too_deep || self.new.is_above(self.most)
    }

    fn walk(&mut self, top: BorrowedFd<'_>, interrupted: &dyn Fn() -> bool) -> Option<()> {
        let mut left = vec![Left { from: None, steps: 0, path: PathBuf::from(".") }];
        while let Some(next) = left.pop().filter(|_| !self.is_over()) {
            if interrupted() {
                return None;
            }
            let Ok((folder, entries)) = open(top, &next) else {
                self.is_partial = true;
                continue;
            };
            let next = next.shortened(&folder);
            self.is_too_deep |= next.steps > DEEPEST;
            for (number, entry) in entries.filter_map(Result::ok).enumerate() {
                if number % AT_ONCE == AT_ONCE - 1 && interrupted() {
                    return None;
                }
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                self.add(folder.as_fd(), name);
                if entry.file_type() == FileType::Directory {
                    left.push(next.child(OsStr::from_bytes(name.to_bytes())));
                }
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

impl Left {
    /// The same, so that paths from here are short again if this one was long.
    fn shortened(self, folder: &Rc<OwnedFd>) -> Self {
        if self.path.as_os_str().len() < STEP {
            return self;
        }
        Self { from: Some(Rc::clone(folder)), steps: self.steps + 1, path: PathBuf::from(".") }
    }

    fn child(&self, name: &OsStr) -> Self {
        Self { from: self.from.clone(), steps: self.steps, path: self.path.join(name) }
    }
}

fn open(top: BorrowedFd<'_>, left: &Left) -> rustix::io::Result<(Rc<OwnedFd>, Dir)> {
    let from = left.from.as_ref().map_or(top, |from| from.as_fd());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let folder = openat2(from, &left.path, flags, Mode::empty(), within)?;
    let entries = Dir::read_from(&folder)?;
    Ok((Rc::new(folder), entries))
}
