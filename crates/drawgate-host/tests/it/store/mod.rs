//! The data folder: order, durability, tampering, recovery.

mod artifacts;
mod audit;
mod belonging;
mod crash;
mod fallback;
mod payload;
mod prune;
mod search;
mod state;
mod suite;
mod tamper;
mod time;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::audit::{EventDraft, EventKind, Report};
use drawgate_core::store::VerifyOptions;
use drawgate_core::testing::TestClock;
use drawgate_host::store::sqlite::{AuditOptions, Reader, SqliteAudit};
use drawgate_host::store::{DataDir, Durability};
use tempfile::TempDir;

fn folder() -> (TempDir, DataDir) {
    let folder = tempfile::tempdir().unwrap();
    let dir = DataDir::open(folder.path().join("data")).unwrap();
    (folder, dir)
}

fn options(durability: Durability) -> AuditOptions {
    AuditOptions {
        durability,
        checkpoint_every: 1000,
        // Tests that need it say so; the others are not to depend on when it comes.
        head_pause: Duration::from_hours(1),
        payload_quota: 1 << 20,
        version: "test".to_owned(),
        clock: Arc::new(TestClock::default()),
    }
}

fn open(dir: &DataDir) -> SqliteAudit {
    SqliteAudit::open(dir, options(Durability::Process)).unwrap()
}

fn verify(dir: &DataDir) -> Report {
    Reader::open(dir).unwrap().verify(VerifyOptions::default()).unwrap()
}

/// A copy of a whole data folder.
fn copied(dir: &DataDir, to: &Path) -> DataDir {
    drop(std::fs::remove_dir_all(to));
    let copy = DataDir::open(to).unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    copy
}

fn decision(call: &str) -> EventDraft {
    EventDraft::new(EventKind::Decision, 5)
        .text("callId", call)
        .text("toolId", "demo:echo")
        .text("requestId", "r")
}

fn outcome(call: &str) -> EventDraft {
    EventDraft::new(EventKind::Outcome, 6)
        .text("callId", call)
        .flag("started", true)
        .flag("success", true)
}
