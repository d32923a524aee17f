use std::sync::Arc;
use std::time::Duration;

use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::store::{AuditHealth, AuditLog};
use drawgate_core::testing::{TestClock, TestStore};
use drawgate_host::store::OnAuditFailure;
use drawgate_host::store::fallback::{MAX_KEPT, ResilientAudit};
use tokio::sync::Notify;

/// A log that can be switched off, and says when it was asked.
struct Flaky {
    store: Arc<TestStore>,
    asked: Arc<Notify>,
}

impl Flaky {
    fn new() -> Self {
        let (store, asked) = (Arc::new(TestStore::default()), Arc::new(Notify::new()));
        let told = Arc::clone(&asked);
        store.faults().before(move |_| {
            told.notify_one();
            std::future::ready(Ok(()))
        });
        Self { store, asked }
    }

    fn resilient(&self, mode: OnAuditFailure, retry: Duration) -> ResilientAudit {
        let clock = Arc::new(TestClock::default());
        ResilientAudit::with_retry(self.store.clone(), mode, clock, retry)
    }
}

fn log(mode: OnAuditFailure) -> (Flaky, ResilientAudit) {
    let inner = Flaky::new();
    let log = inner.resilient(mode, Duration::from_millis(1));
    (inner, log)
}

fn event(number: u64) -> EventDraft {
    EventDraft::new(EventKind::AgentAdded, number).number("n", number)
}

#[tokio::test]
async fn events_of_a_gap_follow_it_in_order() {
    let (inner, log) = log(OnAuditFailure::Memory);
    assert_eq!(log.append(event(1)).await.unwrap(), 1);
    inner.store.break_log(true);
    for number in 2..=4 {
        assert_eq!(log.append(event(number)).await.unwrap(), 0, "kept, without a place");
    }
    assert!(matches!(log.health(), AuditHealth::Degraded { kept: 3, .. }), "{:?}", log.health());
    assert_eq!(log.queued(), 3);
    inner.store.break_log(false);
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
    let inner = Flaky::new();
    // The next attempt of its own is too far away to help.
    let log = inner.resilient(OnAuditFailure::Memory, Duration::from_hours(1));
    log.flush().await.unwrap();
    assert_eq!(inner.store.head(), 0, "there was no gap");
    inner.store.break_log(true);
    log.append(event(1)).await.unwrap();
    log.flush().await.unwrap_err();
    assert_eq!(log.queued(), 1, "it stays kept");
    inner.store.break_log(false);
    let flushed = tokio::join!(log.flush(), log.flush());
    assert!(flushed.0.is_ok() && flushed.1.is_ok());
    assert_eq!((log.health(), log.queued()), (AuditHealth::Ok, 0));
    assert_eq!(inner.store.head(), 2, "the gap and the event, once");
}

#[tokio::test]
async fn a_full_memory_log_refuses() {
    let (inner, log) = log(OnAuditFailure::Memory);
    inner.store.break_log(true);
    for number in 0..MAX_KEPT as u64 {
        log.append(event(number)).await.unwrap();
    }
    log.append(event(0)).await.unwrap_err();
    assert_eq!(log.health(), AuditHealth::Failed);
}

#[tokio::test]
async fn refusing_keeps_nothing_and_recovers() {
    let (inner, log) = log(OnAuditFailure::Refuse);
    inner.store.break_log(true);
    log.append(event(1)).await.unwrap_err();
    assert_eq!((log.health(), log.queued()), (AuditHealth::Failed, 0));
    inner.store.break_log(false);
    assert_eq!(log.append(event(2)).await.unwrap(), 1);
    assert_eq!(log.health(), AuditHealth::Ok);
}

#[tokio::test]
async fn a_log_that_refuses_finds_out_by_itself_that_it_can_be_written() {
    let (inner, log) = log(OnAuditFailure::Refuse);
    inner.store.break_log(true);
    log.append(event(1)).await.unwrap_err();
    inner.asked.notified().await;
    inner.asked.notified().await;
    assert_eq!(log.health(), AuditHealth::Failed, "it was tried in vain");
    inner.store.break_log(false);
    while log.health() != AuditHealth::Ok {
        inner.asked.notified().await;
        tokio::task::yield_now().await;
    }
    let events = inner.store.events();
    let kinds: Vec<_> = events.iter().map(|event| event.event().unwrap().kind).collect();
    assert_eq!(kinds, [EventKind::AuditGap], "the log says that something is missing");
}
