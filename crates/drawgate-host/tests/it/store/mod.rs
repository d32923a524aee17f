//! The data folder: order, durability, tampering, recovery.

mod artifacts;
mod audit;
mod crash;
mod fallback;
mod state;
mod tamper;

use std::sync::Arc;

use drawgate_core::audit::{EventDraft, EventKind, Report};
use drawgate_core::testing::TestClock;
use drawgate_host::store::{
    AuditOptions, AuditReader, DataDir, Durability, SqliteAudit, VerifyOptions,
};
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
        version: "test".to_owned(),
        clock: Arc::new(TestClock::default()),
    }
}

fn open(dir: &DataDir) -> SqliteAudit {
    SqliteAudit::open(dir, options(Durability::Process)).unwrap()
}

fn verify(dir: &DataDir) -> Report {
    AuditReader::open(dir).unwrap().verify(VerifyOptions::default()).unwrap()
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
