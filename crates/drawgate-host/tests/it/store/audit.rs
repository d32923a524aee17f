use std::sync::Arc;

use drawgate_core::audit::{Anchor, EventDraft, EventKind, VerifyKeys};
use drawgate_core::model::Principal;
use drawgate_core::store::{AuditLog, StoreError, VerifyOptions};
use drawgate_host::store::sqlite::{Reader, SqliteAudit};
use drawgate_host::store::{Durability, verify_file};

use super::{decision, folder, open, options, outcome, verify};

async fn concurrent(durability: Durability) {
    let (_keep, dir) = folder();
    let log = Arc::new(SqliteAudit::open(&dir, options(durability)).unwrap());
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut places = Vec::new();
                for turn in 0..25 {
                    let draft = EventDraft::new(EventKind::AgentAdded, 1)
                        .text("who", format!("{task}.{turn}"));
                    places.push(log.append(draft).await.unwrap());
                }
                places
            })
        })
        .collect();
    let mut all = Vec::new();
    for (task, handle) in tasks.into_iter().enumerate() {
        let places = handle.await.unwrap();
        assert!(places.is_sorted(), "a task's events keep their order");
        for (turn, place) in places.iter().enumerate() {
            let stored = log.read(place - 1, 1).await.unwrap().remove(0);
            assert!(
                stored.body.contains(&format!("\"who\":\"{task}.{turn}\"")),
                "the sequence is the event's own"
            );
        }
        all.extend(places);
    }
    all.sort_unstable();
    assert_eq!(all, (2..=1601).collect::<Vec<u64>>(), "no gap, nothing twice");
    assert_eq!((log.head(), log.queued()), (1601, 0));
    let report = verify(&dir);
    assert_eq!((report.exit_code(), report.events, report.checkpoints), (0, 1601, 1), "{report}");
}

/// What a number of tasks on one thread write to the WAL, each in turns as calls do.
async fn wal_bytes(tasks: u64, turns: u64) -> u64 {
    let (_keep, dir) = folder();
    let log = Arc::new(open(&dir));
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                for _ in 0..turns {
                    let draft = EventDraft::new(EventKind::AgentAdded, 1).number("who", task);
                    log.append(draft).await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    std::fs::metadata(dir.path().join("audit.db-wal")).unwrap().len()
}

#[tokio::test]
async fn calls_on_one_thread_come_to_share_commits() {
    let (alone, together) = (wal_bytes(1, 800).await, wal_bytes(16, 50).await);
    assert!(together * 3 < alone, "{together} bytes together, {alone} alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_tasks_share_commits_and_keep_order() {
    concurrent(Durability::Process).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_with_syncs() {
    concurrent(Durability::Power).await;
}

#[tokio::test]
async fn one_thread_suffices() {
    concurrent(Durability::Process).await;
}

#[tokio::test]
async fn a_dropped_append_is_still_committed() {
    let (_keep, dir) = folder();
    let log = SqliteAudit::open(&dir, options(Durability::Power)).unwrap();
    {
        let mut append = log.append(decision("a"));
        assert!(futures_poll_once(&mut append).await.is_none(), "it waits for the sync");
    }
    let next = log.append(outcome("a")).await.unwrap();
    assert_eq!(next, 3);
    assert!(log.read(1, 1).await.unwrap()[0].body.contains("\"kind\":\"decision\""));
}

/// Polls once and hands back what came, if anything did.
async fn futures_poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn a_closed_log_opens_clean_and_lets_nothing_in_before() {
    let (_keep, dir) = folder();
    let log = open(&dir);
    log.append(decision("a")).await.unwrap();
    log.append(outcome("a")).await.unwrap();
    log.close().await.unwrap();
    assert!(matches!(log.append(decision("b")).await, Err(StoreError::Unavailable { .. })));
    drop(log);
    let log = open(&dir);
    let last = log.read(log.head() - 1, 1).await.unwrap().remove(0).event().unwrap();
    assert_eq!(last.kind, EventKind::LogOpened);
    assert_eq!(last.rest.get("clean"), Some(&true.into()));
    assert_eq!(verify(&dir).exit_code(), 0);
}

#[tokio::test]
async fn calls_under_way_get_an_unknown_outcome_after_a_crash() {
    let (_keep, dir) = folder();
    let log = open(&dir);
    for call in ["a", "b", "c"] {
        log.append(decision(call)).await.unwrap();
    }
    log.append(outcome("b")).await.unwrap();
    log.checkpoint().await.unwrap().unwrap();
    let by_a_run = decision("d").text("runId", "r1").text("agent", "p").number("depth", 2);
    log.append(by_a_run.text("rootRunId", "r0")).await.unwrap();
    drop(log);
    let log = open(&dir);
    let after: Vec<_> =
        log.read(6, 100).await.unwrap().iter().map(|event| event.event().unwrap()).collect();
    let found: Vec<_> = after.iter().map(|event| (event.kind, event.call_id.as_deref())).collect();
    assert_eq!(
        found,
        [
            (EventKind::LogOpened, None),
            (EventKind::Outcome, Some("a")),
            (EventKind::Outcome, Some("c")),
            (EventKind::Outcome, Some("d")),
            (EventKind::Recovered, None),
        ]
    );
    assert_eq!(after[0].rest.get("clean"), Some(&false.into()));
    assert_eq!(after[1].code.as_deref(), Some("UNKNOWN"));
    assert_eq!((after[1].success, after[1].tool_id.as_deref()), (Some(false), Some("demo:echo")));
    assert_eq!(after[1].rest.get("runId"), None);
    let run = ["runId", "agent", "rootRunId"].map(|key| after[3].rest[key].as_str().unwrap());
    assert_eq!((run, &after[3].rest["depth"]), (["r1", "p", "r0"], &2.into()));
    assert_eq!(after[4].rest.get("calls"), Some(&3.into()));
    drop(log);
    let again = open(&dir);
    assert_eq!(again.head(), 12, "nothing is recovered twice");
    assert_eq!(verify(&dir).exit_code(), 0);
}

#[tokio::test]
async fn a_removed_log_is_noted_in_the_new_one() {
    let (_keep, dir) = folder();
    open(&dir).close().await.unwrap();
    for name in ["audit.db", "audit.db-wal", "audit.db-shm"] {
        drop(std::fs::remove_file(dir.file(name)));
    }
    let first = open(&dir).read(0, 1).await.unwrap().remove(0);
    assert!(first.body.contains("\"logMissing\":true"), "{}", first.body);
    assert!(first.body.contains("\"lostHead\":2"), "{}", first.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verifying_beside_a_writer_gives_no_false_alarm() {
    let (_keep, dir) = folder();
    let log = Arc::new(open(&dir));
    let writer = {
        let log = Arc::clone(&log);
        tokio::spawn(async move {
            for call in 0..1500 {
                log.append(decision(&call.to_string())).await.unwrap();
                log.append(outcome(&call.to_string())).await.unwrap();
            }
        })
    };
    let mut runs = 0;
    while !writer.is_finished() || runs < 3 {
        let report = tokio::task::block_in_place(|| verify(&dir));
        assert_eq!(report.exit_code(), 0, "{report}");
        runs += 1;
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn an_export_verifies_and_a_torn_one_is_torn() {
    let (keep, dir) = folder();
    let log = open(&dir);
    log.append(decision("a")).await.unwrap();
    log.checkpoint().await.unwrap();
    log.append(outcome("a")).await.unwrap();
    let mut text = Vec::new();
    assert_eq!(Reader::open(&dir).unwrap().export(&mut text, 9).unwrap(), None);
    let path = keep.path().join("export.jsonl");
    let keys =
        || VerifyKeys::public(&std::fs::read_to_string(dir.file("audit.pub")).unwrap()).unwrap();
    let check = |bytes: &[u8], anchors: &[Anchor]| {
        std::fs::write(&path, bytes).unwrap();
        verify_file(&path, Some(keys()), anchors.to_vec()).unwrap()
    };
    let whole = check(&text, &[]);
    assert_eq!((whole.exit_code(), whole.events, whole.checkpoints), (0, 3, 2), "{whole}");
    for cut in 1..text.len() {
        let part = check(&text[..cut], &[]);
        let code = match (cut_is_whole(&text, cut), part.head.0) {
            (false, _) => 3,
            // The first event has no signature of its own; each of the others has one behind it.
            (true, head) if head > 1 && part.checkpoints == head - 1 => 0,
            (true, _) => 4,
        };
        assert_eq!(part.exit_code(), code, "cut at {cut}: {part}");
    }
    let anchor = Anchor::new(whole.head.0, whole.head.1);
    assert_eq!(check(&text, std::slice::from_ref(&anchor)).exit_code(), 0);
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(check(&lines[..2].concat(), &[anchor]).exit_code(), 2, "the anchor is missing");
    let changed = String::from_utf8(text.clone()).unwrap().replace("demo:echo", "demo:evil");
    assert_eq!(check(changed.as_bytes(), &[]).first_bad.map(|bad| bad.0), Some(2));
}

/// Whether a cut falls on the end of a line, before or after its line feed.
fn cut_is_whole(text: &[u8], cut: usize) -> bool {
    text[..cut].ends_with(b"\n") || text.get(cut) == Some(&b'\n')
}

#[tokio::test]
async fn a_pruned_log_verifies_and_goes_on() {
    let (_keep, dir) = folder();
    let log = open(&dir);
    for call in 0..20 {
        log.append(decision(&call.to_string())).await.unwrap();
        log.append(outcome(&call.to_string())).await.unwrap();
        if call % 5 == 4 {
            log.checkpoint().await.unwrap();
        }
    }
    assert_eq!(log.prune(&Principal::local(), 20).await.unwrap(), 19);
    log.append(decision("open")).await.unwrap();
    let report = verify(&dir);
    assert_eq!((report.exit_code(), report.events), (0, 24), "{report}");
    log.append(decision("another")).await.unwrap();
    assert_eq!(log.prune(&Principal::local(), 44).await.unwrap(), 23, "a call under way is kept");
    drop(log);
    let log = open(&dir);
    log.append(decision("later")).await.unwrap();
    assert_eq!(verify(&dir).exit_code(), 0, "{}", verify(&dir));
    drop(log);
    rusqlite::Connection::open(dir.file("audit.db"))
        .unwrap()
        .execute("DELETE FROM meta WHERE key = 'pruned'", [])
        .unwrap();
    assert_eq!(verify(&dir).exit_code(), 2, "without its record a cut is a cut");
}

#[tokio::test]
async fn a_log_that_can_not_be_written_says_so_and_recovers_without_a_gap() {
    let (_keep, dir) = folder();
    let log = open(&dir);
    log.append(decision("a")).await.unwrap();
    let other = rusqlite::Connection::open(dir.file("audit.db")).unwrap();
    // A trigger that refuses is a full disk that a test can switch.
    other
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'full'); END",
        )
        .unwrap();
    assert!(matches!(log.append(decision("b")).await, Err(StoreError::Unavailable { .. })));
    assert_eq!(log.head(), 2);
    other.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(log.append(outcome("a")).await.unwrap(), 3);
    assert_eq!(verify(&dir).exit_code(), 0);
}

#[tokio::test]
async fn a_log_with_syncs_stays_closed_after_a_failed_write() {
    let (_keep, dir) = folder();
    let log = SqliteAudit::open(&dir, options(Durability::Power)).unwrap();
    let other = rusqlite::Connection::open(dir.file("audit.db")).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER broken BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'io'); END",
        )
        .unwrap();
    log.append(decision("a")).await.unwrap_err();
    other.execute_batch("DROP TRIGGER broken").unwrap();
    let error = log.append(decision("a")).await.unwrap_err();
    assert!(error.to_string().contains("start again"), "{error}");
    assert!(log.checkpoint().await.is_err());
    drop(log);
    assert_eq!(verify(&dir).exit_code(), 0);
    open(&dir).append(decision("a")).await.unwrap();
}

#[tokio::test]
async fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_keep, dir) = folder();
    drop(open(&dir));
    std::fs::set_permissions(dir.file("audit.key"), std::fs::Permissions::from_mode(0o640))
        .unwrap();
    let Err(error) = SqliteAudit::open(&dir, options(Durability::Process)) else {
        panic!("opened")
    };
    assert!(error.to_string().contains("chmod 600"), "{error}");
    let options = VerifyOptions::default();
    assert!(Reader::open(&dir).unwrap().verify(options).is_err());
}
