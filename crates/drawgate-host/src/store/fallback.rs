//! What happens when the audit log can't be written: nothing goes on, or a bounded memory log stands
//! in until the log is back. The gap is then written down before what was kept.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use drawgate_core::audit::{Checkpoint, EventDraft, EventKind, SignedHead};
use drawgate_core::clock::Clock;
use drawgate_core::model::Principal;
use drawgate_core::store::{AuditHealth, AuditLog, AuditReader, StoreError};
use parking_lot::Mutex;

/// Most events that are kept in memory.
pub const MAX_KEPT: usize = 10_000;
/// How often the log is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What an event meets when the log can't be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnAuditFailure {
    /// A bounded memory log.
    #[default]
    Memory,
    /// An error, so that no call goes on.
    Refuse,
}

/// An audit log that can do without its store for a while.
pub struct ResilientAudit {
    shared: Arc<Shared>,
    mode: OnAuditFailure,
}

struct Shared {
    log: Arc<dyn AuditLog>,
    clock: Arc<dyn Clock>,
    retry: Duration,
    kept: Mutex<Kept>,
    /// Held while kept events are written, so that each is written once.
    flushing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Kept {
    drafts: VecDeque<EventDraft>,
    /// When the log failed; while it is set, events queue behind the ones that are kept.
    since: Option<u64>,
    is_refusing: bool,
    is_closed: bool,
}

impl ResilientAudit {
    /// Wraps a log.
    pub fn new(log: Arc<dyn AuditLog>, mode: OnAuditFailure, clock: Arc<dyn Clock>) -> Self {
        Self::with_retry(log, mode, clock, RETRY)
    }

    /// The same, with another time between attempts.
    pub fn with_retry(
        log: Arc<dyn AuditLog>,
        mode: OnAuditFailure,
        clock: Arc<dyn Clock>,
        retry: Duration,
    ) -> Self {
        let (kept, flushing) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { shared: Arc::new(Shared { log, clock, retry, kept, flushing }), mode }
    }
}

impl Shared {
    /// Keeps an event. The first one starts the task that tries the log again.
    fn keep(
        self: &Arc<Self>,
        draft: EventDraft,
        error: Option<StoreError>,
    ) -> Result<u64, StoreError> {
        let mut kept = self.kept.lock();
        if kept.drafts.len() >= MAX_KEPT {
            kept.is_refusing = true;
            return Err(error.unwrap_or_else(full));
        }
        // Large arguments would make the bounded log unbounded in bytes.
        kept.drafts.push_back(draft.without_payload());
        kept.is_refusing = false;
        if kept.since.is_none() {
            kept.since = Some(self.clock.now_ms());
            tracing::error!("the audit log can't be written; events are kept in memory");
            let shared = Arc::clone(self);
            drop(tokio::spawn(async move { shared.restore().await }));
        }
        // The event has no place in the log yet.
        Ok(0)
    }

    /// Notes that an event was refused. The first one starts the task that finds out when the log can
    /// be written again, so that nobody has to call for it.
    fn refuse(self: &Arc<Self>) {
        let mut kept = self.kept.lock();
        if !std::mem::replace(&mut kept.is_refusing, true) {
            tracing::error!("the audit log can't be written; calls are refused");
            let (shared, retry) = (Arc::downgrade(self), self.retry);
            drop(tokio::spawn(probe(shared, retry, self.clock.now_ms())));
        }
    }

    async fn restore(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.retry).await;
            if self.flush().await {
                tracing::info!("the audit log is written again");
                return;
            }
        }
    }

    /// Writes the gap and what was kept, in order; whether nothing is left. What could not be written
    /// stays kept.
    async fn flush(&self) -> bool {
        let _alone = self.flushing.lock().await;
        if self.kept.lock().since.is_none() {
            return true;
        }
        if self.log.append(self.gap()).await.is_err() {
            return false;
        }
        loop {
            let Some(draft) = self.oldest_or_done() else { return true };
            if self.log.append(draft).await.is_err() {
                return false;
            }
            self.kept.lock().drafts.pop_front();
        }
    }

    fn gap(&self) -> EventDraft {
        let kept = self.kept.lock();
        EventDraft::new(EventKind::AuditGap, self.clock.now_ms())
            .number("kept", kept.drafts.len() as u64)
            .number("since", kept.since.unwrap_or_default())
    }

    /// The oldest kept event; none ends the gap, under the same lock, so that no event is left behind.
    fn oldest_or_done(&self) -> Option<EventDraft> {
        let mut kept = self.kept.lock();
        let oldest = kept.drafts.front().cloned();
        if oldest.is_none() {
            kept.since = None;
            kept.is_refusing = false;
        }
        oldest
    }
}

/// Tries a log that refused an event until it takes one, or until another event went through.
async fn probe(shared: Weak<Shared>, retry: Duration, since: u64) {
    loop {
        tokio::time::sleep(retry).await;
        let Some(shared) = shared.upgrade() else { return };
        if !shared.kept.lock().is_refusing {
            return;
        }
        let gap = EventDraft::new(EventKind::AuditGap, shared.clock.now_ms());
        let gap = gap.number("kept", 0).number("since", since);
        if shared.log.append(gap).await.is_ok() {
            shared.kept.lock().is_refusing = false;
            tracing::info!("the audit log is written again");
            return;
        }
    }
}

#[async_trait]
impl AuditLog for ResilientAudit {
    /// Returns 0 for an event that is kept in memory.
    async fn append(&self, draft: EventDraft) -> Result<u64, StoreError> {
        let (is_keeping, is_closed) = {
            let kept = self.shared.kept.lock();
            (kept.since.is_some(), kept.is_closed)
        };
        if is_closed {
            return self.shared.log.append(draft).await;
        }
        if is_keeping {
            return self.shared.keep(draft, None);
        }
        let draft = Arc::new(draft);
        let result = self.shared.log.append_shared(Arc::clone(&draft)).await;
        match (&result, self.mode) {
            (Ok(_), _) => {
                self.shared.kept.lock().is_refusing = false;
                result
            }
            (Err(StoreError::Unavailable { .. }), OnAuditFailure::Memory) => {
                self.shared.keep(Arc::unwrap_or_clone(draft), result.err())
            }
            (Err(_), _) => {
                self.shared.refuse();
                result
            }
        }
    }

    fn head(&self) -> u64 {
        self.shared.log.head()
    }

    fn signed_head(&self) -> SignedHead {
        self.shared.log.signed_head()
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        self.shared.log.checkpoint().await
    }

    fn queued(&self) -> usize {
        self.shared.log.queued() + self.shared.kept.lock().drafts.len()
    }

    fn health(&self) -> AuditHealth {
        let kept = self.shared.kept.lock();
        match kept.since {
            _ if kept.is_refusing => AuditHealth::Failed,
            Some(since) => AuditHealth::Degraded { kept: kept.drafts.len(), since },
            None => AuditHealth::Ok,
        }
    }

    async fn prune(&self, actor: &Principal, before: u64) -> Result<u64, StoreError> {
        self.shared.log.prune(actor, before).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        if self.shared.flush().await {
            return Ok(());
        }
        let kept = self.shared.kept.lock().drafts.len();
        let reason = format!("{kept} events are in memory only, because the log can't be written");
        Err(StoreError::Unavailable { operation: "write the audit log", reason })
    }

    /// What can't be written now is lost; the log is closed all the same, if that is possible.
    async fn close(&self) -> Result<(), StoreError> {
        let flushed = self.flush().await;
        self.shared.kept.lock().is_closed = true;
        self.shared.log.close().await.and(flushed)
    }

    fn reader(&self) -> Arc<dyn AuditReader> {
        self.shared.log.reader()
    }
}

fn full() -> StoreError {
    StoreError::Unavailable {
        operation: "append to the audit log",
        reason: format!(
            "the log can't be written, and {MAX_KEPT} events are kept in memory already"
        ),
    }
}
