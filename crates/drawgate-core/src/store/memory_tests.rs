use super::*;
use crate::audit::EventKind;
use crate::testing::{TestClock, store_suite};

fn store(log_bytes: usize) -> MemoryStore {
    let options = MemoryOptions::new(Arc::new(TestClock::default()));
    MemoryStore::new(MemoryOptions { log_bytes, ..options }).unwrap()
}

fn draft(kind: EventKind, call: &str) -> EventDraft {
    EventDraft::new(kind, 5).text("callId", call).flag("started", true)
}

#[tokio::test]
async fn a_full_log_prunes_its_oldest_events_and_verifies() {
    let store = store(20_000);
    for call in 0..500 {
        for kind in [EventKind::Decision, EventKind::Outcome] {
            store.append(draft(kind, &call.to_string())).await.unwrap();
        }
    }
    let events = store.events();
    assert!(events.iter().map(|event| event.body.len()).sum::<usize>() < 21_000);
    assert!(events[0].sequence > 1 && store.head() > 1000);
    let report = store.verify(VerifyOptions::default()).await.unwrap();
    assert_eq!(report.first_bad, None, "{report}");
}

#[tokio::test]
async fn a_log_that_can_not_be_pruned_refuses() {
    let store = store(2000);
    store.append(draft(EventKind::Decision, "under way")).await.unwrap();
    let mut appended = 0;
    let refused = loop {
        match store.append(draft(EventKind::AgentAdded, "other")).await {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
    };
    assert!((5..50).contains(&appended) && refused.to_string().contains("is full"), "{refused}");
    assert_eq!(store.health(), AuditHealth::Failed);
}

#[tokio::test]
async fn the_number_of_records_is_bounded() {
    let store = store(1 << 20);
    let document = |id: usize| Write::PutDocument { kind: "k", id: id.to_string(), body: 1.into() };
    store.commit((0..MAX_RECORDS).map(document).collect()).await.unwrap();
    store.commit(vec![document(MAX_RECORDS)]).await.unwrap_err();
    let id = "0".to_owned();
    store.commit(vec![Write::RemoveDocument { kind: "k", id }]).await.unwrap();
    store.commit(vec![document(MAX_RECORDS)]).await.unwrap();
}

#[tokio::test]
async fn it_is_a_store() {
    store_suite::check_store(async |clock| {
        let options = MemoryOptions {
            artifacts: store_suite::ARTIFACTS,
            payload_quota: store_suite::PAYLOAD_QUOTA,
            checkpoint_every: store_suite::CHECKPOINT_EVERY,
            ..MemoryOptions::new(clock)
        };
        MemoryStore::new(options).unwrap().storage()
    })
    .await;
}
