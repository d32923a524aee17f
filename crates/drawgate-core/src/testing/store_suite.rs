//! What every store owes, checked through the traits of [`store`](crate::store).
//!
//! A store hands in a function that opens an empty one with the limits of this suite. One that is
//! durable hands in a second function, which opens the same store again.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails its test")]

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::TestClock;
use crate::audit::search::{AuditQuery, AuditSearch, IdQuery};
use crate::audit::{Chain, EventDraft, EventKind, Payload, SignedHead, StoredEvent};
use crate::canonical;
use crate::clock::Clock as _;
use crate::model::{Capability, CapabilityGrant, Principal};
use crate::policy::{Approval, ApprovalState, Expose};
use crate::store::{
    Agent, ArtifactLimits, AuditHealth, NewArtifact, Owed, Stage, Storage, StoreError,
    VerifyOptions, Write,
};

/// The artifacts that a store of this suite keeps.
pub const ARTIFACTS: ArtifactLimits = ArtifactLimits { quota: 100, max_age_ms: 1000 };
/// The bytes of arguments that it keeps beside their events.
pub const PAYLOAD_QUOTA: u64 = 1000;
/// The events after which it signs the log.
pub const CHECKPOINT_EVERY: u64 = 50;

/// Runs the suite; panics where a duty is not met. `open` opens an empty store whose log signs itself
/// after [`CHECKPOINT_EVERY`] events, within these limits and on this clock.
pub async fn check_store(open: impl AsyncFn(Arc<TestClock>) -> Storage) {
    let fresh = async || {
        let clock = Arc::new(TestClock::default());
        (open(Arc::clone(&clock)).await, clock)
    };
    records(&fresh().await.0).await;
    writes_are_atomic_and_ordered(&fresh().await.0).await;
    approvals_are_settled_once(&fresh().await.0).await;
    documents(&fresh().await.0).await;
    documents_under_a_prefix(&fresh().await.0).await;
    owed_outcomes(&fresh().await.0).await;
    the_log_is_ordered_and_proved(&fresh().await.0).await;
    the_log_is_searched(&fresh().await.0).await;
    the_log_is_pruned_between_calls(&fresh().await.0).await;
    arguments_are_bounded(&fresh().await.0).await;
    a_closed_log_takes_nothing(&fresh().await.0).await;
    artifacts_have_owners(&fresh().await.0).await;
    let (storage, clock) = fresh().await;
    artifacts_are_bounded(&storage, &clock).await;
}

/// Checks that a store that is closed and opened again has what it had. Both times `open` opens the
/// same one.
pub async fn check_durable_store(open: impl AsyncFn(Arc<TestClock>) -> Storage) {
    let clock = Arc::new(TestClock::default());
    let storage = open(Arc::clone(&clock)).await;
    let writes = vec![
        Write::PutAgent(agent("ada")),
        Write::PutGrant(grant("g")),
        Write::PutApproval(approval("a", 1)),
        document("k", "d", json!({ "x": 1 })),
        Write::Owe(owed("act")),
    ];
    storage.store.commit(writes).await.unwrap();
    append(&storage, call("c", EventKind::Decision)).await;
    append(&storage, call("c", EventKind::Outcome)).await;
    let kept = storage.artifacts.put(artifact("ada", b"kept", &clock)).await.unwrap();
    storage.log.close().await.unwrap();
    let head = storage.log.head();
    drop(storage);

    let storage = open(clock).await;
    assert_eq!(storage.store.agents().await.unwrap(), [agent("ada")]);
    assert_eq!(storage.store.grants().await.unwrap(), [grant("g")]);
    assert_eq!(storage.store.approvals().await.unwrap(), [approval("a", 1)]);
    let documents = storage.documents.documents("k").await.unwrap();
    assert_eq!(documents, [("d".to_owned(), json!({ "x": 1 }))]);
    assert_eq!(storage.store.owed().await.unwrap().len(), 1);
    assert!(storage.log.head() >= head, "the log goes on");
    assert_eq!(found(&storage, "c").await.len(), 2);
    storage.log.checkpoint().await.unwrap();
    assert_proved(&storage).await;
    let read = storage.artifacts.get(&kept.sha256, &principal("ada")).await.unwrap();
    assert_eq!(read.unwrap().1, b"kept");
}

async fn records(storage: &Storage) {
    let store = &storage.store;
    let newer = Agent { created_at: 6, ..agent("bob") };
    let writes = vec![
        Write::PutAgent(agent("bob")),
        Write::PutAgent(agent("ada")),
        Write::PutAgent(newer.clone()),
        Write::PutGrant(grant("g2")),
        Write::PutGrant(grant("g1")),
        Write::PutApproval(approval("b", 2)),
        Write::PutApproval(approval("a", 3)),
        Write::PutApproval(approval("c", 1)),
    ];
    store.commit(writes).await.unwrap();
    let agents = store.agents().await.unwrap();
    assert_eq!(agents, [agent("ada"), newer], "by name, with the hashes of their tokens");
    assert_eq!(store.grants().await.unwrap(), [grant("g1"), grant("g2")], "by id");
    assert_eq!(approval_ids(storage).await, ["c", "b", "a"], "oldest first");
    let removals = vec![
        Write::RemoveGrant("g1".into()),
        Write::RemoveAgent(principal("ada")),
        Write::RemoveApproval("b".to_owned()),
        Write::RemoveApproval("unknown".to_owned()),
    ];
    store.commit(removals).await.unwrap();
    assert_eq!(store.agents().await.unwrap().len(), 1);
    assert_eq!(store.grants().await.unwrap(), [grant("g2")]);
    assert_eq!(approval_ids(storage).await, ["c", "a"]);
}

async fn writes_are_atomic_and_ordered(storage: &Storage) {
    let store = &storage.store;
    let fails = settle("unknown", ApprovalState::Pending, ApprovalState::Denied);
    let writes = vec![Write::PutGrant(grant("g")), document("k", "d", json!(1)), fails];
    let conflict = store.commit(writes).await;
    assert!(matches!(conflict, Err(StoreError::Conflict { .. })), "{conflict:?}");
    assert_eq!(store.grants().await.unwrap(), [], "nothing of a commit that fails is made");
    assert_eq!(storage.documents.documents("k").await.unwrap(), []);
    let writes = vec![
        Write::PutGrant(grant("g")),
        Write::RemoveGrant("g".into()),
        document("k", "d", json!(1)),
        document("k", "d", json!(2)),
        Write::PutApproval(approval("a", 1)),
        settle("a", ApprovalState::Pending, ApprovalState::Approved),
        settle("a", ApprovalState::Approved, ApprovalState::Used),
    ];
    store.commit(writes).await.unwrap();
    assert_eq!(store.grants().await.unwrap(), [], "later writes come after earlier ones");
    let documents = storage.documents.documents("k").await.unwrap();
    assert_eq!(documents, [("d".to_owned(), json!(2))]);
    assert_eq!(store.approvals().await.unwrap()[0].state, ApprovalState::Used);
}

async fn approvals_are_settled_once(storage: &Storage) {
    let put = Write::PutApproval(approval("a", 1));
    storage.store.commit(vec![put]).await.unwrap();
    let answers = [ApprovalState::Approved, ApprovalState::Denied];
    let attempts = answers.into_iter().cycle().take(8).map(|answer| {
        let store = Arc::clone(&storage.store);
        let write = settle("a", ApprovalState::Pending, answer);
        tokio::spawn(async move { store.commit(vec![write]).await.map(|()| answer) })
    });
    let mut made = Vec::new();
    for attempt in attempts.collect::<Vec<_>>() {
        match attempt.await.unwrap() {
            Ok(answer) => made.push(answer),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let stored = storage.store.approvals().await.unwrap().remove(0);
    assert_eq!(made, [stored.state], "one answer counts");
    assert_eq!(stored.arguments, approval("a", 1).arguments);
}

async fn documents(storage: &Storage) {
    let documents = &storage.documents;
    documents.put_document("k", "b", &json!({ "x": "\u{1f600}" })).await.unwrap();
    documents.put_document("k", "a", &json!(1)).await.unwrap();
    documents.put_document("k", "a", &json!([null])).await.unwrap();
    documents.put_document("other", "a", &json!(3)).await.unwrap();
    let all = documents.documents("k").await.unwrap();
    let expected = [("a".to_owned(), json!([null])), ("b".to_owned(), json!({ "x": "\u{1f600}" }))];
    assert_eq!(all, expected, "by id, of one kind");
    documents.remove_document("k", "a").await.unwrap();
    documents.remove_document("k", "a").await.unwrap();
    assert_eq!(documents.documents("k").await.unwrap().len(), 1);
    assert_eq!(documents.documents("other").await.unwrap().len(), 1);
}

async fn documents_under_a_prefix(storage: &Storage) {
    let documents = &storage.documents;
    let ids =
        ["a", "a/1", "a/10", "a/2", "a/\u{10ffff}", "a/\u{10ffff}x", "a%", "a0", "b/1", "\u{e9}/1"];
    for (number, id) in ids.iter().enumerate() {
        documents.put_document("k", id, &json!(number)).await.unwrap();
        documents.put_document("l", id, &json!("of another kind")).await.unwrap();
    }
    for prefix in
        ["", "a", "a/", "a/1", "a/\u{10ffff}", "a%", "a_", "A", "b/", "c", "\u{e9}", "\u{10ffff}"]
    {
        let mut expected: Vec<(String, Value)> = ids
            .iter()
            .enumerate()
            .filter(|(_, id)| id.starts_with(prefix))
            .map(|(number, id)| ((*id).to_owned(), json!(number)))
            .collect();
        expected.sort_by(|one, other| one.0.cmp(&other.0));
        let found = documents.documents_under("k", prefix).await.unwrap();
        assert_eq!(found, expected, "{prefix:?}");
    }
}

async fn owed_outcomes(storage: &Storage) {
    let store = &storage.store;
    let writes = ["b", "a"].map(|act| Write::Owe(owed(act)));
    store.commit(writes.to_vec()).await.unwrap();
    let read = store.owed().await.unwrap();
    let chained = |owed: &Owed| Chain::default().seal(&owed.outcome).body;
    let acts: Vec<&str> = read.iter().map(|owed| owed.act_id.as_str()).collect();
    assert_eq!(acts, ["b", "a"], "oldest first");
    assert_eq!(chained(&read[0]), chained(&owed("b")), "an outcome comes back as it was");
    assert_eq!((read[0].intent, read[0].stage), (3, Stage::Begun));
    store.commit(vec![Write::Settle("b".to_owned())]).await.unwrap();
    assert_eq!(store.owed().await.unwrap(), [owed("a")]);
}

async fn the_log_is_ordered_and_proved(storage: &Storage) {
    let (log, before) = (&storage.log, storage.log.head());
    let tasks = (0..8).map(|task| {
        let log = Arc::clone(log);
        tokio::spawn(async move {
            let mut places = Vec::new();
            for turn in 0..10 {
                let name = format!("{task}.{turn}");
                let draft = EventDraft::new(EventKind::AgentAdded, 5).text("agent", &name);
                places.push((log.append(draft).await.unwrap(), name));
            }
            places
        })
    });
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        let places = task.await.unwrap();
        assert!(places.is_sorted(), "the events of a task keep their order");
        all.extend(places);
    }
    all.sort();
    let sequences: Vec<u64> = all.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(sequences, (before + 1..=before + 80).collect::<Vec<u64>>(), "no gap, none twice");
    assert_eq!((log.head(), log.queued(), log.health()), (before + 80, 0, AuditHealth::Ok));
    for (event, (sequence, name)) in log.read(before, 100).await.unwrap().iter().zip(&all) {
        assert_eq!(event.sequence, *sequence);
        assert!(event.body.contains(&format!("\"{name}\"")), "{}", event.body);
    }
    let signed = log.reader().verify(VerifyOptions::default()).await.unwrap().checkpoints;
    assert!(signed >= 1, "the log signs itself after some events");
    let checkpoint = log.checkpoint().await.unwrap().unwrap();
    assert_eq!(checkpoint.sequence, log.head());
    assert_eq!(log.checkpoint().await.unwrap(), None, "nothing was appended since");
    assert_proved(storage).await;
    let head = log.signed_head();
    assert_eq!(SignedHead::parse(&head.to_json()).unwrap(), head);
    assert_eq!((head.sequence, &head.hash), (log.head(), &checkpoint.head));
    assert_eq!((head.key, head.install), (checkpoint.key, checkpoint.install));
    let options = VerifyOptions { key: Some("00".repeat(32)), ..VerifyOptions::default() };
    let report = log.reader().verify(options).await.unwrap();
    assert_eq!(report.exit_code(), 2, "another key has signed: {report}");
    log.flush().await.unwrap();
}

/// The events that an id belongs to.
async fn found(storage: &Storage, id: &str) -> Vec<u64> {
    let page = storage.log.reader().find(IdQuery::parse(id)).await.unwrap();
    page.events.into_iter().map(|found| found.sequence).collect()
}

async fn the_log_is_searched(storage: &Storage) {
    let reader = storage.log.reader();
    for name in ["a", "b"] {
        let decision = call(name, EventKind::Decision).text("requestId", "r");
        append(storage, decision.text("reason", "a needle")).await;
        append(storage, call(name, EventKind::Outcome)).await;
    }
    let head = storage.log.head();
    let sequences = |events: Vec<StoredEvent>| -> Vec<u64> {
        events.into_iter().map(|event| event.sequence).collect()
    };
    assert_eq!(sequences(reader.tail(2).await.unwrap()), [head - 1, head]);
    assert_eq!(reader.tail(1000).await.unwrap().len() as u64, head);
    assert_eq!(sequences(reader.read(head - 3, 2).await.unwrap()), [head - 2, head - 1]);
    assert_eq!(sequences(reader.read(head, 10).await.unwrap()), [0; 0]);
    assert_eq!(found(storage, &head.to_string()).await, [head]);
    assert_eq!(found(storage, "b").await, [head - 1, head], "a call");
    assert_eq!(found(storage, "r").await, [head - 3, head - 1], "a request");
    assert_eq!(found(storage, "unknown").await, [0; 0]);
    let query = AuditQuery { limit: 10, text: Some("NEEDLE".to_owned()), ..AuditQuery::default() };
    let page = reader.search(AuditSearch::new(query).unwrap()).await.unwrap();
    let entries: Vec<u64> = page.entries.iter().map(|entry| entry.sequence).collect();
    assert_eq!(entries, [head, head - 2], "calls, newest first");
    assert_eq!(reader.loss().await.unwrap(), None);
    let text = Text::default();
    assert_eq!(reader.export(Box::new(text.clone()), 5).await.unwrap(), None, "it is signed");
    let text = String::from_utf8(text.0.lock().clone()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let exported = lines.iter().filter(|line| line.get("kind").is_some()).count() as u64;
    assert_eq!(exported, head);
    let last = lines.last().unwrap();
    assert_eq!(last["sequence"], head, "the last line signs the head: {last}");
    assert!(last.get("signature").is_some(), "{last}");
}

/// Letters are calls: the first of a kind begins it, the second ends it. Places count from the event
/// before the first letter.
async fn the_log_is_pruned_between_calls(storage: &Storage) {
    let log = &storage.log;
    append(storage, EventDraft::new(EventKind::AgentAdded, 5)).await;
    for (calls, before, removed) in [
        ("aabb", 3, 2),
        ("aabb", 2, 0),
        ("aabb", 4, 2),
        // Calls that overlap are kept together.
        ("ababcc", 3, 0),
        ("ababcc", 5, 4),
        ("abcbca", 6, 0),
        ("aabcbcdd", 5, 2),
        // A call under way keeps itself and all later ones.
        ("aabccdd", 7, 2),
    ] {
        let start = log.head();
        let mut begun = Vec::new();
        for letter in calls.chars() {
            let ends = begun.contains(&letter);
            begun.push(letter);
            let kind = if ends { EventKind::Outcome } else { EventKind::Decision };
            append(storage, call(&format!("{start}{letter}"), kind)).await;
        }
        let place = start + before;
        let plan = log.reader().plan_prune(place).await.unwrap();
        assert_eq!(plan.last, start + removed, "`{calls}` before {before}: {plan:?}");
        assert_eq!(plan.is_held_back, removed < before - 1, "`{calls}` before {before}: {plan:?}");
        assert_eq!(
            log.prune(&Principal::local(), place).await.unwrap(),
            plan.events,
            "`{calls}` before {before}"
        );
        let first = log.read(0, 1).await.unwrap().remove(0);
        assert_eq!(first.sequence, start + removed + 1);
        assert_proved(storage).await;
        // What is under way ends, so that it keeps nothing of the next row.
        for letter in calls.chars() {
            append(storage, call(&format!("{start}{letter}"), EventKind::Outcome)).await;
        }
    }
    let head = log.head();
    let first = log.read(0, 1).await.unwrap().remove(0).sequence;
    for before in [0, first, head + 1, u64::MAX] {
        let error = log.prune(&Principal::local(), before).await.unwrap_err().to_string();
        let advice = format!("choose a sequence from {} to {head}", first + 1);
        assert!(error.contains(&advice), "{before}: {error}");
    }
}

async fn arguments_are_bounded(storage: &Storage) {
    let reader = storage.log.reader();
    let payload = |mark: char| {
        let text: Arc<str> = format!("\"{}\"", mark.to_string().repeat(250)).into();
        Payload { hash: canonical::sha256_hex(text.as_bytes()), text }
    };
    for mark in "abcad".chars() {
        let name = mark.to_string();
        let draft = call(&name, EventKind::Decision).text("inputHash", payload(mark).hash);
        append(storage, draft.with_payload(payload(mark))).await;
        append(storage, call(&name, EventKind::Outcome)).await;
    }
    let mut kept = String::new();
    for mark in "abcd".chars() {
        if let Some(text) = reader.payload(&payload(mark).hash).await.unwrap() {
            assert_eq!(*text, *payload(mark).text);
            kept.push(mark);
        }
    }
    assert_eq!(kept, "acd", "the same bytes are kept once, and `a` was used after `b`");
    let removal = log_kinds(storage).await;
    assert!(removal.contains(&EventKind::PayloadsRemoved), "{removal:?}");
    storage.log.checkpoint().await.unwrap();
    let options = VerifyOptions { artifacts: true, ..VerifyOptions::default() };
    let report = reader.verify(options).await.unwrap();
    assert_eq!(report.exit_code(), 0, "what was removed to make room is not missed: {report}");
    append(storage, EventDraft::new(EventKind::AgentAdded, 5)).await;
    storage.log.prune(&Principal::local(), storage.log.head()).await.unwrap();
    assert_eq!(reader.payload(&payload('d').hash).await.unwrap(), None, "it goes with its event");
}

async fn a_closed_log_takes_nothing(storage: &Storage) {
    append(storage, call("a", EventKind::Decision)).await;
    append(storage, call("a", EventKind::Outcome)).await;
    storage.log.close().await.unwrap();
    let late = storage.log.append(call("b", EventKind::Decision)).await;
    assert!(matches!(late, Err(StoreError::Unavailable { .. })), "{late:?}");
    assert_eq!(log_kinds(storage).await.last(), Some(&EventKind::LogClosed));
    assert_proved(storage).await;
}

async fn artifacts_have_owners(storage: &Storage) {
    let artifacts = &storage.artifacts;
    let clock = TestClock::default();
    let kept = artifacts.put(artifact("ada", b"hello", &clock)).await.unwrap();
    assert_eq!((kept.size, kept.sha256), (5, canonical::sha256_hex(b"hello")));
    let sha256 = canonical::sha256_hex(b"hello");
    let read = async |name: &str| artifacts.get(&sha256, &principal(name)).await.unwrap();
    let (info, bytes) = read("ada").await.unwrap();
    assert_eq!((info.owner, bytes.as_slice()), (principal("ada"), &b"hello"[..]));
    assert!(read("local").await.is_some(), "the local principal reads all");
    assert!(read("bob").await.is_none());
    artifacts.put(artifact("bob", b"hello", &clock)).await.unwrap();
    artifacts.put(artifact("bob", b"hello", &clock)).await.unwrap();
    assert_eq!(read("bob").await.unwrap().0.owner, principal("bob"));
    assert_eq!(artifacts.list(&principal("bob")).await.unwrap().len(), 1);
    assert_eq!(artifacts.list(&Principal::local()).await.unwrap().len(), 2);
    assert!(artifacts.remove(&sha256).await.unwrap());
    assert!(!artifacts.remove(&sha256).await.unwrap());
    assert!(read("ada").await.is_none() && read("bob").await.is_none());
    let unknown = artifacts.get("../../audit.key", &Principal::local()).await.unwrap();
    assert!(unknown.is_none(), "what is no hash names nothing");
}

async fn artifacts_are_bounded(storage: &Storage, clock: &TestClock) {
    let artifacts = &storage.artifacts;
    for mark in [b'a', b'b', b'c'] {
        artifacts.put(artifact("ada", &[mark; 40], clock)).await.unwrap();
        clock.advance(1);
    }
    let kept = async || -> Vec<u64> {
        let all = artifacts.list(&Principal::local()).await.unwrap();
        all.iter().map(|info| info.reference.size).collect()
    };
    assert_eq!(kept().await, [40, 40], "the oldest makes room");
    let large = artifacts.put(artifact("ada", &[0; 101], clock)).await;
    assert!(matches!(large, Err(StoreError::Quota { quota: 100, .. })), "{large:?}");
    assert_eq!(kept().await, [40, 40], "what can't be kept takes nobody's room");
    assert_eq!(artifacts.expire(clock.now_ms()).await.unwrap(), 0);
    clock.advance(ARTIFACTS.max_age_ms - 1);
    assert_eq!(kept().await, [40], "what is too old is not served");
    assert_eq!(artifacts.expire(clock.now_ms()).await.unwrap(), 1);
    artifacts.put(artifact("ada", b"new", clock)).await.unwrap();
    assert_eq!(kept().await, [3, 40], "newest first");
}

async fn assert_proved(storage: &Storage) {
    let report = storage.log.reader().verify(VerifyOptions::default()).await.unwrap();
    assert_eq!(report.exit_code(), 0, "{report}");
}

async fn append(storage: &Storage, draft: EventDraft) {
    storage.log.append(draft).await.unwrap();
}

async fn approval_ids(storage: &Storage) -> Vec<String> {
    let all = storage.store.approvals().await.unwrap();
    all.into_iter().map(|approval| approval.id).collect()
}

async fn log_kinds(storage: &Storage) -> Vec<EventKind> {
    let events = storage.log.read(0, usize::MAX).await.unwrap();
    events.iter().map(|event| event.event().unwrap().kind).collect()
}

fn principal(name: &str) -> Principal {
    Principal::new(name).unwrap()
}

fn agent(name: &str) -> Agent {
    Agent {
        name: principal(name),
        token_hash: "ab".repeat(32),
        capabilities: vec![Capability::new("demo").unwrap()],
        created_at: 5,
        expose: Expose::Search,
    }
}

fn grant(id: &str) -> CapabilityGrant {
    CapabilityGrant {
        grant_id: id.into(),
        capability: Capability::new("file.read").unwrap(),
        issued_at: 1,
        expires_at: Some(9),
        scope: None,
        approval_id: None,
    }
}

fn approval(id: &str, created_at: u64) -> Approval {
    Approval {
        id: id.to_owned(),
        tool_id: "demo:echo".to_owned(),
        principal: principal("ada"),
        binding: "b".to_owned(),
        arguments: json!({ "path": "/" }),
        reason: "a test".to_owned(),
        risk_tags: Vec::new(),
        created_at,
        expires_at: 100,
        state: ApprovalState::Pending,
        decided_at: None,
    }
}

fn settle(id: &str, from: ApprovalState, to: ApprovalState) -> Write {
    Write::SettleApproval { from, to: Approval { state: to, ..approval(id, 1) } }
}

fn document(kind: &'static str, id: &str, body: Value) -> Write {
    Write::PutDocument { kind, id: id.to_owned(), body }
}

fn owed(act_id: &str) -> Owed {
    let outcome = EventDraft::new(EventKind::GrantIssued, 7)
        .texts("grantIds", ["g1"])
        .text("actId", act_id)
        .number("expiresAt", 9)
        .flag("approved", true);
    Owed { act_id: act_id.to_owned(), intent: 3, stage: Stage::Begun, outcome }
}

fn call(id: &str, kind: EventKind) -> EventDraft {
    EventDraft::new(kind, 5).text("callId", id).flag("started", true)
}

fn artifact(owner: &str, bytes: &[u8], clock: &TestClock) -> NewArtifact {
    NewArtifact {
        bytes: bytes.to_vec(),
        mime_type: "text/plain".to_owned(),
        owner: principal(owner),
        tool_id: "demo:echo".to_owned(),
        created_at: clock.now_ms(),
    }
}

/// An export in memory.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
