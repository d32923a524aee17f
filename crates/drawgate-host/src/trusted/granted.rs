//! Where a path leads that is about to be given to a program or a tool.
//!
//! An operator's links are followed. One that lies in a folder which any program or tool may write is
//! not: the program that put it there would choose what others are given. What is found here is opened through no
//! link at all, so that it does not matter what changes in between.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;

use super::followed::FollowedPath;
use super::{Survey, Trusted};

/// A path that leads through a link which a program could have put there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the link `{}` is on the way to it, in the folder `{}` that programs may write, so that a program \
     could have put it there; name what is meant without the link",
    link.display(), folder.display()
)]
pub struct Misled {
    pub(crate) link: PathBuf,
    folder: PathBuf,
}

impl Trusted {
    /// Where a path leads that is about to be given to a program or a tool, which need not be there yet.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, Misled> {
        self.survey().resolve(path)
    }

    /// Opens a folder that tools may write from now on. It is made, for its owner alone, where it is not
    /// there.
    pub fn open_writable(&self, path: &Path) -> io::Result<OwnedFd> {
        let real = self.resolve(path).map_err(io::Error::other)?;
        self.add_writable(&real)?;
        let mut folder = openat(CWD, "/", FOLDER, Mode::empty())?;
        for part in real.components() {
            let Component::Normal(part) = part else { continue };
            folder = match openat(&folder, part, FOLDER, Mode::empty()) {
                Err(Errno::NOENT) => {
                    match mkdirat(&folder, part, Mode::RWXU) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    openat(&folder, part, FOLDER, Mode::empty())?
                }
                opened => opened?,
            };
        }
        Ok(openat(&folder, ".", FOLDER.difference(OFlags::PATH), Mode::empty())?)
    }
}

const FOLDER: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Survey {
    /// Where a path leads that is about to be given to a program.
    pub(crate) fn resolve(&self, path: &Path) -> Result<PathBuf, Misled> {
        let (end, misled) = self.follow(path);
        misled.map_or(Ok(end), Err)
    }

    /// Where a path leads, and whether a program could have had a part in that.
    pub(crate) fn follow(&self, path: &Path) -> (PathBuf, Option<Misled>) {
        let followed = FollowedPath::of(path);
        let misled = followed.links.iter().find_map(|link| {
            let ground = self.writable().iter().find(|ground| self.holds(ground, link))?;
            Some(Misled { link: link.clone(), folder: ground.real.clone() })
        });
        (followed.end, misled)
    }

    /// Whether any program or tool may write there.
    pub(crate) fn is_written(&self, path: &Path) -> bool {
        self.writable().iter().any(|ground| self.holds(ground, path))
    }
}

/// Opens a path that has no links, to be mounted. If a link has come into it meanwhile, it is refused.
pub(crate) fn open_real(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let opened =
        openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    opened.map_err(|error| match error {
        Errno::LOOP => io::Error::other("its path leads elsewhere by now"),
        error => error.into(),
    })
}

#[cfg(test)]
#[path = "granted_tests.rs"]
mod tests;
