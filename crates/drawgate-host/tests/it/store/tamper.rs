//! The catalogue of ways to tamper, done to the real file through `SQLite`.

use drawgate_core::audit::{Anchor, Chain, EventDraft, EventKind};
use drawgate_core::store::AuditLog;
use drawgate_core::store::VerifyOptions;
use drawgate_host::store::DataDir;
use drawgate_host::store::sqlite::Reader;
use rusqlite::Connection;
use serde_json::Value;

use super::{copied, decision, folder, open, outcome, verify};

async fn filled(dir: &DataDir) {
    let log = open(dir);
    for call in 0..100 {
        log.append(decision(&call.to_string()).text("principal", "caf\u{e9}").number("n", 1))
            .await
            .unwrap();
        log.append(outcome(&call.to_string())).await.unwrap();
        if call % 10 == 9 {
            log.checkpoint().await.unwrap();
        }
    }
    log.close().await.unwrap();
}

fn edit(connection: &Connection, change: impl Fn(&str) -> String) {
    let body: String = connection
        .query_row("SELECT body FROM event WHERE seq = 78", [], |row| row.get(0))
        .unwrap();
    let changed = change(&body);
    assert_ne!(body, changed);
    connection.execute("UPDATE event SET body = ?1 WHERE seq = 78", [changed]).unwrap();
}

/// Recomputes the whole chain, as anybody with write access can.
fn reseal(connection: &Connection) {
    let mut statement = connection.prepare("SELECT body FROM event ORDER BY seq").unwrap();
    let bodies: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    connection.execute("DELETE FROM event", []).unwrap();
    let mut prev = "0".repeat(64);
    for (sequence, body) in (1_i64..).zip(bodies) {
        let Value::Object(mut event) = serde_json::from_str(&body).unwrap() else {
            panic!("{body}")
        };
        event.shift_remove("hash");
        event.insert("sequence".to_owned(), sequence.into());
        event.insert("prev".to_owned(), prev.into());
        prev = drawgate_core::canonical::hash(&Value::Object(event.clone()));
        event.insert("hash".to_owned(), prev.clone().into());
        let body = drawgate_core::canonical::to_string(&Value::Object(event));
        connection
            .execute("INSERT INTO event (seq, body) VALUES (?1, ?2)", (sequence, body))
            .unwrap();
    }
}

fn run(connection: &Connection, sql: &str) {
    connection.execute_batch(sql).unwrap();
}

type Row = (&'static str, fn(&Connection), u64);

const ROWS: &[Row] = &[
    ("edit_principal", |c| edit(c, |body| body.replace("caf\u{e9}", "mallory")), 78),
    ("edit_ts", |c| edit(c, |body| body.replace("\"createdAt\":5", "\"createdAt\":4")), 78),
    ("add_field", |c| edit(c, |body| body.replace("{\"callId\"", "{\"a\":1,\"callId\"")), 78),
    ("unicode_nfd", |c| edit(c, |body| body.replace("caf\u{e9}", "cafe\u{301}")), 78),
    ("dup_key", |c| edit(c, |body| body.replace("{\"callId\"", "{\"n\":1,\"callId\"")), 78),
    ("delete_middle", |c| run(c, "DELETE FROM event WHERE seq = 78"), 78),
    (
        "delete_middle_renumber",
        |c| {
            run(
                c,
                "DELETE FROM event WHERE seq = 78; UPDATE event SET seq = seq - 1 WHERE seq > 78",
            );
        },
        78,
    ),
    // The order stays, and every event is as it was: only where it is found differs.
    ("renumber_tail", |c| run(c, "UPDATE event SET seq = seq + 1000 WHERE seq > 78"), 79),
    (
        "edit_and_reseal",
        |c| {
            edit(c, |body| body.replace("caf\u{e9}", "mallory"));
            reseal(c);
        },
        81,
    ),
    (
        "rewrite_all_reseal",
        |c| {
            run(c, "UPDATE event SET body = replace(body, 'demo:echo', 'demo:evil')");
            reseal(c);
        },
        21,
    ),
    (
        "truncate_to_checkpoint",
        |c| run(c, "DELETE FROM event WHERE seq > 101; DELETE FROM checkpoint WHERE seq > 101"),
        101,
    ),
    ("truncate_to_zero", |c| run(c, "DELETE FROM event; DELETE FROM checkpoint"), 0),
    (
        "truncate_with_head",
        |c| run(c, "DELETE FROM event; DELETE FROM checkpoint; DELETE FROM meta"),
        202,
    ),
    ("head_removed", |c| run(c, "DELETE FROM meta WHERE key = 'head'"), 202),
    (
        "reorder_checkpoints",
        |c| {
            run(
                c,
                "UPDATE checkpoint SET seq = -41 WHERE seq = 41; UPDATE checkpoint SET seq = 41 WHERE seq = 61; UPDATE checkpoint SET seq = 61 WHERE seq = -41",
            );
        },
        61,
    ),
    (
        "old_checkpoint_as_new",
        |c| {
            run(
                c,
                "UPDATE checkpoint SET body = (SELECT replace(body, '\"sequence\":21', '\"sequence\":201') FROM checkpoint WHERE seq = 21) WHERE seq = 201",
            );
        },
        201,
    ),
    ("drop_checkpoints", |c| run(c, "DELETE FROM checkpoint"), 202),
    (
        "end_without_start",
        |c| {
            run(
                c,
                "UPDATE event SET body = replace(body, '\"callId\":\"38\"', '\"callId\":\"x\"') WHERE seq = 79",
            );
            reseal(c);
        },
        79,
    ),
    (
        "append_forged",
        |c| {
            let hash: String = c
                .query_row(
                    "SELECT json_extract(body, '$.hash') FROM event WHERE seq = 202",
                    [],
                    |row| row.get(0),
                )
                .unwrap();
            let sealed = Chain::after(202, hash).seal(&EventDraft::new(EventKind::GrantIssued, 1));
            c.execute("INSERT INTO event (seq, body) VALUES (203, ?1)", [sealed.body]).unwrap();
        },
        203,
    ),
];

#[tokio::test]
async fn every_row_is_detected_and_placed() {
    let (keep, dir) = folder();
    filled(&dir).await;
    assert_eq!(verify(&dir).exit_code(), 0, "{}", verify(&dir));
    for (name, tamper, place) in ROWS {
        let copy = copied(&dir, &keep.path().join(name));
        tamper(&Connection::open(copy.file("audit.db")).unwrap());
        let report = verify(&copy);
        assert_eq!(report.first_bad.as_ref().map(|bad| bad.0), Some(*place), "{name}: {report}");
        assert_eq!(report.exit_code(), 2, "{name}");
    }
}

#[tokio::test]
async fn a_float_of_the_same_value_verifies() {
    let (_keep, dir) = folder();
    filled(&dir).await;
    edit(&Connection::open(dir.file("audit.db")).unwrap(), |body| {
        body.replace("\"n\":1,", "\"n\":1.0,")
    });
    assert_eq!(verify(&dir).exit_code(), 0, "{}", verify(&dir));
}

#[tokio::test]
async fn a_log_of_another_installation_does_not_pass_for_ours() {
    let (keep, dir) = folder();
    filled(&dir).await;
    let other = DataDir::open(keep.path().join("other")).unwrap();
    filled(&other).await;
    std::fs::copy(other.file("audit.db"), dir.file("audit.db")).unwrap();
    assert_eq!(verify(&dir).exit_code(), 2);
    let opened = drawgate_host::store::sqlite::SqliteAudit::open(
        &dir,
        super::options(drawgate_host::store::Durability::Process),
    );
    assert!(opened.is_err(), "a gateway does not go on with it");
}

#[tokio::test]
async fn an_old_copy_of_the_whole_file_is_found_by_an_anchor() {
    let (keep, dir) = folder();
    filled(&dir).await;
    let old = copied(&dir, &keep.path().join("old"));
    let log = open(&dir);
    log.append(decision("later")).await.unwrap();
    drop(log);
    let (sequence, hash) = verify(&dir).head;
    let anchor = Anchor::new(sequence, hash);
    let check = |dir: &DataDir| {
        let options = VerifyOptions { anchors: vec![anchor.clone()], ..VerifyOptions::default() };
        Reader::open(dir).unwrap().verify(options).unwrap().exit_code()
    };
    assert_eq!((check(&dir), check(&old)), (0, 2));
}

#[tokio::test]
async fn swapped_pages_are_detected() {
    let (keep, dir) = folder();
    filled(&dir).await;
    let whole = std::fs::read(dir.file("audit.db")).unwrap();
    let events = Reader::open(&dir).unwrap().tail(1000).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 8, "{pages}");
    let in_use = |page: usize| whole[page * 4096..(page + 1) * 4096].iter().any(|byte| *byte != 0);
    for (a, b) in
        (1..pages - 1).map(|page| (page, page + 1)).filter(|(a, b)| in_use(*a) && in_use(*b))
    {
        let copy = copied(&dir, &keep.path().join(format!("swap{a}")));
        let mut bytes = whole.clone();
        let (left, right) = bytes.split_at_mut(b * 4096);
        left[a * 4096..].swap_with_slice(&mut right[..4096]);
        std::fs::write(copy.file("audit.db"), &bytes).unwrap();
        let reader = Reader::open(&copy);
        let found = reader
            .as_ref()
            .ok()
            .and_then(|reader| reader.verify(VerifyOptions::default()).ok())
            .map_or(2, |report| report.exit_code());
        // Pages without events are not the log's.
        let same = || reader.unwrap().tail(1000).unwrap() == events;
        assert!(found == 2 || same(), "pages {a} and {b}");
    }
}
