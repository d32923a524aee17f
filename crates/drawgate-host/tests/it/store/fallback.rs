use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use drawgate_core::audit::{Checkpoint, EventDraft, EventKind, StoredEvent};
use drawgate_core::store::{AuditLog, StoreError};
use drawgate_core::testing::{MemoryStore, TestClock};
use drawgate_host::store::fallback::MAX_KEPT;
use drawgate_host::store::{AuditHealth, OnAuditFailure, ResilientAudit};

/// A log that can be switched off, and says when it was asked.
#[derive(Default)]
struct Flaky {
    store: MemoryStore,
    is_down: AtomicBool,
    asked: tokio::sync::Notify,
}

#[async_trait]
impl AuditLog for Flaky {
    async fn append(&self, draft: EventDraft) -> Result<u64, StoreError> {
        self.asked.notify_one();
        if self.is_down.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable {
                operation: "append",
                reason: "no space left".to_owned(),
            });
        }
        self.store.append(draft).await
    }

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.read(after, limit).await
    }

    fn head(&self) -> u64 {
        self.store.head()
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        self.store.checkpoint().await
    }

    fn queued(&self) -> usize {
        0
    }
}

fn log(mode: OnAuditFailure) -> (Arc<Flaky>, ResilientAudit) {
    let inner = Arc::new(Flaky::default());
    let clock = Arc::new(TestClock::default());
    let log = ResilientAudit::with_retry(inner.clone(), mode, clock, Duration::from_millis(1));
    (inner, log)
}

fn event(number: u64) -> EventDraft {
    EventDraft::new(EventKind::AgentAdded, number).number("n", number)
}

#[tokio::test]
async fn events_of_a_gap_follow_it_in_order() {
    let (inner, log) = log(OnAuditFailure::Memory);
    assert_eq!(log.append(event(1)).await.unwrap(), 1);
    inner.is_down.store(true, Ordering::SeqCst);
    for number in 2..=4 {
        assert_eq!(log.append(event(number)).await.unwrap(), 0, "kept, without a place");
    }
    assert!(matches!(log.health(), AuditHealth::Degraded { kept: 3, .. }), "{:?}", log.health());
    assert_eq!(log.queued(), 3);
    inner.is_down.store(false, Ordering::SeqCst);
    while log.health() != AuditHealth::Ok {
        inner.asked.notified().await;
        tokio::task::yield_now().await;
    }
    assert_eq!(log.append(event(5)).await.unwrap(), 6);
    let events: Vec<_> = inner.store.events().iter().map(|event| event.event().unwrap()).collect();
    let seen: Vec<_> = events
        .iter()
        .map(|event| event.rest.get("n").and_then(serde_json::Value::as_u64))
        .collect();
    assert_eq!(seen, [Some(1), None, Some(2), Some(3), Some(4), Some(5)]);
    assert_eq!(events[1].kind, EventKind::AuditGap);
    assert_eq!(events[1].rest.get("kept"), Some(&3.into()));
}

#[tokio::test]
async fn an_orderly_end_writes_what_is_kept_if_it_can() {
    let inner = Arc::new(Flaky::default());
    let (mode, clock) = (OnAuditFailure::Memory, Arc::new(TestClock::default()));
    // The next attempt of its own is too far away to help.
    let log = ResilientAudit::with_retry(inner.clone(), mode, clock, Duration::from_hours(1));
    log.flush().await;
    assert_eq!(inner.store.head(), 0, "there was no gap");
    inner.is_down.store(true, Ordering::SeqCst);
    log.append(event(1)).await.unwrap();
    log.flush().await;
    assert_eq!(log.queued(), 1, "it stays kept");
    inner.is_down.store(false, Ordering::SeqCst);
    tokio::join!(log.flush(), log.flush());
    assert_eq!((log.health(), log.queued()), (AuditHealth::Ok, 0));
    assert_eq!(inner.store.head(), 2, "the gap and the event, once");
}

#[tokio::test]
async fn a_full_memory_log_refuses() {
    let (inner, log) = log(OnAuditFailure::Memory);
    inner.is_down.store(true, Ordering::SeqCst);
    for number in 0..MAX_KEPT as u64 {
        log.append(event(number)).await.unwrap();
    }
    log.append(event(0)).await.unwrap_err();
    assert_eq!(log.health(), AuditHealth::Failed);
}

#[tokio::test]
async fn refusing_keeps_nothing_and_recovers() {
    let (inner, log) = log(OnAuditFailure::Refuse);
    inner.is_down.store(true, Ordering::SeqCst);
    log.append(event(1)).await.unwrap_err();
    assert_eq!((log.health(), log.queued()), (AuditHealth::Failed, 0));
    inner.is_down.store(false, Ordering::SeqCst);
    assert_eq!(log.append(event(2)).await.unwrap(), 1);
    assert_eq!(log.health(), AuditHealth::Ok);
}

#[tokio::test]
async fn a_log_that_refuses_finds_out_by_itself_that_it_can_be_written() {
    let (inner, log) = log(OnAuditFailure::Refuse);
    inner.is_down.store(true, Ordering::SeqCst);
    log.append(event(1)).await.unwrap_err();
    inner.asked.notified().await;
    inner.asked.notified().await;
    assert_eq!(log.health(), AuditHealth::Failed, "it was tried in vain");
    inner.is_down.store(false, Ordering::SeqCst);
    while log.health() != AuditHealth::Ok {
        inner.asked.notified().await;
        tokio::task::yield_now().await;
    }
    let events = inner.store.events();
    let kinds: Vec<_> = events.iter().map(|event| event.event().unwrap().kind).collect();
    assert_eq!(kinds, [EventKind::AuditGap], "the log says that something is missing");
}
