//! Every kind of source passes the shared suite; a kind without instances fails the test.

use std::path::Path;
use std::sync::Arc;

use drawgate_core::source::ToolSource;
use drawgate_core::testing::conformance::{Instances, check_source};
use drawgate_sources::KINDS;
use drawgate_sources::builtin::{BuiltinConfig, BuiltinSource};
use serde_json::json;
use tempfile::TempDir;

use crate::command;
use crate::oneshot::{program, source};
use crate::openapi;
use crate::pack;
use crate::support::{host, id, stdio};
use crate::toolpack;

#[tokio::test]
async fn every_kind() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        check_source(instances(kind.name(), &folder)).await;
    }
}

fn builtin(workspace: &Path) -> BuiltinConfig {
    BuiltinConfig { workspace: workspace.to_owned(), unprotected: Vec::new() }
}

/// A working, a slow and a broken instance of a kind.
fn instances(kind: &str, folder: &TempDir) -> Instances {
    match kind {
        "builtin" => {
            let lost = folder.path().join("lost");
            let broken = Arc::new(BuiltinSource::new(id(), &builtin(&lost), &host()).unwrap());
            std::fs::remove_dir(&lost).unwrap();
            Instances {
                tool: "vfs_write",
                arguments: |message| json!({ "path": message, "content": "x" }),
                working: Arc::new(
                    BuiltinSource::new(id(), &builtin(&folder.path().join("files")), &host())
                        .unwrap(),
                ),
                // Its tools can't be made to wait.
                slow: None,
                broken,
            }
        }
        "command" => {
            let source = |template| command::source(folder.path(), template, command::message());
            std::fs::write(folder.path().join("slow.sh"), "sleep 600").unwrap();
            Instances {
                tool: "echo",
                arguments: |message| json!({ "message": message }),
                working: source("printf %s {{message}}"),
                slow: Some(source("sh ./slow.sh {{message}}") as Arc<dyn ToolSource>),
                broken: source("no-such-program {{message}}"),
            }
        }
        "mcp" => Instances {
            tool: "echo",
            arguments: |message| json!({ "message": message }),
            working: stdio("echo"),
            slow: Some(stdio("slow") as Arc<dyn ToolSource>),
            broken: stdio("error_and_result"),
        },
        "oneshot" => {
            let file = folder.path().join("pid").display().to_string();
            Instances {
                tool: "echo",
                arguments: |message| json!({ "message": message }),
                working: source(program("echo", &[])),
                slow: Some(source(program("slow", &[&file])) as Arc<dyn ToolSource>),
                broken: source(program("silent", &[])),
            }
        }
        "openapi" => openapi::instances(folder),
        "pack" => pack::instances(),
        "toolpack" => toolpack::instances(folder),
        other => panic!("no instances of the kind `{other}`"),
    }
}
