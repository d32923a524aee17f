//! Files of the user's that commands read and change: all of a file or nothing of it.
//!
//! They lie in folders that may have come with a project, or that others may write, so nothing there is trusted
//! to be a file: no link is followed, nothing is waited for, and what is not the user's own plain file is left as
//! it is. The folder around a file is opened first, and the file is reached by its name in it, so that it does
//! not matter what becomes of the path meanwhile.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use drawgate_host::ownership;
use drawgate_host::store::DataDir;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::machine;

/// The folder in the data folder with what files held before they were changed.
const BACKUPS: &str = "backups";
/// The largest file that is read.
const MAX_FILE: u64 = 64 << 20;
/// How many copies are kept of files of one name, and how many unfinished ones may lie beside a file.
const MAX_COPIES: usize = 9999;
/// How many links the kernel follows.
const MAX_LINKS: usize = 40;
/// For its owner alone.
const PRIVATE: u32 = 0o600;
/// For its owner alone, a folder.
const PRIVATE_FOLDER: Mode = Mode::RWXU;
/// As the user's mask has it.
const BY_MASK: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);
/// Why a link is not followed.
const IS_LINK: &str = "it is a link, which is not followed: it may have come with a project; change the file \
     that it leads to by hand";
/// Whether its owner may write it.
const OWNER_WRITES: u32 = 0o200;
/// Opens whatever has a name, without waiting for it or following it.
const AS_IT_IS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What was done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing, since it was up to date.
    None,
    /// It was made.
    Created,
    /// It was changed; what it held is in this copy.
    Updated(PathBuf),
}

/// Changes a file of another program's: what it holds, or nothing if it is not there, becomes what `edit` makes
/// of it. A copy is kept in the data folder.
pub(super) fn change(
    path: &Path,
    data: &Path,
    edit: impl FnOnce(Option<&str>) -> anyhow::Result<String>,
) -> anyhow::Result<Change> {
    let shown = path.display();
    let before = read(path).with_context(|| format!("can't read `{shown}`"))?;
    let after = edit(before.as_deref()).with_context(|| format!("`{shown}` was left as it is"))?;
    let change = match before {
        Some(before) if before == after => return Ok(Change::None),
        Some(before) => {
            Place::of(path)
                .and_then(|place| place.present())
                .and_then(|found| found.as_ref().map_or(Ok(()), check_own))
                .with_context(|| format!("`{shown}` was left as it is"))?;
            Change::Updated(keep_copy(data, path, &before)?)
        }
        None => {
            path.parent().map_or(Ok(()), make_folder)?;
            Change::Created
        }
    };
    put(path, after).with_context(|| format!("can't write `{shown}`"))?;
    Ok(change)
}

/// Reads a file; `None` if nothing is there.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    let place = match Place::of(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        place => place?,
    };
    if place.present()?.is_none() {
        return Ok(None);
    }
    let file = place.open(&place.name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
    check_kind(&file.metadata()?)?;
    let mut text = String::new();
    if file.take(MAX_FILE + 1).read_to_string(&mut text)? as u64 > MAX_FILE {
        return Err(io::Error::other("it is too large"));
    }
    Ok(Some(without_mark(text)))
}

/// A text without the byte order mark that some editors put before it.
pub(super) fn without_mark(mut text: String) -> String {
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    text
}

/// Puts this content into a file, whole or not at all. One that is there keeps its permissions.
pub(super) fn put(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    Place::of(path)?.replace(content.as_ref(), None)
}

/// The same for a file that only its owner may read.
pub(super) fn put_private(path: &Path, content: &str) -> io::Result<()> {
    Place::of(path)?.replace(content.as_bytes(), Some(PRIVATE))
}

/// Makes a file that is not there yet.
pub(super) fn create(path: &Path, content: &str) -> io::Result<()> {
    Place::of(path)?.create(content.as_bytes(), None)
}

/// Makes a folder, with those above it. One that is there stays as it is.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    open_folder(path, Absent::Made(BY_MASK)).map(drop)
}

/// The same for its owner alone.
pub(super) fn make_private_folder(path: &Path) -> io::Result<()> {
    open_folder(path, Absent::Made(PRIVATE_FOLDER)).map(drop)
}

/// Refuses the path of a folder, which need not be there, that leads through a link which is not the user's.
pub(super) fn check_way(path: &Path) -> io::Result<()> {
    match open_folder(path, Absent::Refused) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => opened.map(drop),
    }
}

/// Keeps what a file held, in the data folder: it may hold secrets, and must not lie where a project would
/// publish it.
fn keep_copy(data: &Path, path: &Path, content: &str) -> anyhow::Result<PathBuf> {
    let folder = std::path::absolute(DataDir::open(data)?.file(BACKUPS))?;
    make_private_folder(&folder)?;
    let name = path.file_name().unwrap_or_default();
    for number in 1..=MAX_COPIES {
        let copy = folder.join(suffixed(name, &format!(".{number}")));
        // Writing one in vain for each that is there takes long, where there are many.
        if copy.symlink_metadata().is_ok() {
            continue;
        }
        match Place::of(&copy)?.create(content.as_bytes(), Some(PRIVATE)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return Ok(done.map(|()| copy)?),
        }
    }
    bail!("there are too many copies in `{}`; remove some", folder.display())
}

/// A file, which need not be there, by its name in its folder.
struct Place {
    folder: File,
    name: OsString,
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return refused("it is not a file");
        };
        Ok(Self { folder: open_folder(folder, Absent::Refused)?, name: name.to_owned() })
    }

    fn open(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.folder, name, flags, mode)?.into())
    }

    /// What is there, if it is a file.
    fn present(&self) -> io::Result<Option<Metadata>> {
        match self.open(&self.name, AS_IT_IS, Mode::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => {
                let found = found?.metadata()?;
                check_kind(&found)?;
                Ok(Some(found))
            }
        }
    }

    fn replace(&self, content: &[u8], mode: Option<u32>) -> io::Result<()> {
        let now = self.present()?;
        if let Some(found) = &now {
            check_own(found)?;
        }
        let mode = mode.or_else(|| now.map(|found| found.mode() & 0o7777));
        self.write(content, mode, RenameFlags::empty())
    }

    fn create(&self, content: &[u8], mode: Option<u32>) -> io::Result<()> {
        self.write(content, mode, RenameFlags::NOREPLACE)
    }

    /// Writes a new file under another name, and puts it in place.
    fn write(&self, content: &[u8], mode: Option<u32>, how: RenameFlags) -> io::Result<()> {
        let (unfinished, mut file) = self.begin(mode)?;
        let mut complete = || {
            file.write_all(content)?;
            if let Some(mode) = mode {
                file.set_permissions(Permissions::from_mode(mode))?;
            }
            file.sync_all()?;
            let folder = &self.folder;
            Ok(rustix::fs::renameat_with(folder, &unfinished, folder, &self.name, how)?)
        };
        let done: io::Result<()> = complete();
        if done.is_err() {
            // The error that matters is the one above.
            let _ = rustix::fs::unlinkat(&self.folder, &unfinished, AtFlags::empty());
        }
        done
    }

    /// Makes a file beside it, under a name that no other has.
    fn begin(&self, mode: Option<u32>) -> io::Result<(OsString, File)> {
        // Others may see it from the first moment.
        let mode = if mode.is_some() { Mode::from(PRIVATE) } else { BY_MASK - Mode::from(0o111) };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let own = std::process::id();
        for number in 1..=MAX_COPIES {
            let name = suffixed(&self.name, &format!(".{own}.{number}.tmp"));
            match self.open(&name, flags, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => return Ok((name, opened?)),
            }
        }
        refused("there are too many unfinished files beside it; remove some")
    }
}

/// What becomes of folders of a path that are not there.
#[derive(Clone, Copy)]
enum Absent {
    Refused,
    Made(Mode),
}

/// Opens a folder by its path. Links are followed that only the user or the system can have made, and not
/// where a project may have brought them.
fn open_folder(path: &Path, absent: Absent) -> io::Result<File> {
    let project = project();
    let root = || rustix::fs::open("/", AS_IT_IS, Mode::empty()).map(File::from);
    let (mut folder, mut real, mut links) = (root()?, PathBuf::from("/"), 0);
    let mut rest: VecDeque<OsString> = parts(&std::path::absolute(path)?).collect();
    while let Some(part) = rest.pop_front() {
        let next = File::from(match rustix::fs::openat(&folder, &part, AS_IT_IS, Mode::empty()) {
            Err(Errno::NOENT) => make(&folder, &part, absent)?,
            found => found?,
        });
        let found = next.metadata()?;
        if !found.is_symlink() {
            folder = next;
            real = if part == ".." {
                real.parent().unwrap_or(&real).to_owned()
            } else {
                real.join(part)
            };
            continue;
        }
        let link = real.join(&part);
        let holder = folder.metadata()?;
        if project.as_deref().is_some_and(|project| link.starts_with(project)) {
            let why = "which is not followed: it may have come with a project";
            return refused(&format!("the link `{}` is on the way to it, {why}", link.display()));
        }
        let is_own = ownership::is_ours(&found) && ownership::is_ours(&holder);
        if !is_own || ownership::others_replace_in(&holder) {
            let why = "which is not followed: another user could have put it there";
            return refused(&format!("the link `{}` is on the way to it, {why}", link.display()));
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.to_bytes())).to_owned();
        if target.is_absolute() {
            (folder, real) = (root()?, PathBuf::from("/"));
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(part);
        }
    }
    if folder.metadata()?.is_dir() { Ok(folder) } else { Err(Errno::NOTDIR.into()) }
}

fn make(folder: &File, name: &OsStr, absent: Absent) -> io::Result<std::os::fd::OwnedFd> {
    let Absent::Made(mode) = absent else { return Err(Errno::NOENT.into()) };
    match rustix::fs::mkdirat(folder, name, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(rustix::fs::openat(folder, name, AS_IT_IS, Mode::empty())?)
}

/// The current folder, whose content may have come from elsewhere; not the home folder or one above it.
fn project() -> Option<PathBuf> {
    let home = machine::secrets().home().and_then(|home| home.canonicalize().ok());
    let is_home = |folder: &PathBuf| home.as_deref().is_some_and(|home| home.starts_with(folder));
    std::env::current_dir().ok().filter(|folder| !is_home(folder) && folder.parent().is_some())
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    })
}

fn check_kind(found: &Metadata) -> io::Result<()> {
    if found.is_symlink() {
        return refused(IS_LINK);
    }
    if found.is_file() { Ok(()) } else { refused("it is not a file") }
}

fn check_own(found: &Metadata) -> io::Result<()> {
    if found.uid() != geteuid().as_raw() {
        return refused("it belongs to another user; run this as that user");
    }
    if found.mode() & OWNER_WRITES == 0 {
        return refused("it is read-only");
    }
    Ok(())
}

fn refused<T>(why: &str) -> io::Result<T> {
    Err(io::Error::other(why))
}

fn suffixed(name: &OsStr, suffix: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(suffix);
    name
}
