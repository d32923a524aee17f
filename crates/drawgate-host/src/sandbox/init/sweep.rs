//! Protected names outside the box: what was not there before is moved out of the way.
//!
//! Done once, when every process of the box is dead, on descriptors that were taken before it started,
//! following no links and walking no trees. Nothing is deleted: a person may work in the same folder,
//! and nobody can tell whose a new file is.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, readlinkat, renameat, statat, symlinkat,
};

use crate::sandbox::protected;

/// Where it goes, within the folder.
const ASIDE: &str = ".drawgate-removed";

/// A writable folder, as it was.
pub(super) struct Folder {
    handle: OwnedFd,
    names: Vec<(&'static Path, Before)>,
}

enum Before {
    Absent,
    /// A link to this.
    Link(OsString),
    /// Mounted over in the box, so nothing can happen to it.
    Present,
}

impl Folder {
    /// Looks at a folder before the program starts; `absent` are names that count as new.
    pub(super) fn look(path: &Path, absent: &[String]) -> io::Result<Self> {
        let handle = open(CWD, path)?;
        let names = protected::with_folders_above().map(|name| {
            let is_new = absent.iter().any(|absent| Path::new(absent) == name);
            (name, if is_new { Before::Absent } else { before(handle.as_fd(), name) })
        });
        let names = names.collect();
        Ok(Self { handle, names })
    }

    /// The folder itself.
    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Moves away what is new, and names it.
    pub(super) fn sweep(&self) -> Vec<String> {
        let mut removed = Vec::new();
        for (name, before) in &self.names {
            let Some((parent, last)) = parent_of(self.handle.as_fd(), name) else { continue };
            let parent = parent.as_ref().map_or(self.handle.as_fd(), AsFd::as_fd);
            if !before.is_changed(name, parent, last) {
                continue;
            }
            make_accessible(parent, last);
            let _impossible = set_aside(self.handle.as_fd(), parent, name, last);
            if let Before::Link(target) = before {
                let _taken = symlinkat(target.as_os_str(), parent, last);
            }
            removed.push(name.display().to_string());
        }
        removed
    }
}

impl Before {
    fn is_changed(&self, name: &Path, parent: BorrowedFd<'_>, last: &Path) -> bool {
        match self {
            Self::Present => false,
            // A new `.git` is allowed, but only as a folder that can be looked into.
            Self::Absent if protected::is_above(name) => {
                kind(parent, last).is_some_and(|kind| !kind.is_dir())
            }
            Self::Absent => kind(parent, last).is_some(),
            Self::Link(target) => readlinkat(parent, last, Vec::new())
                .map_or(true, |now| now.as_bytes() != target.as_encoded_bytes()),
        }
    }
}

/// Moves it where nobody looks for it; beside itself if that place is taken by something else.
fn set_aside(
    top: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    path: &Path,
    last: &Path,
) -> io::Result<()> {
    let mut unique = [0; 8];
    getrandom::fill(&mut unique).map_err(|error| io::Error::other(error.to_string()))?;
    let unique = hex::encode(unique);
    let _exists = mkdirat(top, ASIDE, Mode::RWXU);
    make_accessible(top, Path::new(ASIDE));
    let name = path.display().to_string().replace('/', "_");
    let moved = open(top, Path::new(ASIDE))
        .and_then(|aside| Ok(renameat(parent, last, &aside, format!("{name}-{unique}"))?));
    moved.or_else(|_| {
        let beside = format!("{}{ASIDE}-{unique}", last.display());
        Ok(renameat(parent, last, parent, beside)?)
    })
}

/// The folder of a name (`None`: the top) and its last part, unless a part of the way is missing or a
/// link.
fn parent_of<'a>(top: BorrowedFd<'_>, name: &'a Path) -> Option<(Option<OwnedFd>, &'a Path)> {
    let last = Path::new(name.file_name()?);
    let mut parent: Option<OwnedFd> = None;
    for part in name.parent()?.components() {
        let Component::Normal(part) = part else { return None };
        let above = parent.as_ref().map_or(top, AsFd::as_fd);
        let part = Path::new(part);
        let next = open(above, part).or_else(|error| {
            if error.kind() == io::ErrorKind::PermissionDenied {
                make_accessible(above, part);
            }
            open(above, part)
        });
        parent = Some(next.ok()?);
    }
    Some((parent, last))
}

fn before(folder: BorrowedFd<'_>, name: &Path) -> Before {
    match kind(folder, name) {
        None => Before::Absent,
        Some(FileType::Symlink) => match readlinkat(folder, name, Vec::new()) {
            Ok(target) => Before::Link(OsString::from_vec(target.into_bytes())),
            Err(_) => Before::Absent,
        },
        Some(_) => Before::Present,
    }
}

fn kind(folder: BorrowedFd<'_>, name: &Path) -> Option<FileType> {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(FileType::from_raw_mode(found.st_mode))
}

fn open(above: BorrowedFd<'_>, name: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(above, name, flags, Mode::empty())?)
}

/// No folder may stay where it is by its mode. By way of a descriptor, since a name could have become
/// a link meanwhile.
fn make_accessible(parent: BorrowedFd<'_>, name: &Path) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(folder) = openat(parent, name, flags, Mode::empty()) {
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let _other = std::fs::set_permissions(path, Permissions::from_mode(0o700));
    }
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
