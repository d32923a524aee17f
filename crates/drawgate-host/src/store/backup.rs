//! Copies of a data folder, whether or not a gateway is running on it: a backup, and its way back.
//!
//! A copy is of one moment. The databases are copied by `SQLite` from transactions that begin together,
//! never as files: opening and closing a file releases the locks that this process has on it. The
//! signed head in `audit.head` is read before the state, and the state before the log, so that each is
//! covered by the next. A copy is made under another name, verified, and put in place as a whole; on a mount
//! point, with the databases last.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use drawgate_core::store::{StoreError, VerifyOptions};
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, StatxFlags};
use rustix::io::Errno;

use super::lock::{DataDir, DataDirError};
use super::sqlite::{Reader, read_only, unavailable};
use crate::own_files;
use crate::trusted::followed::FollowedPath;

/// What `SQLite` keeps beside a database.
const BESIDE: [&str; 4] = ["", "-wal", "-shm", "-journal"];
/// What belongs to the process that runs.
const OF_PROCESS: [&str; 3] = [DataDir::LOCK, DataDir::NEXT_LOCK, "audit.head.new"];
const HEAD: &str = "audit.head";
/// Without these no gateway starts on a folder that has databases.
const KEYS: [&str; 2] = ["audit.key", "sealing.key"];
/// What the operator may have put there as a link to their own file.
const OF_OPERATOR: [&str; 4] = ["drawgate.toml", "secrets.env", "drawgate.lock", "toolpacks.lock"];
/// What file systems have at their top: nothing of the data folder, whose it may be.
const LOST_AND_FOUND: &str = "lost+found";

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Without `NONBLOCK`, opening what has just become a pipe would wait for a writer.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
/// How deep folders of programs are copied, and how long their paths may be. Each level may hold a
/// descriptor, which the gateway needs as well.
const MAX_DEPTH: usize = 256;
const MAX_PATH: usize = 4000;
/// What a program may cause in a folder that it writes: a mode, a special file, or an exchange for
/// something else while it is copied.
const BY_PROGRAM: [Errno; 10] = [
    Errno::ACCESS,
    Errno::PERM,
    Errno::LOOP,
    Errno::NOTDIR,
    Errno::INVAL,
    Errno::NXIO,
    Errno::NODEV,
    Errno::OPNOTSUPP,
    Errno::AGAIN,
    Errno::NAMETOOLONG,
];

/// Why no copy was made. What there was stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The folder can't be used.
    #[error(transparent)]
    Folder(#[from] DataDirError),
    /// Nothing was stored in it.
    #[error("`{}` is not a data folder or a copy of one: it has no `drawgate.db` and `audit.db`", .0.display())]
    Empty(PathBuf),
    /// The copy would be in the folder that is copied.
    #[error("`{}` is in the folder that is to be copied; name one elsewhere", .0.display())]
    Inside(PathBuf),
    /// The place is taken.
    #[error("`{}` is not empty; name a folder that is not there yet, or move it away", .0.display())]
    Taken(PathBuf),
    /// A file can't be read or written.
    #[error("`{}` can't be copied", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the gateway's own is something else.
    #[error("nothing was copied, because `{}` is not a regular file or folder; move it away, or put the file back", .0.display())]
    NotAFile(PathBuf),
    /// A database can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The copy is not what it should be.
    #[error("the copy was not kept, because its audit log does not verify: {0}")]
    NotIntact(String),
}

/// A copy that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// How many events its audit log has.
    pub events: u64,
    /// Its newest event.
    pub head: u64,
    /// What of the log is not proved, although nothing is wrong with it.
    pub unproved: Vec<String>,
}

/// Where a copy goes: a folder that is not there yet, or is empty.
#[derive(Debug, Clone)]
pub struct Destination {
    path: PathBuf,
    parent: PathBuf,
    name: String,
    way: Way,
}

/// How a finished copy gets to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Its folder is renamed.
    Renamed,
    /// What is in its folder is moved, since no folder can take the place of a mount point. The databases come
    /// last: without them, it is not taken for a data folder.
    Moved,
}

impl Destination {
    /// Checks a place for a copy of a folder.
    pub fn new(from: &DataDir, path: &Path) -> Result<Self, CopyError> {
        let real = FollowedPath::of(path).end;
        if real.starts_with(FollowedPath::of(from.path()).end) {
            return Err(CopyError::Inside(path.to_owned()));
        }
        let parent = real.parent().unwrap_or(Path::new("/")).to_owned();
        let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let way = if is_mount_point(&real, &parent) { Way::Moved } else { Way::Renamed };
        match is_free(&real, way) {
            Ok(true) => {}
            Ok(false) => return Err(CopyError::Taken(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(path)(error)),
        }
        Ok(Self { path: real, parent, name, way })
    }

    /// Makes the folder under another name.
    fn begin(self) -> Result<Unfinished, CopyError> {
        let mut unique = [0; 8];
        let filled = getrandom::fill(&mut unique);
        filled.map_err(|error| failed(&self.path)(io::Error::other(error.to_string())))?;
        let beside = match self.way {
            Way::Renamed => &self.parent,
            Way::Moved => &self.path,
        };
        let temporary = beside.join(format!(".{}.{}", self.name, hex::encode(unique)));
        let made = DirBuilder::new().mode(0o700).create(&temporary);
        made.map_err(failed(&temporary))?;
        let Self { path, parent, way, .. } = self;
        Ok(Unfinished { temporary, path, parent, way, modes: Vec::new() })
    }
}

/// Whether something is mounted there.
fn is_mount_point(path: &Path, parent: &Path) -> bool {
    let mount = |path: &Path| {
        let found = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID);
        found.ok().map(|found| found.stx_mnt_id)
    };
    mount(path).zip(mount(parent)).is_some_and(|(own, around)| own != around)
}

/// A copy that is being made; removed unless it is finished.
struct Unfinished {
    temporary: PathBuf,
    path: PathBuf,
    parent: PathBuf,
    way: Way,
    /// The folders in it, each after the one that it is in, and the modes that they get in the end.
    modes: Vec<(PathBuf, Permissions)>,
}

impl Unfinished {
    fn finish(self) -> Result<(), CopyError> {
        let sync = |path: &Path| rustix::fs::syncfs(File::open(path)?).map_err(io::Error::from);
        match self.way {
            Way::Renamed => {
                self.set_modes(&self.temporary)?;
                sync(&self.temporary).map_err(failed(&self.temporary))?;
                fs::rename(&self.temporary, &self.path).map_err(failed(&self.path))?;
                File::open(&self.parent).and_then(|it| it.sync_all()).map_err(failed(&self.parent))
            }
            Way::Moved => {
                sync(&self.temporary).map_err(failed(&self.temporary))?;
                self.move_entries().map_err(failed(&self.path))?;
                self.set_modes(&self.path)?;
                sync(&self.path).map_err(failed(&self.path))
            }
        }
    }

    /// Sets the modes of the folders, which are in this one by now.
    fn set_modes(&self, place: &Path) -> Result<(), CopyError> {
        // From below: some folders can't be written or entered then.
        for (path, mode) in self.modes.iter().rev() {
            let path = place.join(path.strip_prefix(&self.temporary).unwrap_or(path));
            fs::set_permissions(&path, mode.clone()).map_err(failed(&path))?;
        }
        Ok(())
    }

    fn move_entries(&self) -> io::Result<()> {
        fs::set_permissions(&self.path, Permissions::from_mode(0o700))?;
        let names = fs::read_dir(&self.temporary)?.map(|entry| Ok(entry?.file_name()));
        let mut names = names.collect::<io::Result<Vec<_>>>()?;
        names.sort_by_key(|name| [DataDir::STATE, DataDir::AUDIT].iter().any(|own| name == own));
        for name in names {
            fs::rename(self.temporary.join(&name), self.path.join(&name))?;
        }
        fs::remove_dir(&self.temporary)
    }
}

/// Whether a folder holds nothing. The top of a file system has a folder of its own.
fn is_free(folder: &Path, way: Way) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let is_of_system = matches!(way, Way::Moved) && entry?.file_name() == LOST_AND_FOUND;
        if !is_of_system {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename it is not there.
        if self.temporary.exists() {
            for (path, _) in &self.modes {
                drop(fs::set_permissions(path, Permissions::from_mode(0o700)));
            }
            drop(fs::remove_dir_all(&self.temporary));
        }
    }
}

/// A data folder as it is at one moment.
pub struct Snapshot {
    dir: DataDir,
    head: Option<Vec<u8>>,
    state: Connection,
    audit: Connection,
}

impl Snapshot {
    /// The files that the copy will lack, and without which no gateway starts on it.
    #[must_use]
    pub fn missing_keys(&self) -> Vec<&'static str> {
        KEYS.into_iter().filter(|name| !self.dir.file(name).exists()).collect()
    }

    /// Holds the moment. The folder may be in use.
    pub fn take(dir: DataDir) -> Result<Self, CopyError> {
        let [state, audit] = [DataDir::STATE, DataDir::AUDIT].map(|name| dir.file(name));
        if !state.exists() || !audit.exists() {
            return Err(CopyError::Empty(dir.path().to_owned()));
        }
        let head =
            unless_gone(own_files::read(&dir.file(HEAD))).map_err(failed(&dir.file(HEAD)))?;
        let (state, audit) = (begin(&state)?, begin(&audit)?);
        Ok(Self { dir, head, state, audit })
    }

    /// Writes the copy, verifies it, and puts it in place.
    pub fn write(self, to: Destination) -> Result<Copied, CopyError> {
        let mut unfinished = to.begin()?;
        let copy = DataDir::existing(&unfinished.temporary)?;
        copy_database(&self.state, &copy.file(DataDir::STATE))?;
        copy_database(&self.audit, &copy.file(DataDir::AUDIT))?;
        if let Some(head) = self.head {
            let path = copy.file(HEAD);
            let written = fs::write(&path, head).and_then(|()| private(&path));
            written.map_err(failed(&path))?;
        }
        unfinished.modes = copy_files(&self.dir, copy.path())?;
        let copied = verify(&copy)?;
        unfinished.finish()?;
        Ok(copied)
    }
}

/// Opens a database at a moment that does not pass.
fn begin(path: &Path) -> Result<Connection, StoreError> {
    let connection = read_only(path)?;
    connection
        .execute_batch("BEGIN")
        .and_then(|()| connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())))
        .map_err(|error| unavailable(OPERATION, &format!("`{}`: {error}", path.display())))?;
    Ok(connection)
}

/// Copies a database page by page. The copy is one file, which can be read where nothing can be written.
fn copy_database(from: &Connection, path: &Path) -> Result<(), StoreError> {
    let named = |reason: &dyn std::fmt::Display| {
        unavailable(OPERATION, &format!("`{}`: {reason}", path.display()))
    };
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    drop(made.map_err(|error| named(&error))?);
    let copy = || {
        let mut to = Connection::open(path)?;
        let done = Backup::new(from, &mut to)?.step(-1)?;
        to.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
        let check: String = to.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        to.close().map_err(|(_, error)| error)?;
        Ok((done, check))
    };
    let (done, check) = copy().map_err(|error: rusqlite::Error| named(&error))?;
    match done {
        StepResult::Done if check == "ok" => Ok(()),
        StepResult::Done => Err(named(&check)),
        _ => Err(named(&"it is in use")),
    }
}

/// Copies all that is no database; returns the folders with their modes. What goes away meanwhile is
/// left out, and so is what a program made unreadable in a folder that it writes.
fn copy_files(dir: &DataDir, to: &Path) -> Result<Vec<(PathBuf, Permissions)>, CopyError> {
    let databases = [DataDir::STATE, DataDir::AUDIT];
    let own = databases.iter().flat_map(|name| BESIDE.map(|suffix| format!("{name}{suffix}")));
    let others = OF_PROCESS.into_iter().chain([HEAD, LOST_AND_FOUND]).map(str::to_owned);
    let own: Vec<String> = own.chain(others).collect();
    let ids = own.iter().filter_map(|name| rustix::fs::stat(dir.file(name)).ok());
    let ids = ids.map(|found| id(&found)).collect();
    let mut walk = Walk { own, ids, folders: Vec::new(), modes: Vec::new(), skipped: 0 };
    let root = rustix::fs::open(dir.path(), FOLDER, Mode::empty());
    let root = root.map_err(|error| failed(dir.path())(error.into()))?;
    let place = Place { from: dir.path().to_owned(), to: to.to_owned(), depth: 0, is_room: false };
    let names = walk.names(&root, &place)?.unwrap_or_default();
    walk.entries(root, &names, &place)?;
    while let Some(folder) = walk.folders.pop() {
        walk.folder(folder)?;
    }
    if walk.skipped > 0 {
        tracing::warn!(
            skipped = walk.skipped,
            "the copy lacks files that programs made unreadable in their own folders, or that are no files"
        );
    }
    Ok(walk.modes)
}

/// Something in the folder that is copied.
struct Place {
    /// For messages alone: by the time it is used, a path may lead elsewhere.
    from: PathBuf,
    to: PathBuf,
    depth: usize,
    /// Whether programs write here.
    is_room: bool,
}

impl Place {
    /// Whether it lies at the top of the data folder, where neither programs nor the operator put anything.
    fn is_of_gateway(&self) -> bool {
        let is_of_operator = || OF_OPERATOR.iter().any(|name| self.from.ends_with(name));
        self.depth == 1 && !self.is_room && !is_of_operator()
    }

    fn inner(&self, name: &CStr) -> Self {
        let os = OsStr::from_bytes(name.to_bytes());
        Self {
            from: self.from.join(os),
            to: self.to.join(os),
            depth: self.depth + 1,
            is_room: self.is_room
                || (self.depth == 0 && DataDir::WRITABLE.iter().any(|room| os == *room)),
        }
    }
}

/// A folder that is still to be copied.
struct Folder {
    parent: Rc<OwnedFd>,
    name: CString,
    place: Place,
}

/// Goes through a folder without following a link out of it: all is opened by its name in its parent,
/// which is open.
struct Walk {
    /// What is not copied, by its names in the data folder.
    own: Vec<String>,
    /// The same, by whatever name: another one may be in a folder of files.
    ids: Vec<(u64, u64)>,
    folders: Vec<Folder>,
    modes: Vec<(PathBuf, Permissions)>,
    skipped: u64,
}

impl Walk {
    fn folder(&mut self, Folder { parent, name, place }: Folder) -> Result<(), CopyError> {
        let opened = rustix::fs::openat(&*parent, &*name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        drop(parent);
        let Some(folder) = self.found(&place, opened)? else { return Ok(()) };
        let stat = rustix::fs::fstat(&folder);
        let Some(stat) = self.found(&place, stat)? else { return Ok(()) };
        let Some(names) = self.names(&folder, &place)? else { return Ok(()) };
        fs::create_dir(&place.to).map_err(failed(&place.to))?;
        self.modes.push((place.to.clone(), Permissions::from_mode(stat.st_mode & 0o7777)));
        self.entries(folder, &names, &place)
    }

    /// The names in a folder, each once.
    fn names(
        &mut self,
        folder: &OwnedFd,
        place: &Place,
    ) -> Result<Option<BTreeSet<CString>>, CopyError> {
        let listed = Dir::read_from(folder).and_then(|entries| {
            let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_owned()));
            names.collect::<Result<BTreeSet<CString>, Errno>>()
        });
        let mut listed = self.found(place, listed)?;
        if let Some(names) = &mut listed {
            names.retain(|name| !matches!(name.to_bytes(), b"." | b".."));
        }
        Ok(listed)
    }

    fn entries(
        &mut self,
        folder: OwnedFd,
        names: &BTreeSet<CString>,
        place: &Place,
    ) -> Result<(), CopyError> {
        let folder = Rc::new(folder);
        for name in names {
            let is_own = |own: &String| own.as_bytes() == name.to_bytes();
            if place.depth == 0 && self.own.iter().any(is_own) {
                continue;
            }
            self.entry(&folder, name, place.inner(name))?;
        }
        Ok(())
    }

    fn entry(&mut self, parent: &Rc<OwnedFd>, name: &CStr, place: Place) -> Result<(), CopyError> {
        let is_far = place.depth > MAX_DEPTH || place.to.as_os_str().len() > MAX_PATH;
        if place.is_room && is_far {
            self.skip(&place);
            return Ok(());
        }
        let found = rustix::fs::statat(&**parent, name, AtFlags::SYMLINK_NOFOLLOW);
        let found = self.found(&place, found)?;
        let Some(found) = found.filter(|it| !self.ids.contains(&id(it))) else { return Ok(()) };
        let kind = FileType::from_raw_mode(found.st_mode);
        if place.is_of_gateway()
            && !matches!(kind, FileType::Directory | FileType::RegularFile | FileType::Socket)
        {
            return Err(CopyError::NotAFile(place.from));
        }
        match kind {
            FileType::Directory => {
                let (parent, name) = (Rc::clone(parent), name.to_owned());
                self.folders.push(Folder { parent, name, place });
            }
            FileType::Symlink => {
                let link = rustix::fs::readlinkat(&**parent, name, Vec::new());
                let Some(link) = self.found(&place, link)? else { return Ok(()) };
                let made = symlink(OsStr::from_bytes(link.to_bytes()), &place.to);
                made.map_err(failed(&place.to))?;
            }
            FileType::RegularFile => self.file(parent, name, &place)?,
            _ if place.is_room => self.skip(&place),
            _ => {}
        }
        Ok(())
    }

    fn file(&mut self, parent: &OwnedFd, name: &CStr, place: &Place) -> Result<(), CopyError> {
        let opened = rustix::fs::openat(parent, name, FILE | OFlags::NOFOLLOW, Mode::empty());
        let Some(file) = self.found(place, opened)? else { return Ok(()) };
        let stat = rustix::fs::fstat(&file);
        let Some(stat) = self.found(place, stat)? else { return Ok(()) };
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || self.ids.contains(&id(&stat)) {
            self.skip(place);
            return Ok(());
        }
        copy_file(File::from(file), &place.to, &stat).map_err(failed(&place.from))
    }

    /// What was read of an entry: nothing where it went away, or where a program made it unreadable.
    fn found<T>(&mut self, place: &Place, read: Result<T, Errno>) -> Result<Option<T>, CopyError> {
        match read {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) if place.is_room && BY_PROGRAM.contains(&error) => {
                self.skip(place);
                Ok(None)
            }
            Err(error) => Err(failed(&place.from)(error.into())),
        }
    }

    fn skip(&mut self, place: &Place) {
        tracing::debug!(path = ?place.from, "not copied");
        self.skipped += 1;
    }
}

/// Copies a file as long as it is now: a program may write on.
fn copy_file(file: File, to: &Path, found: &Stat) -> io::Result<()> {
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut file.take(u64::try_from(found.st_size).unwrap_or_default()), &mut copy)?;
    copy.set_permissions(Permissions::from_mode(found.st_mode & 0o777))
}

fn verify(copy: &DataDir) -> Result<Copied, CopyError> {
    let report = Reader::open(copy)?.verify(VerifyOptions::default())?;
    if report.first_bad.is_some() || report.torn {
        return Err(CopyError::NotIntact(report.finding()));
    }
    Ok(Copied { events: report.events, head: report.head.0, unproved: report.unproved })
}

const OPERATION: &str = "copy the data folder";

fn private(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o600))
}

fn id(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CopyError {
    let path = path.to_owned();
    move |source| CopyError::Io { path, source }
}

fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_file_system_is_free_with_its_own_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_free(folder.path(), Way::Renamed).unwrap());
        fs::create_dir(folder.path().join(LOST_AND_FOUND)).unwrap();
        assert!(is_free(folder.path(), Way::Moved).unwrap());
        assert!(!is_free(folder.path(), Way::Renamed).unwrap(), "a folder that someone made");
        fs::write(folder.path().join("x"), "").unwrap();
        assert!(!is_free(folder.path(), Way::Moved).unwrap());
    }
}
