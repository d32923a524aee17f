//! The audit log in `audit.db`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use drawgate_core::audit::{Checkpoint, EventDraft, EventKind, SignedHead, StoredEvent};
use drawgate_core::clock::Clock;
use drawgate_core::model::Principal;
use drawgate_core::store::{AuditHealth, AuditLog, AuditReader, StoreError};
use parking_lot::Mutex;
use rusqlite::Connection;

use super::super::StorageOptions;
use super::super::lock::DataDir;
use super::commit::Writer;
use super::connection::{Durability, integer, move_wal, unavailable};
use super::head_copies::HeadCopies;
use super::presence::Presence;
use super::queue::Queue;
use super::reader::SqliteReader;
use super::recover;
use super::wal::WalThread;

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
    reader: Arc<SqliteReader>,
    heads: Arc<Mutex<HeadCopies>>,
    clock: Arc<dyn Clock>,
}

impl AuditOptions {
    /// Those of a whole store.
    pub(super) fn of(options: &StorageOptions) -> Self {
        Self {
            durability: options.durability,
            checkpoint_every: options.checkpoint_every,
            head_pause: options.head_pause,
            payload_quota: options.payload_quota,
            version: options.version.clone(),
            clock: Arc::clone(&options.clock),
        }
    }
}

impl SqliteAudit {
    /// Opens the log, checks its end, and gives an outcome to calls that a crash left without one.
    pub fn open(dir: &DataDir, options: AuditOptions) -> Result<Self, StoreError> {
        let (clock, pause) = (Arc::clone(&options.clock), options.head_pause);
        let recover::Opened { writer, heads } = recover::open(dir, options)?;
        let (writer, heads) = (Arc::new(Mutex::new(writer)), Arc::new(Mutex::new(heads)));
        let wal = WalThread::start(dir, Arc::clone(&writer), Arc::clone(&heads), pause)?;
        let reader = Arc::new(SqliteReader::new(dir.clone()));
        Ok(Self { queue: Queue::new(writer, wal), reader, heads, clock })
    }

    /// Whether its files are still there.
    pub(super) fn presence(&self) -> Arc<Presence> {
        Arc::clone(&self.queue.writer.lock().presence)
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
        self.append_shared(Arc::new(draft)).await
    }

    async fn append_shared(&self, draft: Arc<EventDraft>) -> Result<u64, StoreError> {
        self.queue.append(draft).await
    }

    fn head(&self) -> u64 {
        self.queue.head.load(Ordering::Acquire)
    }

    fn signed_head(&self) -> SignedHead {
        self.queue.writer.lock().signed_head()
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        self.with_writer("sign the audit log", Writer::checkpoint).await
    }

    fn queued(&self) -> usize {
        self.queue.queued()
    }

    fn health(&self) -> AuditHealth {
        self.queue.health()
    }

    async fn prune(&self, actor: &Principal, before: u64) -> Result<u64, StoreError> {
        // What is planned beside the writer stays true: events don't change, and new calls begin later.
        let plan = self.reader.plan_prune(before).await?;
        if plan.events == 0 {
            return Ok(0);
        }
        let (heads, actor) = (Arc::clone(&self.heads), actor.clone());
        let removed = self
            .with_writer("prune the audit log", move |writer| {
                let removed = writer.prune(&actor, plan.last)?;
                writer.checkpoint()?;
                // The copy must not be of an event that retention has removed.
                keep(&heads, &writer.kept_head());
                Ok(removed)
            })
            .await;
        let head = self.queue.writer.lock().chain.sequence();
        self.queue.head.fetch_max(head, Ordering::AcqRel);
        removed
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.append(EventDraft::new(EventKind::LogClosed, self.clock.now_ms())).await?;
        self.queue.close();
        let heads = Arc::clone(&self.heads);
        self.with_writer("close the audit log", move |writer| {
            writer.checkpoint()?;
            move_wal(&writer.connection)?;
            keep(&heads, &writer.kept_head());
            Ok(())
        })
        .await
    }

    fn reader(&self) -> Arc<dyn AuditReader> {
        self.reader.clone()
    }
}

/// What was done is done, also if the head can't be kept now; the next one is.
fn keep(heads: &Mutex<HeadCopies>, head: &SignedHead) {
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
