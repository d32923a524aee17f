//! Folders whose mode must not keep the gateway out.
//!
//! A program owns its folders, and may close them to everybody, the gateway's user included.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, chmod, fstat, openat};
use rustix::io::Errno;

/// A folder that its owner may look into and change for as long as this is there. Dropped, it has its
/// former mode.
pub(super) struct Opened {
    handle: OwnedFd,
    /// The mode that was changed.
    before: Option<Mode>,
}

impl Opened {
    pub(super) fn new(handle: OwnedFd) -> Self {
        let mode = fstat(&handle).ok().map(|found| Mode::from_raw_mode(found.st_mode));
        let before = mode.filter(|mode| !mode.contains(Mode::RWXU));
        if let Some(mode) = before {
            set_mode(&handle, mode | Mode::RWXU);
        }
        Self { handle, before }
    }

    /// The same folder by another handle.
    pub(super) fn again(handle: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::new(handle.try_clone_to_owned()?))
    }

    /// A folder in this one; `None` if there is nothing, or something else.
    pub(super) fn below(&self, name: &Path) -> Result<Option<Self>, Errno> {
        match open(self.as_fd(), name) {
            Ok(handle) => Ok(Some(Self::new(handle))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(mode) = self.before {
            set_mode(&self.handle, mode);
        }
    }
}

/// No folder may stay where it is by its mode.
pub(super) fn make_accessible(parent: BorrowedFd<'_>, name: &Path) {
    if let Ok(folder) = open(parent, name) {
        set_mode(&folder, Mode::RWXU);
    }
}

/// Whatever the folder's mode; enough to name what is in it.
fn open(parent: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// By way of a descriptor, since a name could have become a link meanwhile.
fn set_mode(folder: &OwnedFd, mode: Mode) {
    let _other = chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode);
}
