//! The walk through the writable folders, for what is newer than the program.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat2, statx,
};

use super::losses::Amount;
use super::sweep::Folder;

/// Entries of a folder between two questions whether to go on.
const AT_ONCE: usize = 1024;
/// A path longer than this is opened in two steps: the kernel takes no longer ones than 4096 bytes.
pub(super) const STEP: usize = 2048;
/// So many steps below a folder nobody has work to do, but somebody who hides files from the counting.
pub(super) const DEEPEST: usize = 64;

/// Some file systems keep times in steps of so many seconds.
const COARSE: i64 = 2;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything.
    All,
    /// Where files may have been added. Those that only have grown are not found.
    Additions,
}

/// What is newer than the program.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) new: Amount,
    scope: Scope,
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
    pub(super) const fn new(started: i64, most: Amount, scope: Scope) -> Self {
        let new = Amount { files: 0, bytes: 0 };
        Self { new, scope, started, most, is_partial: false, is_too_deep: false }
    }

    /// Adds what is in the folders; `None` if it was interrupted.
    pub(super) fn walked(
        mut self,
        folders: &[Folder],
        interrupted: &mut dyn FnMut() -> bool,
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

    fn walk(&mut self, top: BorrowedFd<'_>, interrupted: &mut dyn FnMut() -> bool) -> Option<()> {
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
            let is_looked_at = self.scope == Scope::All || self.is_changed(folder.as_fd());
            for (number, entry) in entries.filter_map(Result::ok).enumerate() {
                if number % AT_ONCE == AT_ONCE - 1 && interrupted() {
                    return None;
                }
                let name = entry.file_name();
                if name == c"." || name == c".." {
                    continue;
                }
                if is_looked_at {
                    self.add(folder.as_fd(), name);
                }
                if entry.file_type() == FileType::Directory {
                    left.push(next.child(OsStr::from_bytes(name.to_bytes())));
                }
            }
        }
        Some(())
    }

    /// Whether anything may have been added to a folder since the program has started.
    fn is_changed(&self, folder: BorrowedFd<'_>) -> bool {
        let found = statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::CTIME);
        found.map_or(true, |found| is_since(&found, self.started))
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

/// Whether a folder has changed since then. A time of zero is none: the top of a file system may have
/// no place for it.
const fn is_since(folder: &Statx, started: i64) -> bool {
    let changed = folder.stx_ctime.tv_sec;
    changed == 0 || changed >= started.saturating_sub(COARSE)
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const NO_LIMIT: Amount = Amount { files: u64::MAX, bytes: u64::MAX };

    #[test]
    fn a_folder_without_a_time_may_have_changed() {
        let mut folder = statx(rustix::fs::CWD, ".", AtFlags::empty(), StatxFlags::CTIME).unwrap();
        for (changed, expected) in [(0, true), (97, false), (98, true), (100, true), (200, true)] {
            folder.stx_ctime.tv_sec = changed;
            assert_eq!(is_since(&folder, 100), expected, "{changed}");
        }
    }

    #[test]
    fn additions_are_found_where_a_folder_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/new"), "").unwrap();
        let now = folder.path().metadata().unwrap().ctime();
        let folders = [Folder::look(folder.path(), &[], &[]).unwrap()];
        for scope in [Scope::All, Scope::Additions] {
            let found = |started: i64| {
                let count = Count::new(started, NO_LIMIT, scope);
                count.walked(&folders, &mut || false).unwrap().new.files
            };
            assert_eq!([now, now + 100].map(found), [2, 0], "{scope:?}");
        }
    }
}
