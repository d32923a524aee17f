use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use drawgate_core::model::{ErrorCode, ToolInvocation};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::redact::Redactor;
use drawgate_core::testing::{Faults, Operation, caller};
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use drawgate_host::store::{self, StorageChoice};

use parking_lot::Mutex;

use super::*;
use crate::assemble::{RuntimeOptions, StateLocation};
use crate::config::Config;

const BEFORE: &str = r#"
[servers.first]
protocol = "call"
url = "http://127.0.0.1:9/"
manifest = [{ name = "ping", description = "Pings.", inputSchema = { type = "object" } }]
"#;

/// Changes rules, the terms of a running server, and the list of servers.
const AFTER: &str = r#"
names = "flat"
[servers.second]
protocol = "call"
url = "http://127.0.0.1:9/"
manifest = [{ name = "pong", description = "Pongs.", inputSchema = { type = "object" } }]
[policy.defaults]
fallback = "deny"
"#;

/// More than anything here takes.
const SETTLE: Duration = Duration::from_secs(10);

fn after() -> String {
    format!("{BEFORE}{AFTER}")
}

fn parsed(text: &str, place: &Path) -> Loaded {
    Config::parse(text, &place.join("drawgate.toml")).unwrap()
}

async fn open(place: &Path, faults: &Faults) -> Runtime {
    let redactor = Arc::new(arc_swap::ArcSwap::from_pointee(Redactor::new([])));
    let loaded = parsed(BEFORE, place);
    let options = RuntimeOptions {
        host: Host::new(Secrets::new(BTreeMap::<String, String>::new()), None).unwrap(),
        loaded: &loaded,
        state: StateLocation::Folder(place.join("data")),
        start: Start::Sources,
        redactor,
        embedder: None,
    };
    let runtime = Runtime::open_with(options, |dir, options| {
        let storage = store::open(&StorageChoice::Folder(dir.clone()), options)?;
        Ok(faults.in_front_of(storage))
    });
    let runtime = runtime.await.unwrap();
    runtime.supervisor().settle(SETTLE).await;
    runtime
}

/// Whether the edit's rule denies, and whether its server is there.
async fn seen(runtime: &Runtime) -> (bool, bool) {
    let code = async |tool: &str| {
        let call = ToolInvocation { tool_id: tool.to_owned(), ..ToolInvocation::default() };
        let result = runtime.gateway().call(&caller("local"), call, CallOptions::default()).await;
        result.error.map(|error| error.code)
    };
    let denied = code("builtin:vfs_list").await == Some(ErrorCode::PermissionDenied);
    (denied, code("second:pong").await != Some(ErrorCode::ResourceNotFound))
}

/// Makes one operation fail, and tells which one that was.
fn fail_at(faults: &Faults, step: usize) -> Arc<Mutex<Option<Operation>>> {
    let failed = Arc::new(Mutex::new(None));
    let told = Arc::clone(&failed);
    faults.fail_if(move |number, operation| {
        let fails = number == step;
        if fails {
            *told.lock() = Some(operation);
        }
        fails
    });
    failed
}

/// How often the log has events of a kind.
async fn written(runtime: &Runtime, kind: EventKind) -> usize {
    let events = runtime.audit().read(0, usize::MAX).await.unwrap();
    events.iter().filter(|event| event.event().unwrap().kind == kind).count()
}

#[tokio::test]
async fn an_edit_whose_store_fails_at_each_step_in_turn_leaves_the_earlier_one_in_force() {
    let mut failures = Vec::new();
    for step in 0.. {
        let place = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let runtime = open(place.path(), &faults).await;
        let edit = parsed(&after(), place.path());
        let failed = fail_at(&faults, step);
        let done = runtime.apply(&edit).await;
        let failed = *failed.lock();
        faults.heal();
        let Some(failed) = failed else {
            done.unwrap();
            break;
        };
        match done {
            // A server that can't be set up is a state of that server.
            Ok(_) => assert!(seen(&runtime).await.0, "{failed:?}"),
            Err(error) if failed == Operation::Append(EventKind::ConfigLoaded) => {
                assert!(seen(&runtime).await.0, "it is in force: {error:#}");
                assert!(runtime.edits.is_pending(), "only that it is written down is left");
            }
            Err(error) => {
                assert_eq!(seen(&runtime).await, (false, false), "{failed:?}: {error:#}");
                assert!(runtime.edits.is_pending(), "{failed:?}: this is what `/readyz` shows");
            }
        }
        runtime.apply(&edit).await.unwrap();
        runtime.supervisor().settle(SETTLE).await;
        assert_eq!(seen(&runtime).await, (true, true), "{failed:?}");
        assert!(!runtime.edits.is_pending(), "{failed:?}");
        for kind in [EventKind::ConfigApplying, EventKind::ConfigLoaded] {
            assert_eq!(written(&runtime, kind).await, 1, "{failed:?}: {kind}");
        }
        runtime.close().await;
        failures.push(failed);
    }
    let first = [Operation::Append(EventKind::ConfigApplying), Operation::Documents];
    assert_eq!(failures[..2], first, "{failures:?}");
    let last = Operation::Append(EventKind::ConfigLoaded);
    assert!(failures.contains(&last), "{failures:?}");
}
