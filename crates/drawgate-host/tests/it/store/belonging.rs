//! Files that belong together: databases that go away, states of different times, keys that are lost.

use std::fs;
use std::time::Duration;

use drawgate_core::store::{AuditLog, Store, StoreError, Write};
use drawgate_host::store::sqlite::{AuditOptions, Reader, SqliteAudit, SqliteStore};
use drawgate_host::store::{DataDir, Durability, StorageChoice};

use super::{copied, decision, folder, open, options, outcome, verify};

fn replace(dir: &DataDir, name: &str) {
    let (file, other) = (dir.file(name), dir.file("other"));
    fs::copy(&file, &other).unwrap();
    fs::rename(other, file).unwrap();
}

fn remove(dir: &DataDir, name: &str) {
    fs::remove_file(dir.file(name)).unwrap();
}

/// What becomes of a file of a store.
type Loss = fn(&DataDir, &str);
/// What becomes of a store, beside an earlier copy of it.
type Change = fn(&DataDir, &DataDir);

#[tokio::test]
async fn a_store_whose_files_go_away_takes_nothing_more() {
    let rows: [(&str, Loss); 6] = [
        ("audit.db", remove),
        ("audit.db", replace),
        ("audit.db-wal", remove),
        ("drawgate.db", remove),
        ("drawgate.db", replace),
        ("drawgate.db-wal", remove),
    ];
    for (name, take_away) in rows {
        let (_keep, dir) = folder();
        let audit = options(Durability::Process);
        let whole = drawgate_host::store::StorageOptions {
            durability: audit.durability,
            checkpoint_every: audit.checkpoint_every,
            head_pause: Duration::from_millis(5),
            payload_quota: audit.payload_quota,
            on_audit_failure: drawgate_host::store::OnAuditFailure::Memory,
            artifacts: drawgate_core::store::ArtifactLimits::default(),
            version: audit.version,
            clock: audit.clock,
        };
        let storage =
            drawgate_host::store::open(&StorageChoice::Folder(dir.clone()), &whole).unwrap();
        storage.audit.append(decision("before")).await.unwrap();
        take_away(&dir, name);
        let refused = loop {
            match storage.audit.append(decision("after")).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        let StoreError::Corrupt { reason, .. } = refused else { panic!("{name}: {refused}") };
        assert!(reason.contains(name) && reason.contains("removed or replaced"), "{reason}");
        // Not kept in memory, either, and the state is closed too.
        storage.log.append(decision("an act")).await.unwrap_err();
        storage.store.commit(vec![Write::Settle("x".to_owned())]).await.unwrap_err();
        storage.store.grants().await.unwrap_err();
    }
}

/// A folder, and a copy of it from before some more events.
async fn two_times() -> (tempfile::TempDir, DataDir, DataDir) {
    let (keep, dir) = folder();
    let log = open(&dir);
    log.append(decision("a")).await.unwrap();
    log.append(outcome("a")).await.unwrap();
    log.close().await.unwrap();
    drop(log);
    let older = copied(&dir, &keep.path().join("older"));
    open(&dir).close().await.unwrap();
    (keep, dir, older)
}

#[tokio::test]
async fn a_state_that_is_older_than_the_log_is_told() {
    let rows: [(&str, Change, bool); 3] = [
        ("nothing", |_, _| {}, false),
        (
            "an older state",
            |dir, older| {
                fs::copy(older.file("drawgate.db"), dir.file("drawgate.db")).unwrap();
            },
            true,
        ),
        ("no state", |dir, _| remove(dir, "drawgate.db"), true),
    ];
    for (what, change, is_told) in rows {
        let (_keep, dir, older) = two_times().await;
        change(&dir, &older);
        drop(SqliteStore::open(&dir, Durability::Process).unwrap());
        let log = open(&dir);
        let opened = log.read(log.head() - 1, 1).await.unwrap().remove(0).event().unwrap();
        assert_eq!(opened.rest.get("stateSetBack").is_some(), is_told, "{what}");
        drop(log);
        let loss = Reader::open(&dir).unwrap().loss().unwrap();
        let is_noted = loss.as_ref().is_some_and(|loss| loss.contains("restore a backup"));
        assert_eq!(is_noted, is_told, "{what}: {loss:?}");
        // Nothing is missing from the log itself.
        assert_eq!(verify(&dir).exit_code(), 0, "{what}: {}", verify(&dir));
        Reader::open(&dir).unwrap().signed_head(1).unwrap();
    }
}

#[tokio::test]
async fn a_lost_signing_key_is_not_replaced() {
    let rows: [&[&str]; 3] =
        [&["audit.key"], &["audit.key", "audit.pub"], &["audit.key", "audit.db", "audit.head"]];
    for lost in rows {
        let (_keep, dir) = folder();
        open(&dir).close().await.unwrap();
        for name in lost {
            remove(&dir, name);
        }
        let options = || AuditOptions { ..options(Durability::Process) };
        for _ in 0..2 {
            let Err(refused) = SqliteAudit::open(&dir, options()) else { panic!("{lost:?}") };
            let text = refused.to_string();
            assert!(text.contains("audit.key") && text.contains("from a backup"), "{text}");
            assert!(text.contains("move all `audit.*` files"), "{text}");
            assert!(!dir.file("audit.key").exists(), "{lost:?}");
        }
    }
}

#[tokio::test]
async fn a_clean_stop_leaves_everything_in_the_databases() {
    let (keep, dir) = folder();
    let whole = |dir: &DataDir| {
        let log = open(dir);
        (log, SqliteStore::open(dir, Durability::Process).unwrap())
    };
    let (log, store) = whole(&dir);
    log.append(decision("a")).await.unwrap();
    log.append(outcome("a")).await.unwrap();
    log.reader().tail(1).await.unwrap();
    log.close().await.unwrap();
    store.close().await.unwrap();
    let copy = copied(&dir, &keep.path().join("copy"));
    for name in ["audit.db-wal", "drawgate.db-wal", "audit.db-shm", "drawgate.db-shm"] {
        drop(fs::remove_file(copy.file(name)));
    }
    assert_eq!(verify(&copy).exit_code(), 0, "{}", verify(&copy));
    let (log, _store) = whole(&copy);
    let opened = log.read(log.head() - 1, 1).await.unwrap().remove(0).event().unwrap();
    assert_eq!(opened.rest.get("clean"), Some(&true.into()));
    assert_eq!(opened.rest.get("stateSetBack"), None);
}
