//! Detached copies of what will be visible in the box.
//!
//! They are taken before the box has its own root, and put into place afterwards, so that no path of
//! the machine is ever looked up from inside.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use super::sys;
use crate::trusted::granted::open_real;

/// What may be done with a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    /// Read it.
    Read,
    /// Write it, too.
    Write,
    /// Use the devices in it.
    Devices,
}

impl Rights {
    const fn attributes(self) -> u64 {
        match self {
            Self::Read => {
                libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV
            }
            Self::Write => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
            Self::Devices => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC,
        }
    }
}

/// Copies the tree at a resolved path. If a link has come into that path meanwhile, it is refused.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    let file = open_real(path, OFlags::PATH)?;
    let copy = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(&file, "", copy)?)
}

/// Restricts a tree, and maps its owner to the box's user if a mapping is given.
pub(super) fn restrict(
    tree: impl AsFd,
    rights: Rights,
    users: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    sys::set_mount(tree.as_fd(), c"", true, rights.attributes(), users)
}

/// Attaches a tree at a path, which is made if there is nothing. Other boxes may write some of the folders
/// on the way, and must not lead it elsewhere by a link.
pub(super) fn attach(tree: impl AsFd, path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_err() {
        let stat = rustix::fs::fstat(&tree)?;
        let is_folder = FileType::from_raw_mode(stat.st_mode).is_dir();
        let make =
            || if is_folder { fs::create_dir(path) } else { fs::File::create_new(path).map(drop) };
        // The folder above is there, as a rule.
        match (make(), path.parent()) {
            (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(above)?;
                make()?;
            }
            (outcome, _) => outcome?,
        }
    }
    let place = open_real(path, OFlags::PATH)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(&tree, "", &place, "", flags)?)
}

/// Mounts a copy of what is at a path over itself, with these rights.
pub(super) fn cover_with_itself(path: &Path, rights: Rights) -> io::Result<()> {
    let tree = open(path)?;
    restrict(&tree, rights, None)?;
    attach(&tree, path)
}
