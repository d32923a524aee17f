//! Large arguments beside their events: kept by hash, bounded, and missed when they are gone.

use std::sync::Arc;

use drawgate_core::audit::{EventDraft, Payload, Report};
use drawgate_core::canonical;
use drawgate_core::model::Principal;
use drawgate_core::store::{AuditLog, VerifyOptions};
use drawgate_host::store::DataDir;
use drawgate_host::store::sqlite::{Reader, SqliteAudit};
use rusqlite::Connection;

use super::{decision, folder, open, outcome};

/// A quarter of the quota that the tests open their logs with.
const QUARTER: usize = 1 << 18;

fn payload(mark: char) -> Payload {
    let text: Arc<str> = format!("{{\"a\":\"{}\"}}", mark.to_string().repeat(QUARTER)).into();
    Payload { hash: canonical::sha256_hex(text.as_bytes()), text }
}

fn large(mark: char) -> EventDraft {
    let payload = payload(mark);
    decision(&mark.to_string()).text("inputHash", &payload.hash).with_payload(payload)
}

async fn call(log: &SqliteAudit, mark: char) {
    log.append(large(mark)).await.unwrap();
    log.append(outcome(&mark.to_string())).await.unwrap();
}

fn verify(dir: &DataDir) -> Report {
    let options = VerifyOptions { artifacts: true, ..VerifyOptions::default() };
    Reader::open(dir).unwrap().verify(options).unwrap()
}

fn kept(dir: &DataDir, marks: &str) -> String {
    let reader = Reader::open(dir).unwrap();
    let is_kept = |mark: &char| reader.payload(&payload(*mark).hash).unwrap().is_some();
    marks.chars().filter(is_kept).collect()
}

#[tokio::test]
async fn arguments_are_kept_once_and_the_oldest_go_first() {
    let (_keep, dir) = folder();
    let log = open(&dir);
    for mark in "abca".chars() {
        call(&log, mark).await;
    }
    assert_eq!(kept(&dir, "abc"), "abc", "the same bytes take room once");
    assert_eq!(verify(&dir).exit_code(), 0, "{}", verify(&dir));
    drop(log);
    // The room is measured anew at a start; `a` was used again after `b`.
    let log = open(&dir);
    call(&log, 'd').await;
    assert_eq!(kept(&dir, "abcd"), "acd");
    let removed = log.read(0, 100).await.unwrap();
    assert!(removed.iter().any(|event| event.body.contains("payloads_removed")), "{removed:?}");
    assert_eq!(verify(&dir).exit_code(), 0, "what was removed to make room is not missed");
    let head = log.head();
    log.append(decision("last")).await.unwrap();
    log.append(outcome("last")).await.unwrap();
    assert_eq!(log.prune(&Principal::local(), head + 1).await.unwrap(), head);
    assert_eq!(kept(&dir, "abcd"), "", "they go with their events");
    assert_eq!(verify(&dir).exit_code(), 0, "{}", verify(&dir));
}

#[tokio::test]
async fn arguments_that_were_changed_or_removed_are_found() {
    for (sql, words) in [
        (
            "UPDATE payload SET body = replace(body, 'aaaa', 'aaab')",
            "its kept arguments were changed",
        ),
        (
            "DELETE FROM payload",
            "its kept arguments are missing, and were not removed to make room",
        ),
    ] {
        let (_keep, dir) = folder();
        let log = open(&dir);
        call(&log, 'a').await;
        drop(log);
        Connection::open(dir.file("audit.db")).unwrap().execute(sql, []).unwrap();
        let report = verify(&dir);
        assert_eq!(report.first_bad, Some((2, words.to_owned())), "{sql}");
    }
}
