//! Artifacts as files, `artifacts/ab/HASH`, described in `drawgate.db`. A file is written beside its
//! place and renamed into it, and its hash is checked whenever it is read.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::canonical;
use drawgate_core::clock::Clock;
use drawgate_core::model::{ArtifactRef, Principal};
use drawgate_core::store::{ArtifactInfo, ArtifactLimits, Artifacts, NewArtifact, StoreError};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, Row};

mod check;
mod retention;

pub(super) use check::ArtifactCheck;

use super::super::lock::DataDir;
use super::connection::{Durability, corrupt, integer, open_state, unavailable};

/// Artifacts in a data folder.
#[derive(Clone)]
pub struct FileArtifacts {
    shared: Arc<Shared>,
}

struct Shared {
    connection: Mutex<Connection>,
    files: Files,
    limits: ArtifactLimits,
    clock: Arc<dyn Clock>,
}

impl FileArtifacts {
    /// Opens the artifacts of a folder.
    pub fn open(
        dir: &DataDir,
        durability: Durability,
        limits: ArtifactLimits,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let connection = Mutex::new(open_state(dir, durability)?);
        let files = Files::new(dir);
        files.remove_leftovers();
        Ok(Self { shared: Arc::new(Shared { connection, files, limits, clock }) })
    }

    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || work(&shared))
            .await
            .unwrap_or_else(|error| Err(unavailable(operation, &error)))
    }
}

#[async_trait]
impl Artifacts for FileArtifacts {
    async fn put(&self, artifact: NewArtifact) -> Result<ArtifactRef, StoreError> {
        self.run(PUT, move |shared| shared.put(&artifact)).await
    }

    async fn get(
        &self,
        sha256: &str,
        reader: &Principal,
    ) -> Result<Option<(ArtifactInfo, Vec<u8>)>, StoreError> {
        let (sha256, reader) = (sha256.to_owned(), reader.clone());
        self.run(GET, move |shared| shared.get(&sha256, &reader)).await
    }

    async fn list(&self, reader: &Principal) -> Result<Vec<ArtifactInfo>, StoreError> {
        let reader = reader.clone();
        self.run(LIST, move |shared| shared.list(&reader)).await
    }

    async fn remove(&self, sha256: &str) -> Result<bool, StoreError> {
        let sha256 = sha256.to_owned();
        self.run(REMOVE, move |shared| shared.remove(&shared.connection.lock(), &sha256)).await
    }

    async fn expire(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.run(REMOVE, move |shared| shared.expire(now_ms)).await
    }
}

const PUT: &str = "store an artifact";
const GET: &str = "read an artifact";
const LIST: &str = "list artifacts";
const REMOVE: &str = "remove an artifact";

/// A reader sees its own; the local principal sees all. Nobody sees what is too old.
const READABLE: &str = "removed = 0 AND (owner = ?1 OR ?1 = 'local') AND created_at >= ?2";
const COLUMNS: &str = "sha256, owner, tool_id, mime_type, size, created_at";

impl Shared {
    fn put(&self, artifact: &NewArtifact) -> Result<ArtifactRef, StoreError> {
        let info = describe(artifact);
        // One writer at a time, from making room to the row: otherwise two could take the same room.
        let connection = self.connection.lock();
        self.make_room(&connection, &info)?;
        self.files
            .write(&info.reference.sha256, &artifact.bytes)
            .map_err(|error| unavailable(PUT, &error))?;
        let sql = format!(
            "INSERT OR REPLACE INTO artifact ({COLUMNS}, removed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)"
        );
        let values = (
            &info.reference.sha256,
            info.owner.as_str(),
            &info.tool_id,
            &info.reference.mime_type,
            integer(info.reference.size),
            integer(info.created_at),
        );
        connection.execute(&sql, values).map_err(|error| unavailable(PUT, &error))?;
        Ok(info.reference)
    }

    fn get(
        &self,
        sha256: &str,
        reader: &Principal,
    ) -> Result<Option<(ArtifactInfo, Vec<u8>)>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM artifact WHERE sha256 = ?3 AND {READABLE} ORDER BY created_at DESC LIMIT 1"
        );
        let row = self
            .connection
            .lock()
            .query_row(&sql, (reader.as_str(), self.oldest_readable(), sha256), row_info)
            .optional()
            .map_err(|error| unavailable(GET, &error))?;
        let Some(info) = row else { return Ok(None) };
        let bytes = self.files.read(sha256).map_err(|error| unavailable(GET, &error))?;
        if canonical::sha256_hex(&bytes) != sha256 {
            return Err(corrupt(
                GET,
                &format!("artifact `{sha256}` was changed on disk; it is not served"),
            ));
        }
        Ok(Some((info, bytes)))
    }

    fn list(&self, reader: &Principal) -> Result<Vec<ArtifactInfo>, StoreError> {
        let failed = |error: rusqlite::Error| unavailable(LIST, &error);
        let sql = format!(
            "SELECT {COLUMNS} FROM artifact WHERE {READABLE} ORDER BY created_at DESC, sha256, owner"
        );
        let connection = self.connection.lock();
        let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
        let rows = statement
            .query_map((reader.as_str(), self.oldest_readable()), row_info)
            .map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }

    fn oldest_readable(&self) -> i64 {
        integer(self.limits.oldest(self.clock.now_ms()))
    }
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|value| u64::try_from(value).unwrap_or_default())
}

fn describe(artifact: &NewArtifact) -> ArtifactInfo {
    let sha256 = canonical::sha256_hex(&artifact.bytes);
    ArtifactInfo {
        reference: ArtifactRef::new(
            sha256,
            artifact.bytes.len() as u64,
            artifact.mime_type.clone(),
        ),
        owner: artifact.owner.clone(),
        tool_id: artifact.tool_id.clone(),
        created_at: artifact.created_at,
    }
}

fn row_info(row: &Row<'_>) -> rusqlite::Result<ArtifactInfo> {
    let sha256: String = row.get(0)?;
    let owner: String = row.get(1)?;
    let owner = Principal::new(&owner).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(error))
    })?;
    Ok(ArtifactInfo {
        reference: ArtifactRef::new(sha256, count(row, 4)?, row.get(3)?),
        owner,
        tool_id: row.get(2)?,
        created_at: count(row, 5)?,
    })
}

/// The files. A name is always a hash that this module computed or found in its table.
#[derive(Debug)]
struct Files {
    root: PathBuf,
}

impl Files {
    fn new(dir: &DataDir) -> Self {
        Self { root: dir.file("artifacts") }
    }

    fn path(&self, sha256: &str) -> PathBuf {
        self.root.join(sha256.get(..2).unwrap_or("xx")).join(sha256)
    }

    fn write(&self, sha256: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(sha256);
        let temporary = self.root.join(format!("{sha256}.tmp"));
        let folder = path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        let written = file.write_all(bytes).and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            // A half-written file on a full disk would take the room that others need.
            drop(fs::remove_file(&temporary));
        }
        written
    }

    fn read(&self, sha256: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path(sha256))
    }

    fn remove(&self, sha256: &str) -> io::Result<()> {
        match fs::remove_file(self.path(sha256)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes what a crash left between writing and renaming.
    fn remove_leftovers(&self) {
        let Ok(entries) = fs::read_dir(&self.root) else { return };
        for entry in
            entries.flatten().filter(|entry| entry.path().extension().is_some_and(|e| e == "tmp"))
        {
            drop(fs::remove_file(entry.path()));
        }
    }
}
