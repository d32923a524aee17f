//! The newest signed head, kept twice outside `audit.db`: in the file `audit.head` and in
//! `drawgate.db`. A log that was set back below it, or removed, is found at the next start and by
//! `drawgate audit verify`.
//!
//! It is written from time to time, not with every event, and lags behind the log. Nothing is synced
//! for it: after a loss of power it may be of an event that the log has lost, and so it names the run
//! of the machine in which it was written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drawgate_core::audit::{CheckpointError, SignedHead};
use drawgate_core::store::StoreError;
use rusqlite::{Connection, OptionalExtension as _};

use super::super::lock::DataDir;
use super::connection::{Durability, open_state, read_only, unavailable};

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

/// Reads the records. A place that has none is left out.
pub(super) fn find(dir: &DataDir) -> Vec<HeadCopy> {
    let places = [(Place::File, in_file(&dir.file(FILE))), (Place::State, in_state(dir))];
    let found = places.into_iter().filter_map(|(place, body)| {
        body.map(|body| HeadCopy { place, head: SignedHead::parse(body.trim_end()) })
    });
    found.collect()
}

fn in_file(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn in_state(dir: &DataDir) -> Option<String> {
    let path = dir.file(DataDir::STATE);
    if !path.exists() {
        return None;
    }
    let connection = read_only(&path).ok()?;
    connection
        .query_row("SELECT body FROM document WHERE kind = ?1 AND id = ?2", DOCUMENT, |row| {
            row.get(0)
        })
        .optional()
        .ok()
        .flatten()
}

/// Writes the copies. Within one run it only ever moves forward.
pub(super) struct HeadCopies {
    path: PathBuf,
    pub(super) state: Connection,
    written: Option<u64>,
}

impl HeadCopies {
    pub(super) fn open(dir: &DataDir) -> Result<Self, StoreError> {
        let state = open_state(dir, Durability::Process)?;
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
            options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        writeln!(file, "{body}")?;
        fs::rename(&temporary, &self.path)
    }
}
