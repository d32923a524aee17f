//! Protected names outside the box: what was not there before is moved out of the way.
//!
//! Done once, when every process of the box is dead, on descriptors that were taken before it started,
//! following no links and walking no trees. Nothing is deleted: a person may work in the same folder,
//! and nobody can tell whose a new file is.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, mkdirat, openat, readlinkat, renameat, statat, symlinkat,
};
use rustix::io::Errno;

use super::accessible::{Opened, make_accessible};
use crate::sandbox::entries::FolderEntries;
use crate::sandbox::protected;
use crate::sandbox::wire::Swept;
use crate::trusted::granted::open_real;

/// Where it goes, within the folder.
const ASIDE: &str = ".drawgate-removed";

/// A writable folder, as it was.
pub(in crate::sandbox) struct Folder {
    path: PathBuf,
    handle: OwnedFd,
    names: Vec<(&'static str, Before)>,
}

enum Before {
    Absent,
    /// A link to this.
    Link(OsString),
    /// Mounted over in the box, so nothing can happen to it.
    Present,
    /// In a folder of somebody else's, which is closed to the gateway, and thereby to the box.
    Closed,
}

impl Folder {
    /// Looks at a folder before the program starts; `absent` are names that count as new, and
    /// `unprotected` those that may be.
    pub(in crate::sandbox) fn look(
        path: &Path,
        absent: &[String],
        unprotected: &[String],
    ) -> io::Result<Self> {
        let handle = open_real(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let absent: BTreeSet<&str> = absent.iter().map(String::as_str).collect();
        let top = Opened::again(handle.as_fd())?;
        let names = protected::with_folders_above(unprotected).map(|name| {
            let is_new = absent.contains(name);
            (name, if is_new { Before::Absent } else { before(&top, Path::new(name)) })
        });
        let names = names.collect();
        Ok(Self { path: path.to_owned(), handle, names })
    }

    /// The folder itself.
    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Moves away what is new, and names it, and what could not be moved.
    pub(in crate::sandbox) fn sweep(&self) -> Swept {
        let mut swept = Swept { folder: self.path.clone(), ..Swept::default() };
        let top = Opened::again(self.handle.as_fd());
        let entries = top.as_ref().map_or(FolderEntries::unknown(), FolderEntries::of);
        for (name, before) in &self.names {
            let moved = match &top {
                Ok(_) if matches!(before, Before::Absent) && !entries.may_have(name) => Ok(false),
                Ok(top) => before.restore(top, name),
                Err(_) => Err(Errno::MFILE),
            };
            match moved {
                Ok(true) => swept.removed.push((*name).to_owned()),
                Ok(false) => {}
                Err(_) => swept.left.push((*name).to_owned()),
            }
        }
        swept
    }
}

impl Before {
    /// Whether there was something to move away.
    fn restore(&self, top: &Opened, name: &str) -> Result<bool, Errno> {
        if matches!(self, Self::Present) {
            return Ok(false);
        }
        let path = Path::new(name);
        let Some((parent, last)) = parent_of(top, path)? else { return Ok(false) };
        let parent = parent.as_ref().unwrap_or(top).as_fd();
        let now = match kind(parent, last) {
            Err(Errno::ACCESS) if matches!(self, Self::Closed) => None,
            now => now?,
        };
        if self.is_as_it_was(name, now, parent, last) {
            return Ok(false);
        }
        if now.is_some() {
            make_accessible(parent, last);
            set_aside(top, parent, path, last)?;
        }
        if let Self::Link(target) = self {
            let _taken = symlinkat(target.as_os_str(), parent, last);
        }
        Ok(now.is_some())
    }

    fn is_as_it_was(
        &self,
        name: &str,
        now: Option<FileType>,
        parent: BorrowedFd<'_>,
        last: &Path,
    ) -> bool {
        match self {
            Self::Present => true,
            // A new `.git` is allowed, but only as a folder that can be looked into.
            Self::Absent | Self::Closed if protected::is_above(name) => {
                now.is_none_or(FileType::is_dir)
            }
            Self::Absent | Self::Closed => now.is_none(),
            Self::Link(target) => readlinkat(parent, last, Vec::new())
                .is_ok_and(|now| now.as_bytes() == target.as_encoded_bytes()),
        }
    }
}

/// Moves it where nobody looks for it; beside itself if that place is taken by something else.
fn set_aside(top: &Opened, parent: BorrowedFd<'_>, path: &Path, last: &Path) -> Result<(), Errno> {
    let mut unique = [0; 8];
    getrandom::fill(&mut unique).map_err(|_| Errno::IO)?;
    let unique = hex::encode(unique);
    let _exists = mkdirat(top, ASIDE, Mode::RWXU);
    make_accessible(top.as_fd(), Path::new(ASIDE));
    let name = path.display().to_string().replace('/', "_");
    let moved = open(top.as_fd(), Path::new(ASIDE))
        .and_then(|aside| renameat(parent, last, &aside, format!("{name}-{unique}")));
    moved.or_else(|_| {
        let beside = format!("{}{ASIDE}-{unique}", last.display());
        renameat(parent, last, parent, beside)
    })
}

/// The folder of a name (`None`: the top) and its last part, unless a part of the way is missing or a
/// link.
fn parent_of<'a>(
    top: &Opened,
    name: &'a Path,
) -> Result<Option<(Option<Opened>, &'a Path)>, Errno> {
    let (Some(above), Some(last)) = (name.parent(), name.file_name()) else { return Ok(None) };
    let mut parent: Option<Opened> = None;
    for part in above.components() {
        let Component::Normal(part) = part else { return Ok(None) };
        let next = parent.as_ref().unwrap_or(top).below(Path::new(part))?;
        let Some(next) = next else { return Ok(None) };
        parent = Some(next);
    }
    Ok(Some((parent, Path::new(last))))
}

fn before(top: &Opened, name: &Path) -> Before {
    let Ok(Some((parent, last))) = parent_of(top, name) else { return Before::Absent };
    let parent = parent.as_ref().unwrap_or(top).as_fd();
    match kind(parent, last) {
        Ok(Some(FileType::Symlink)) => match readlinkat(parent, last, Vec::new()) {
            Ok(target) => Before::Link(OsString::from_vec(target.into_bytes())),
            Err(_) => Before::Absent,
        },
        Ok(Some(_)) => Before::Present,
        Err(Errno::ACCESS) => Before::Closed,
        Ok(None) | Err(_) => Before::Absent,
    }
}

/// What is there; nothing only if the system says so.
fn kind(folder: BorrowedFd<'_>, name: &Path) -> Result<Option<FileType>, Errno> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn open(above: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(above, name, flags, Mode::empty())
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
