//! Every kind of source passes the shared suite.
//!
//! The suite calls tools that take a `message`. The built-in tools take a `path`, so the same duties
//! are checked for them here.

use std::sync::Arc;

use drawgate_core::audit::EventKind;
use drawgate_core::source::ToolSource;
use drawgate_core::testing::conformance::{Instances, check_source};
use drawgate_sources::KINDS;
use drawgate_sources::builtin::BuiltinSource;
use serde_json::json;

use crate::oneshot::{program, source};
use crate::support::{gate, id, stdio, text};

/// The kinds that are checked below. A kind without a check is a kind without proof.
const CHECKED: [&str; 3] = ["builtin", "mcp", "oneshot"];

#[test]
fn every_kind_is_checked() {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
    assert_eq!(names, CHECKED);
}

#[tokio::test]
async fn mcp() {
    let (working, slow, broken) =
        (stdio("echo"), Some(stdio("slow") as Arc<dyn ToolSource>), stdio("error_and_result"));
    check_source(Instances { tool: "echo", working, slow, broken }).await;
}

#[tokio::test]
async fn oneshot() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid").display().to_string();
    let slow = Some(source(program("slow", &[&file])) as Arc<dyn ToolSource>);
    let (working, broken) = (source(program("echo", &[])), source(program("silent", &[])));
    check_source(Instances { tool: "echo", working, slow, broken }).await;
}

#[tokio::test]
async fn builtin_working() {
    let folder = tempfile::tempdir().unwrap();
    let working = Arc::new(BuiltinSource::new(id(), folder.path()).unwrap());
    assert_eq!(working.manifest().await.unwrap(), working.manifest().await.unwrap());
    let gate = Arc::new(gate(&working).await);
    let calls: Vec<_> = (0..16)
        .map(|index| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move {
                let path = format!("number {index} end");
                let result =
                    gate.call("ann", "up:vfs_write", json!({ "path": path, "content": "x" })).await;
                assert_eq!(text(&result), format!("wrote 1 bytes to `{path}`"));
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let events = gate.events().await;
    assert_eq!(events.iter().filter(|event| event.kind == EventKind::Outcome).count(), 16);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 16, "nothing unfinished is left");
}

#[tokio::test]
async fn builtin_broken() {
    let folder = tempfile::tempdir().unwrap();
    let lost = folder.path().join("lost");
    let broken = Arc::new(BuiltinSource::new(id(), &lost).unwrap());
    std::fs::remove_dir(&lost).unwrap();
    let result = gate(&broken)
        .await
        .call("ann", "up:vfs_write", json!({ "path": "a", "content": "x" }))
        .await;
    assert!(!result.success);
    assert!(text(&result).contains("`a`"), "{result:?}");
}
