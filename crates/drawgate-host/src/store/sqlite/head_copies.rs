//! The newest signed head, kept twice outside `audit.db`: in the file `audit.head` and in
//! `drawgate.db`. A log that was set back below it, or removed, is found at the next start and by
//! `drawgate audit verify`.
//!
//! It is written from time to time, not with every event, and lags behind the log. In the state it is
//! as durable as the log. Where nothing is synced, it may after a loss of power be of an event that the
//! log has lost, or be later in one place than in the other, and so it names the run of the machine in
//! which it was written.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use drawgate_core::audit::{CheckpointError, SignedHead};
use drawgate_core::store::StoreError;
use rusqlite::{Connection, OptionalExtension as _};

use super::super::lock::DataDir;
use super::connection::{Durability, open_state, read_only, unavailable};
use crate::own_files;

const FILE: &str = "audit.head";
/// The document in `drawgate.db`: its kind and id.
const DOCUMENT: (&str, &str) = ("audit_head", "newest");
/// More than a signed head takes.
const MAX_FILE: u64 = 4096;
/// How long the state database may be busy before the record has to wait for the next time.
const BUSY: Duration = Duration::from_millis(250);
const OPERATION: &str = "keep the audit log's head";

/// Where a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In `audit.head`.
    File,
    /// In `drawgate.db`.
    State,
}

impl Place {
    /// The copy, in a message.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::File => "the signed head in `audit.head`",
            Self::State => "the signed head in `drawgate.db`",
        }
    }
}

/// A copy that was found, and where.
pub(super) struct HeadCopy {
    pub(super) place: Place,
    pub(super) head: Result<SignedHead, CheckpointError>,
}

/// The present run of the machine.
pub(super) fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// Whether the machine may have lost the head's event: it went down after the head was written.
pub(super) fn may_be_lost(head: &SignedHead) -> bool {
    head.boot.is_some() && head.boot != boot()
}

/// How many places there are.
pub(super) const PLACES: usize = 2;

/// Reads the records. A place that has none, or that can't be read, is left out.
pub(super) fn find(dir: &DataDir) -> Vec<HeadCopy> {
    look(dir).0
}

/// Reads the records; also says which places can't be read.
pub(super) fn look(dir: &DataDir) -> (Vec<HeadCopy>, Vec<Place>) {
    let places = [(Place::File, in_file(&dir.file(FILE))), (Place::State, in_state(dir))];
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for (place, body) in places {
        match body {
            Ok(Some(body)) => {
                found.push(HeadCopy { place, head: SignedHead::parse(body.trim_end()) });
            }
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(error = %error, "{} can't be read", place.name());
                unreadable.push(place);
            }
        }
    }
    (found, unreadable)
}

fn in_file(path: &Path) -> Result<Option<String>, StoreError> {
    let mut bytes = Vec::new();
    match own_files::open_to_read(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes))
    {
        Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unavailable(OPERATION, &error)),
    }
}

fn in_state(dir: &DataDir) -> Result<Option<String>, StoreError> {
    let path = dir.file(DataDir::STATE);
    if !path.exists() {
        return Ok(None);
    }
    let connection = read_only(&path)?;
    let failed = |error: rusqlite::Error| unavailable(OPERATION, &error);
    // The first schema has no such table, and a database that was not prepared yet has none.
    let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'document'";
    let tables: i64 = connection.query_row(tables, [], |row| row.get(0)).map_err(failed)?;
    if tables == 0 {
        return Ok(None);
    }
    let sql = "SELECT body FROM document WHERE kind = ?1 AND id = ?2";
    connection.query_row(sql, DOCUMENT, |row| row.get(0)).optional().map_err(failed)
}

/// Writes the copies. Within one run it only ever moves forward.
pub(super) struct HeadCopies {
    path: PathBuf,
    pub(super) state: Connection,
    written: Option<u64>,
}

impl HeadCopies {
    pub(super) fn open(dir: &DataDir, durability: Durability) -> Result<Self, StoreError> {
        let state = open_state(dir, durability)?;
        state.busy_timeout(BUSY).map_err(|error| unavailable(OPERATION, &error))?;
        Ok(Self { path: dir.file(FILE), state, written: None })
    }

    /// Keeps a head in every place, unless a newer one is kept already. The file comes last: where it has
    /// a later head than the state, the state is of an earlier time.
    pub(super) fn keep(&mut self, head: &SignedHead) -> Result<(), StoreError> {
        if self.written.is_some_and(|written| head.sequence <= written) {
            return Ok(());
        }
        let body = head.to_json();
        let sql = "INSERT OR REPLACE INTO document (kind, id, body) VALUES (?1, ?2, ?3)";
        self.state
            .execute(sql, (DOCUMENT.0, DOCUMENT.1, &body))
            .map_err(|error| unavailable(OPERATION, &error))?;
        self.write_file(&body).map_err(|error| unavailable(OPERATION, &error))?;
        self.written = Some(head.sequence);
        Ok(())
    }

    /// Replaces the file as a whole, so that a reader never sees a part of it.
    fn write_file(&self, body: &str) -> io::Result<()> {
        let temporary = self.path.with_extension("head.new");
        let mut options = OpenOptions::new();
        let mut file =
            own_files::open(&temporary, options.write(true).create(true).truncate(true))?;
        writeln!(file, "{body}")?;
        fs::rename(&temporary, &self.path)
    }
}
