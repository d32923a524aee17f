use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use drawgate_core::model::{ErrorCode, McpToolSpec, ToolInvocation, ToolOutput};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::redact::Redactor;
use drawgate_core::source::ToolSource as _;
use drawgate_core::testing::{FakeSource, Faults, caller, tool};
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use drawgate_host::store::{self, StorageChoice};
use serde_json::{Value, json};

use super::*;
use crate::assemble::{Runtime, RuntimeOptions, Start, StateLocation};
use crate::config::Config;
use crate::operations::NewGrant;

async fn open(faults: &Faults) -> Runtime {
    let document = json!({ "builtin": { "enabled": false }, "approvals": { "hold_seconds": 0 } });
    let loaded = Config::from_document(document).unwrap();
    let options = RuntimeOptions {
        host: Host::new(Secrets::new(BTreeMap::<String, String>::new()), None).unwrap(),
        loaded: &loaded,
        state: StateLocation::Memory,
        start: Start::Sources,
        redactor: Arc::new(ArcSwap::from_pointee(Redactor::new([]))),
        embedder: Some(Principal::new("program").unwrap()),
    };
    let opened = Runtime::open_with(options, |_, options| {
        Ok(faults.in_front_of(store::open(&StorageChoice::Memory, options)?))
    });
    opened.await.unwrap()
}

/// Declares a tool that a person must confirm, and lets a call of it ask.
async fn prepare(runtime: &Runtime) {
    let scopes = json!({ "requiresConfirmation": true, "requiredScopes": ["notes"] });
    let spec: McpToolSpec = tool("write", &scopes);
    let source = FakeSource::new("js", vec![spec], |_, _| Ok(ToolOutput::text("done")));
    let manifest = source.manifest().await.unwrap();
    runtime.declare(source, manifest).await.unwrap();
    let grant = json!({ "capability": "notes", "scope": "user:program", "lifetimeMs": null });
    let grant: NewGrant = serde_json::from_value(grant).unwrap();
    runtime.operations.issue_grant(&Principal::local(), grant).await.unwrap();
    assert_eq!(call(runtime).await, Some(ErrorCode::PermissionEscalationRequired));
}

async fn call(runtime: &Runtime) -> Option<ErrorCode> {
    let call = ToolInvocation { tool_id: "js:write".to_owned(), ..ToolInvocation::default() };
    let result = runtime.gateway().call(&caller("program"), call, CallOptions::default()).await;
    result.error.map(|error| error.code)
}

/// Whether the grant is live, and whether the approval can still be given.
fn left(runtime: &Runtime) -> (bool, bool) {
    let operations = &runtime.operations;
    let granted = operations.grants().iter().any(|grant| grant.capability.as_str() == "notes");
    (granted, operations.approvals().iter().any(|it| it.approval.state == ApprovalState::Pending))
}

async fn resets(runtime: &Runtime) -> Vec<Value> {
    let events = runtime.audit().read(0, 1000).await.unwrap();
    let events = events.iter().map(|event| serde_json::from_str::<Value>(&event.body).unwrap());
    events.filter(|event| event["kind"] == "gateway_reset").collect()
}

#[tokio::test]
async fn a_reset_whose_store_fails_at_each_step_in_turn_ends_all_or_nothing() {
    let mut failures = 0;
    for step in 0.. {
        let faults = Faults::default();
        let runtime = open(&faults).await;
        prepare(&runtime).await;
        assert_eq!(left(&runtime), (true, true));
        let reached = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&reached);
        faults.fail_if(move |number, _| {
            let fails = number == step;
            told.fetch_or(fails, Ordering::SeqCst);
            fails
        });
        let done = runtime.operations.reset(&Principal::local()).await;
        faults.heal();
        if let Ok(summary) = done {
            assert_eq!((summary.grants, summary.approvals), (1, 1));
            assert_eq!(left(&runtime), (false, false), "step {step}");
        } else {
            assert_eq!(left(&runtime), (true, true), "step {step}");
            runtime.operations.reset(&Principal::local()).await.unwrap();
        }
        runtime.operations.settle().await;
        let written = resets(&runtime).await;
        assert_eq!(written.len(), 1, "step {step}: {written:?}");
        assert_eq!(written[0]["principal"], "local");
        assert_eq!(written[0]["grantIds"].as_array().map(Vec::len), Some(1));
        assert_eq!(call(&runtime).await, Some(ErrorCode::PermissionDenied));
        runtime.close().await;
        if !reached.load(Ordering::SeqCst) {
            break;
        }
        failures += 1;
    }
    assert!(failures >= 3, "intent, store and outcome can fail: {failures}");
}
