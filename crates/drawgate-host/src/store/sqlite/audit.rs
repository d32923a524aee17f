//! The audit log in `audit.db`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use drawgate_core::audit::{Checkpoint, EventDraft, EventKind, SignedHead, StoredEvent};
use drawgate_core::clock::Clock;
use drawgate_core::store::{AuditLog, StoreError};
use parking_lot::Mutex;
use rusqlite::Connection;

use super::super::lock::DataDir;
use super::commit::Writer;
use super::connection::{Durability, integer, read_only, unavailable};
use super::outside::HeadKeeper;
use super::queue::Queue;
use super::reader::AuditReader;
use super::recover;
use super::wal::Nudge;

/// How the audit log is kept.
#[derive(Clone)]
pub struct AuditOptions {
    /// What an appended event survives.
    pub durability: Durability,
    /// So many events after a checkpoint the log signs the next one.
    pub checkpoint_every: u64,
    /// How long the signed head that is kept outside the log may lag behind it.
    pub head_pause: Duration,
    /// Bytes of large arguments that are kept beside their events.
    pub payload_quota: u64,
    /// The program's version, for the log.
    pub version: String,
    /// The time of the log's own events.
    pub clock: Arc<dyn Clock>,
}

/// The audit log of a data folder. Its opener holds the folder's lock.
pub struct SqliteAudit {
    queue: Arc<Queue>,
    reader: Arc<Mutex<Connection>>,
    heads: Arc<Mutex<HeadKeeper>>,
    clock: Arc<dyn Clock>,
    install: String,
    loss: Option<String>,
    dir: DataDir,
}

impl SqliteAudit {
    /// Opens the log, checks its end, and gives an outcome to calls that a crash left without one.
    pub fn open(dir: &DataDir, options: AuditOptions) -> Result<Self, StoreError> {
        let (clock, pause) = (Arc::clone(&options.clock), options.head_pause);
        let recover::Opened { writer, heads, loss } = recover::open(dir, options)?;
        let install = writer.install.clone();
        let (writer, heads) = (Arc::new(Mutex::new(writer)), Arc::new(Mutex::new(heads)));
        let nudge = Nudge::start(dir, Arc::clone(&writer), Arc::clone(&heads), pause)?;
        let reader = Arc::new(Mutex::new(read_only(&dir.file("audit.db"))?));
        let queue = Queue::new(writer, nudge);
        Ok(Self { queue, reader, heads, clock, install, loss, dir: dir.clone() })
    }

    /// What was missing from the log when it was opened, in words.
    #[must_use]
    pub fn loss(&self) -> Option<&str> {
        self.loss.as_deref()
    }

    /// The head as it is now, signed, to be kept elsewhere.
    #[must_use]
    pub fn signed_head(&self) -> SignedHead {
        self.queue.writer.lock().signed_head()
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
        let heads = Arc::clone(&self.heads);
        self.with_writer("close the audit log", move |writer| {
            writer.checkpoint()?;
            // A reader beside us may keep the WAL alive; then it is moved at the next start.
            writer
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .map_err(|error| unavailable("close the audit log", &error))?;
            keep(&heads, &writer.kept_head());
            Ok(())
        })
        .await
    }

    /// Removes events before a sequence, which a signed record then stands for; returns how many.
    /// A call keeps all its events: the cut moves back to where no call is under way.
    pub async fn prune_before(&self, sequence: u64) -> Result<u64, StoreError> {
        let (dir, heads) = (self.dir.clone(), Arc::clone(&self.heads));
        // What is planned beside the writer stays true: events don't change, and new calls begin later.
        let plan = tokio::task::spawn_blocking(move || AuditReader::open(&dir)?.plan(sequence))
            .await
            .unwrap_or_else(|error| Err(unavailable("prune the audit log", &error)))?;
        if plan.events == 0 {
            return Ok(0);
        }
        let removed = self
            .with_writer("prune the audit log", move |writer| {
                let removed = writer.prune(plan.last)?;
                writer.checkpoint()?;
                // The record that is kept must not be of an event that retention has removed.
                keep(&heads, &writer.kept_head());
                Ok(removed)
            })
            .await;
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

/// What was done is done, also if the head can't be kept now; the next one is.
fn keep(heads: &Mutex<HeadKeeper>, head: &SignedHead) {
    if let Err(error) = heads.lock().keep(head) {
        tracing::warn!(error = %error, "the audit log's head could not be kept outside the log");
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
