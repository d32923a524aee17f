//! Copies of a data folder, whether or not a gateway is running on it: a backup, and its way back.
//!
//! A copy is of one moment. The databases are copied by `SQLite` from transactions that begin together,
//! never as files: whoever opens and closes a file releases the locks that this process has on it. The
//! signed head in `audit.head` is read before the state, and the state before the log, so that each is
//! covered by the next. A copy is made under another name, verified, and put in place as a whole.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink,
};
use std::path::{Path, PathBuf};

use drawgate_core::store::{StoreError, VerifyOptions};
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use rustix::fs::OFlags;

use super::lock::{DataDir, DataDirError};
use super::sqlite::{Reader, read_only, unavailable};
use crate::trusted::followed::FollowedPath;

/// What `SQLite` keeps beside a database.
const BESIDE: [&str; 4] = ["", "-wal", "-shm", "-journal"];
/// What belongs to the process that runs.
const OF_PROCESS: [&str; 2] = ["lock", "audit.head.new"];
const HEAD: &str = "audit.head";

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
}

impl Destination {
    /// Checks a place for a copy of a folder.
    pub fn new(from: &DataDir, path: &Path) -> Result<Self, CopyError> {
        let real = FollowedPath::of(path).end;
        if real.starts_with(FollowedPath::of(from.path()).end) {
            return Err(CopyError::Inside(path.to_owned()));
        }
        match fs::read_dir(&real).map(|mut entries| entries.next().is_some()) {
            Ok(false) => {}
            Ok(true) => return Err(CopyError::Taken(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(path)(error)),
        }
        let parent = real.parent().unwrap_or(Path::new("/")).to_owned();
        let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { path: real, parent, name })
    }

    /// Makes the folder under another name.
    fn begin(self) -> Result<Unfinished, CopyError> {
        let temporary = self.parent.join(format!(".{}.{}", self.name, std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&temporary);
        made.map_err(failed(&temporary))?;
        Ok(Unfinished { temporary, path: self.path, parent: self.parent })
    }
}

/// A copy that is being made; removed unless it is finished.
struct Unfinished {
    temporary: PathBuf,
    path: PathBuf,
    parent: PathBuf,
}

impl Unfinished {
    fn finish(self) -> Result<(), CopyError> {
        let sync = |path: &Path| rustix::fs::syncfs(File::open(path)?).map_err(io::Error::from);
        sync(&self.temporary).map_err(failed(&self.temporary))?;
        fs::rename(&self.temporary, &self.path).map_err(failed(&self.path))?;
        File::open(&self.parent).and_then(|it| it.sync_all()).map_err(failed(&self.parent))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename it is not there.
        drop(fs::remove_dir_all(&self.temporary));
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
    /// Holds the moment. The folder may be in use.
    pub fn take(dir: DataDir) -> Result<Self, CopyError> {
        let [state, audit] = [DataDir::STATE, DataDir::AUDIT].map(|name| dir.file(name));
        if !state.exists() || !audit.exists() {
            return Err(CopyError::Empty(dir.path().to_owned()));
        }
        let head = unless_gone(fs::read(dir.file(HEAD))).map_err(failed(&dir.file(HEAD)))?;
        let (state, audit) = (begin(&state)?, begin(&audit)?);
        Ok(Self { dir, head, state, audit })
    }

    /// Writes the copy, verifies it, and puts it in place.
    pub fn write(self, to: Destination) -> Result<Copied, CopyError> {
        let unfinished = to.begin()?;
        let copy = DataDir::existing(&unfinished.temporary)?;
        copy_database(self.state, &copy.file(DataDir::STATE))?;
        copy_database(self.audit, &copy.file(DataDir::AUDIT))?;
        if let Some(head) = self.head {
            let path = copy.file(HEAD);
            let written = fs::write(&path, head).and_then(|()| private(&path));
            written.map_err(failed(&path))?;
        }
        copy_files(&self.dir, copy.path())?;
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
fn copy_database(from: Connection, path: &Path) -> Result<(), StoreError> {
    let named = |reason: &dyn std::fmt::Display| {
        unavailable(OPERATION, &format!("`{}`: {reason}", path.display()))
    };
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    drop(made.map_err(|error| named(&error))?);
    let copy = || {
        let mut to = Connection::open(path)?;
        let done = Backup::new(&from, &mut to)?.step(-1)?;
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

/// Copies all that is no database. What goes away meanwhile is left out.
fn copy_files(dir: &DataDir, to: &Path) -> Result<(), CopyError> {
    let databases = [DataDir::STATE, DataDir::AUDIT];
    let own =
        databases.iter().flat_map(|name| BESIDE.map(|suffix| dir.file(&format!("{name}{suffix}"))));
    let own: Vec<PathBuf> =
        own.chain(OF_PROCESS.map(|name| dir.file(name))).chain([dir.file(HEAD)]).collect();
    // By whatever name: another one may be in a folder of files.
    let ids: Vec<_> =
        own.iter().filter_map(|path| fs::metadata(path).ok()).map(|it| id(&it)).collect();
    let mut folders = vec![(dir.path().to_owned(), to.to_owned())];
    let mut modes = Vec::new();
    while let Some((from, to)) = folders.pop() {
        let Some(entries) = unless_gone(fs::read_dir(&from)).map_err(failed(&from))? else {
            continue;
        };
        for entry in entries {
            let entry = entry.map_err(failed(&from))?;
            let (path, target) = (entry.path(), to.join(entry.file_name()));
            let found = unless_gone(path.symlink_metadata()).map_err(failed(&path))?;
            let Some(found) = found.filter(|it| !ids.contains(&id(it))) else { continue };
            if found.is_dir() {
                fs::create_dir(&target).map_err(failed(&target))?;
                modes.push((target.clone(), found.permissions()));
                folders.push((path, target));
            } else if found.is_symlink() {
                let link = unless_gone(fs::read_link(&path)).map_err(failed(&path))?;
                link.map_or(Ok(()), |link| symlink(link, &target)).map_err(failed(&target))?;
            } else if found.is_file() {
                copy_file(&path, &target, &found).map_err(failed(&path))?;
            }
        }
    }
    // Last, and from below: some folders can't be written.
    modes
        .into_iter()
        .rev()
        .try_for_each(|(path, mode)| fs::set_permissions(&path, mode).map_err(failed(&path)))
}

fn copy_file(from: &Path, to: &Path, found: &Metadata) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(from);
    let Some(mut file) = unless_gone(opened)? else { return Ok(()) };
    let mode = found.permissions().mode() & 0o777;
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut file, &mut copy)?;
    copy.set_permissions(Permissions::from_mode(mode))
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

fn id(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
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
