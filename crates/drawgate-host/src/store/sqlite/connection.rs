//! Opening `SQLite` files: settings, schemas, and errors in the store's words.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use drawgate_core::store::StoreError;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::super::lock::DataDir;
use crate::own_files;

/// What a finished write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The death of the process, also by `kill -9`: written, not synced.
    #[default]
    Process,
    /// The loss of power: synced to the disk.
    Power,
}

/// How long a connection waits for another one's lock. Only checkpoints and other programs hold any.
const BUSY: Duration = Duration::from_secs(5);
/// The statements that are kept prepared.
const STATEMENTS: usize = 32;
/// Page cache of a connection in KiB; the gateway must stay small.
const CACHE_KIB: i64 = 512;

/// Bytes of a page.
pub(super) const PAGE_BYTES: u16 = 4096;

/// One string per schema version, in order. A released one never changes.
const STATE_SCHEMA: &[&str] = &["
    CREATE TABLE agent (name TEXT PRIMARY KEY, token_hash TEXT NOT NULL, body TEXT NOT NULL) STRICT;
    CREATE TABLE permit (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE approval (id TEXT PRIMARY KEY, created_at INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
    CREATE TABLE artifact (
        sha256 TEXT NOT NULL,
        owner TEXT NOT NULL,
        tool_id TEXT NOT NULL,
        mime_type TEXT NOT NULL,
        size INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        removed INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (sha256, owner)
    ) STRICT;
    CREATE INDEX artifact_age ON artifact (created_at);
", "
    CREATE TABLE document (
        kind TEXT NOT NULL,
        id TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (kind, id)
    ) STRICT, WITHOUT ROWID;
", "
    CREATE TABLE owed (act_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
"];

const AUDIT_SCHEMA: &[&str] = &[
    "
    CREATE TABLE event (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE checkpoint (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
",
    "
    CREATE TABLE payload (
        sha256 TEXT PRIMARY KEY,
        seq INTEGER NOT NULL,
        size INTEGER NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX payload_age ON payload (seq);
",
];

/// Opens `drawgate.db` for writing.
pub(super) fn open_state(dir: &DataDir, durability: Durability) -> Result<Connection, StoreError> {
    open(&dir.file(DataDir::STATE), durability, STATE_SCHEMA)
}

/// Opens `audit.db` for writing. Its WAL is checkpointed by its own thread, never by a commit.
pub(super) fn open_audit(dir: &DataDir, durability: Durability) -> Result<Connection, StoreError> {
    let connection = open(&dir.file(DataDir::AUDIT), durability, AUDIT_SCHEMA)?;
    connection
        .pragma_update(None, "wal_autocheckpoint", 0)
        .map_err(|error| unavailable("open the audit log", &error))?;
    Ok(connection)
}

/// Opens a file for reading beside its writer.
pub(in super::super) fn read_only(path: &Path) -> Result<Connection, StoreError> {
    let named = |error: &dyn Display| {
        unavailable("open for reading", &format!("`{}`: {error}", path.display()))
    };
    own_files::check_database(path).map_err(|error| named(&error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| named(&error))?;
    connection
        .busy_timeout(BUSY)
        .and_then(|()| connection.pragma_update(None, "cache_size", -CACHE_KIB))
        .map_err(|error| named(&error))?;
    Ok(connection)
}

/// Moves the whole WAL into the database. A reader beside us may keep it alive; then the next start does.
pub(super) fn move_wal(connection: &Connection) -> Result<(), StoreError> {
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .map_err(|error| unavailable("close the store", &error))
}

/// The storage said no; it may recover.
pub(in super::super) fn unavailable(operation: &'static str, error: &dyn Display) -> StoreError {
    StoreError::Unavailable { operation, reason: error.to_string() }
}

/// What is stored is not what was written.
pub(super) fn corrupt(operation: &'static str, error: &dyn Display) -> StoreError {
    StoreError::Corrupt { operation, reason: error.to_string() }
}

/// `SQLite`'s integers are signed; nothing that is counted here comes near their end.
pub(super) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn open(path: &Path, durability: Durability, schema: &[&str]) -> Result<Connection, StoreError> {
    let named = |error: &dyn Display| format!("`{}`: {error}", path.display());
    own_files::check_database(path)
        .map_err(|error| unavailable("open the store", &named(&error)))?;
    let mut connection = configured(path, durability)
        .map_err(|error| unavailable("open the store", &named(&error)))?;
    migrate(&mut connection, schema).map_err(|error| match error {
        StoreError::Unavailable { operation, reason } => unavailable(operation, &named(&reason)),
        StoreError::Corrupt { operation, reason } => corrupt(operation, &named(&reason)),
        other @ (StoreError::Quota { .. } | StoreError::Conflict { .. }) => other,
    })?;
    Ok(connection)
}

fn configured(path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    // `SQLite` makes files that others may read, and those beside it with the same mode. What can't be
    // made here, it can't open either, and says why. A file that is there is not opened: closing it would
    // release the locks that other connections of this process have on it.
    let _made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    let synchronous = match durability {
        Durability::Process => "NORMAL",
        Durability::Power => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection, schema: &[&str]) -> Result<(), StoreError> {
    let failed = |error: rusqlite::Error| unavailable("prepare the store", &error);
    let version: u32 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    let newest = u32::try_from(schema.len()).unwrap_or(u32::MAX);
    if version > newest {
        let reason = format!(
            "written by a newer version (schema {version}, this program knows {newest}); use that version"
        );
        return Err(corrupt("prepare the store", &reason));
    }
    for (next, statements) in (1..).zip(schema).filter(|(next, _)| *next > version) {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        transaction
            .execute_batch(statements)
            .and_then(|()| transaction.pragma_update(None, "user_version", next))
            .and_then(|()| transaction.commit())
            .map_err(failed)?;
    }
    Ok(())
}
