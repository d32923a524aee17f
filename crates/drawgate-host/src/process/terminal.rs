//! A terminal for a program in the box: a pair of its own, so that what the program does to it (reading
//! ahead, changing modes, feeding input) never reaches the terminal of the person who started it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

/// A new terminal.
#[derive(Debug)]
pub struct Terminal {
    /// The near end, which passes bytes on.
    near: OwnedFd,
    /// The program's end.
    far: OwnedFd,
}

impl Terminal {
    /// Opens one.
    pub fn open() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let near = openpt(flags)?;
        grantpt(&near)?;
        unlockpt(&near)?;
        let far = ioctl_tiocgptpeer(&near, flags)?;
        Ok(Self { near, far })
    }

    pub(crate) fn far(&self) -> BorrowedFd<'_> {
        self.far.as_fd()
    }

    /// The near end. The far end is then the program's alone, and the near end ends with it.
    #[must_use]
    pub fn into_near(self) -> OwnedFd {
        self.near
    }
}
