//! Asking a large log: which events are read, and what is found.

use std::sync::Arc;

use drawgate_core::audit::search::{AuditQuery, AuditSearch, IdQuery};
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::store::AuditLog as _;
use drawgate_host::store::Durability;
use drawgate_host::store::sqlite::{AuditOptions, SqliteAudit};

use tokio::task::JoinSet;

use super::{folder, options, verify};

const MINUTE: u64 = 60_000;

fn call(kind: EventKind, at: u64, number: u64) -> EventDraft {
    let tool = if number.is_multiple_of(1000) { "files:delete_file" } else { "files:read_file" };
    let draft = EventDraft::new(kind, at)
        .text("callId", format!("{number:024x}"))
        .text("requestId", number.to_string())
        .text("principal", if number.is_multiple_of(3) { "ada" } else { "bob" })
        .text("surface", "mcp")
        .text("toolId", tool)
        .texts("grantIds", ["standing:ada:filesystem"]);
    match kind {
        EventKind::Decision => draft
            .text("definitionHash", "d".repeat(64))
            .text("inputHash", "e".repeat(64))
            .canonical("input", format!(r#"{{"path":"notes/{number}.txt"}}"#)),
        _ => draft.flag("success", true).flag("started", true).number("durationMs", 3),
    }
}

/// Appends calls, one every so many milliseconds.
async fn fill(log: &Arc<SqliteAudit>, calls: u64, pause: u64) {
    const TOGETHER: u64 = 200;
    for first in (0..calls).step_by(usize::try_from(TOGETHER).unwrap()) {
        let mut tasks = JoinSet::new();
        for number in first..(first + TOGETHER).min(calls) {
            let (log, at) = (Arc::clone(log), (number + 1) * pause);
            tasks.spawn(async move {
                log.append(call(EventKind::Decision, at, number)).await.unwrap();
                log.append(call(EventKind::Outcome, at + 3, number)).await.unwrap();
            });
        }
        tasks.join_all().await;
    }
}

fn at(minute: u64) -> AuditQuery {
    AuditQuery {
        since: Some(minute * MINUTE),
        until: Some((minute + 1) * MINUTE),
        limit: 100,
        ..AuditQuery::default()
    }
}

async fn found(log: &SqliteAudit, query: AuditQuery) -> Vec<String> {
    let page = log.reader().search(AuditSearch::new(query).unwrap()).await.unwrap();
    let entries = page.entries.into_iter();
    entries.filter_map(|entry| entry.arguments).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_checkpoints_say_about_times_loses_nothing() {
    let (_keep, dir) = folder();
    let options = || AuditOptions { checkpoint_every: 50, ..options(Durability::Process) };
    let log = Arc::new(SqliteAudit::open(&dir, options()).unwrap());
    fill(&log, 2400, MINUTE / 20).await;
    // A clock that was set back, then a crash before the next checkpoint.
    log.append(call(EventKind::Decision, 7 * MINUTE, 9000)).await.unwrap();
    drop(log);
    let log = Arc::new(SqliteAudit::open(&dir, options()).unwrap());
    for minute in [0, 1, 60, 119, 120] {
        let expected = match minute {
            0 => 19,
            120 => 1,
            _ => 20,
        };
        assert_eq!(found(&log, at(minute)).await.len(), expected, "minute {minute}");
    }
    let seven = found(&log, at(7)).await;
    assert_eq!((seven.len(), seven[0].as_str()), (21, r#"{"path":"notes/9000.txt"}"#));
    let tool = Some("*delete*".to_owned());
    let deleted = found(&log, AuditQuery { tool, ..at(100) }).await;
    assert_eq!(deleted, [r#"{"path":"notes/2000.txt"}"#]);
    let report = verify(&dir);
    assert_eq!(report.exit_code(), 0, "{report}");
}

/// Questions to a log of a million events, with the time that each takes. Run it by
/// `cargo test --release -p drawgate-host --test it -- --ignored --nocapture a_million_events`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "makes a log of 700 MB"]
async fn a_million_events() {
    let (_keep, dir) = folder();
    let log = Arc::new(SqliteAudit::open(&dir, options(Durability::Process)).unwrap());
    fill(&log, 500_000, 100).await;
    let tool = || Some("*delete*".to_owned());
    let questions = [
        ("who deleted it at 14:05", AuditQuery { tool: tool(), ..at(605) }, 1),
        ("what happened at 14:05", AuditQuery { limit: 1000, ..at(605) }, 600),
        ("one text, at 14:05", AuditQuery { text: Some("notes/363333".into()), ..at(605) }, 1),
        (
            "the last 100 of a tool",
            AuditQuery { tool: tool(), limit: 100, ..Default::default() },
            100,
        ),
        (
            "one text, anywhere",
            AuditQuery { text: Some("notes/7.txt".into()), limit: 9, ..Default::default() },
            1,
        ),
        (
            "a tool never used",
            AuditQuery { tool: Some("none".into()), limit: 9, ..Default::default() },
            0,
        ),
    ];
    let reader = log.reader();
    for (name, mut query, expected) in questions {
        let began = std::time::Instant::now();
        let mut count = 0;
        loop {
            let page = reader.search(AuditSearch::new(query.clone()).unwrap()).await.unwrap();
            count += page.entries.len();
            query.before = page.next;
            if page.next.is_none() || count >= query.limit {
                break;
            }
        }
        eprintln!("{name}: {:?}", began.elapsed());
        assert_eq!(count, expected, "{name}");
    }
    for id in ["000000000000000000000007", "499999"] {
        let (began, mut query, mut count) = (std::time::Instant::now(), IdQuery::parse(id), 0);
        loop {
            let page = reader.find(query.clone()).await.unwrap();
            count += page.events.len();
            query.before = page.next;
            if page.next.is_none() {
                break;
            }
        }
        eprintln!("the id {id}: {:?}", began.elapsed());
        assert!(count >= 2);
    }
}
