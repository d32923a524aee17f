//! The audit log in `audit.db`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use drawgate_core::audit::{Checkpoint, EventDraft, EventKind, StoredEvent};
use drawgate_core::clock::Clock;
use drawgate_core::store::{AuditLog, StoreError};
use parking_lot::Mutex;
use rusqlite::Connection;

use super::super::lock::DataDir;
use super::commit::Writer;
use super::connection::{Durability, integer, read_only, unavailable};
use super::queue::Queue;
use super::recover;
use super::wal::Nudge;

/// How the audit log is kept.
#[derive(Clone)]
pub struct AuditOptions {
    /// What an appended event survives.
    pub durability: Durability,
    /// So many events after a checkpoint the log signs the next one.
    pub checkpoint_every: u64,
    /// The program's version, for the log.
    pub version: String,
    /// The time of the log's own events.
    pub clock: Arc<dyn Clock>,
}

/// The audit log of a data folder. Its opener holds the folder's lock.
pub struct SqliteAudit {
    queue: Arc<Queue>,
    reader: Arc<Mutex<Connection>>,
    clock: Arc<dyn Clock>,
    install: String,
}

impl SqliteAudit {
    /// Opens the log, checks its end, and gives an outcome to calls that a crash left without one.
    pub fn open(dir: &DataDir, options: AuditOptions) -> Result<Self, StoreError> {
        let clock = Arc::clone(&options.clock);
        let writer = recover::open(dir, options)?;
        let install = writer.install.clone();
        let writer = Arc::new(Mutex::new(writer));
        let nudge = Nudge::start(dir, Arc::clone(&writer))?;
        let reader = Arc::new(Mutex::new(read_only(&dir.file("audit.db"))?));
        Ok(Self { queue: Queue::new(writer, nudge), reader, clock, install })
    }

    /// The installation's id, as in checkpoints.
    #[must_use]
    pub fn install(&self) -> &str {
        &self.install
    }

    /// Writes that the log ends in order, signs it, and lets nothing more in.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.append(EventDraft::new(EventKind::LogClosed, self.clock.now_ms())).await?;
        self.queue.close();
        self.with_writer("close the audit log", |writer| {
            writer.checkpoint()?;
            // A reader beside us may keep the WAL alive; then it is moved at the next start.
            writer
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .map_err(|error| unavailable("close the audit log", &error))
        })
        .await
    }

    /// Removes events before a sequence, which a signed record then stands for; returns how many.
    /// A call that is under way keeps its events and all later ones.
    pub async fn prune_before(&self, sequence: u64) -> Result<u64, StoreError> {
        let removed =
            self.with_writer("prune the audit log", move |writer| writer.prune(sequence)).await;
        let head = self.queue.writer.lock().chain.sequence();
        self.queue.head.fetch_max(head, Ordering::AcqRel);
        removed
    }

    async fn with_writer<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let writer = Arc::clone(&self.queue.writer);
        tokio::task::spawn_blocking(move || work(&mut writer.lock()))
            .await
            .unwrap_or_else(|error| Err(unavailable(operation, &error)))
    }
}

impl Drop for SqliteAudit {
    fn drop(&mut self) {
        self.queue.stop();
    }
}

#[async_trait]
impl AuditLog for SqliteAudit {
    async fn append(&self, draft: EventDraft) -> Result<u64, StoreError> {
        self.queue.append(draft).await
    }

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let reader = Arc::clone(&self.reader);
        tokio::task::spawn_blocking(move || events(&reader.lock(), after, limit))
            .await
            .unwrap_or_else(|error| Err(unavailable("read the audit log", &error)))
    }

    fn head(&self) -> u64 {
        self.queue.head.load(Ordering::Acquire)
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        self.with_writer("sign the audit log", Writer::checkpoint).await
    }

    fn queued(&self) -> usize {
        self.queue.queued()
    }
}

/// Events after a sequence, oldest first.
pub(super) fn events(
    connection: &Connection,
    after: u64,
    limit: usize,
) -> Result<Vec<StoredEvent>, StoreError> {
    let failed = |error: rusqlite::Error| unavailable("read the audit log", &error);
    let sql = "SELECT seq, body FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = statement.query_map([integer(after), limit], stored).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// A row of `seq, body`.
pub(super) fn stored(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredEvent> {
    let sequence: i64 = row.get(0)?;
    Ok(StoredEvent { sequence: u64::try_from(sequence).unwrap_or_default(), body: row.get(1)? })
}
