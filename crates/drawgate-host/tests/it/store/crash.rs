//! `kill -9` leaves the files as they are: copies of them must open, at a prefix.

use std::fs;
use std::path::Path;

use drawgate_core::store::AuditLog;
use drawgate_host::store::DataDir;

use super::{decision, folder, open, outcome, verify};

fn copy(from: &DataDir, to: &Path, wal: &[u8]) -> DataDir {
    drop(fs::remove_dir_all(to));
    let dir = DataDir::open(to).unwrap();
    for name in ["audit.db", "audit.head", "audit.key", "audit.pub"] {
        fs::copy(from.file(name), dir.file(name)).unwrap();
    }
    fs::write(dir.file("audit.db-wal"), wal).unwrap();
    dir
}

#[tokio::test]
async fn a_copy_at_any_moment_holds_all_that_was_acknowledged() {
    let (keep, dir) = folder();
    let log = open(&dir);
    for call in 0..30 {
        let acknowledged = log.append(decision(&call.to_string())).await.unwrap();
        let wal = fs::read(dir.file("audit.db-wal")).unwrap();
        let copied = copy(&dir, &keep.path().join("copy"), &wal);
        let report = verify(&copied);
        assert_eq!((report.exit_code(), report.head.0), (0, acknowledged), "{report}");
        let reopened = open(&copied);
        assert_eq!(
            reopened.head(),
            acknowledged + 1 + (call + 1) + 1,
            "opened, one outcome each, recovered"
        );
        drop(reopened);
        assert_eq!(verify(&copied).exit_code(), 0);
    }
}

#[tokio::test]
async fn a_wal_cut_anywhere_opens_at_a_prefix() {
    let (keep, dir) = folder();
    let log = open(&dir);
    let mut bodies = Vec::new();
    for call in 0..6 {
        log.append(decision(&call.to_string())).await.unwrap();
        log.append(outcome(&call.to_string())).await.unwrap();
    }
    bodies.extend(log.read(0, 100).await.unwrap());
    let wal = fs::read(dir.file("audit.db-wal")).unwrap();
    let mut lengths = std::collections::BTreeSet::new();
    // Every frame's edges, and many places inside.
    for cut in (0..=wal.len()).filter(|cut| cut % 509 == 0 || (cut.wrapping_sub(32) % 4120) < 2) {
        let copied = copy(&dir, &keep.path().join("copy"), wal.get(..cut).unwrap());
        let log = open(&copied);
        let events = log.read(0, 100).await.unwrap();
        let kept = events.iter().zip(&bodies).take_while(|(a, b)| a == b).count();
        assert_eq!(
            events.get(kept).map(|event| event.event().unwrap().kind),
            Some(drawgate_core::audit::EventKind::LogOpened),
            "cut at {cut}: nothing but a prefix is left"
        );
        drop(log);
        // The head outside the log is of its first event, the start.
        let report = verify(&copied);
        assert_eq!(report.exit_code(), if kept == 0 { 2 } else { 0 }, "cut at {cut}: {report}");
        lengths.insert(kept);
    }
    assert!(lengths.len() > 5, "the cuts fell into different events: {lengths:?}");
}

#[tokio::test]
async fn flipped_bits_are_found_or_change_nothing() {
    let (keep, dir) = folder();
    let log = open(&dir);
    for call in 0..20 {
        log.append(decision(&call.to_string())).await.unwrap();
    }
    let bodies = log.read(0, 100).await.unwrap();
    log.close().await.unwrap();
    drop(log);
    let whole = fs::read(dir.file("audit.db")).unwrap();
    let mut found = 0;
    for place in (100..whole.len()).step_by(61) {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        let copied = copy(&dir, &keep.path().join("copy"), b"");
        fs::write(copied.file("audit.db"), &bytes).unwrap();
        let Ok(reader) = drawgate_host::store::sqlite::Reader::open(&copied) else {
            found += 1;
            continue;
        };
        let Ok(report) = reader.verify(drawgate_core::store::VerifyOptions::default()) else {
            found += 1;
            continue;
        };
        if report.exit_code() == 2 {
            found += 1;
        } else {
            let read = reader.tail(100).unwrap();
            assert_eq!(
                read.get(..bodies.len()),
                Some(bodies.as_slice()),
                "flip at {place} went unseen"
            );
        }
    }
    assert!(found > 50, "only {found} flips were found");
}
