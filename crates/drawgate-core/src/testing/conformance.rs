//! What every kind of source owes, checked through a real gate.
//!
//! A kind hands in three instances. The suite calls a tool of the working one, lets the slow
//! one run into its deadline, and expects the broken one to fail with a clear error, while the gate
//! and its audit log stay whole.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::TestGate;
use crate::model::{ErrorCode, ToolInvocation};
use crate::pipeline::CallOptions;
use crate::source::ToolSource;

/// The instances of one kind. Each offers a tool named `tool`.
pub struct Instances {
    /// The tool's name.
    pub tool: &'static str,
    /// The tool's arguments for a message.
    pub arguments: fn(&str) -> Value,
    /// Answers with text that holds the message.
    pub working: Arc<dyn ToolSource>,
    /// Offers the tool, and never answers.
    pub slow: Option<Arc<dyn ToolSource>>,
    /// Can't describe its tools, or fails each call.
    pub broken: Arc<dyn ToolSource>,
}

/// Runs the suite; panics where a duty is not met.
pub async fn check_source(instances: Instances) {
    let Instances { tool, arguments, working, slow, broken } = instances;
    check_working(tool, arguments, working).await;
    if let Some(slow) = slow {
        check_slow(tool, arguments, slow).await;
    }
    check_broken(tool, arguments, broken).await;
}

async fn check_working(tool: &str, arguments: fn(&str) -> Value, source: Arc<dyn ToolSource>) {
    let gate = TestGate::new().await;
    gate.grant("ann", "*", None).await;
    let first = source.manifest().await.unwrap_or_else(|error| panic!("manifest: {error}"));
    let second = source.manifest().await.unwrap_or_else(|error| panic!("manifest: {error}"));
    assert_eq!(first, second, "a manifest must be the same each time");
    assert_eq!(&first.server_id, source.id(), "a manifest names its source");
    let bad = gate.register(Arc::clone(&source)).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(bad, [], "all tools of a working source register");
    let id = format!("{}:{tool}", source.id());
    let result = gate.call("ann", &id, arguments("conformance 7319")).await;
    let text = serde_json::to_string(&result.content).unwrap_or_default();
    assert!(result.success, "the tool answers: {:?}", result.error);
    assert!(text.contains("conformance 7319"), "the answer holds the message: {text}");
    let calls = (0..16).map(|index| {
        let (gateway, id) = (gate.gateway.clone(), id.clone());
        tokio::spawn(async move {
            let mut call =
                ToolInvocation { tool_id: id, request_id: "same".to_owned(), ..Default::default() };
            call.arguments = object(arguments(&format!("number {index} end")));
            let result = gateway.call(&super::caller("ann"), call, CallOptions::default()).await;
            let text = serde_json::to_string(&result.content).unwrap_or_default();
            assert!(
                text.contains(&format!("number {index} end")),
                "answers are not crossed: {text}"
            );
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap_or_else(|error| panic!("{error}"));
    }
    source.close().await;
    assert_pairs(&gate, 17).await;
}

async fn check_slow(tool: &str, arguments: fn(&str) -> Value, source: Arc<dyn ToolSource>) {
    let gate = TestGate::new().await;
    gate.grant("ann", "*", None).await;
    gate.register(Arc::clone(&source)).await.unwrap_or_else(|error| panic!("{error}"));
    let mut call = ToolInvocation {
        tool_id: format!("{}:{tool}", source.id()),
        request_id: "slow".to_owned(),
        timeout_ms: Some(200),
        ..Default::default()
    };
    call.arguments = object(arguments("x"));
    let result =
        gate.gateway.call(&super::caller("ann"), call.clone(), CallOptions::default()).await;
    assert_eq!(
        result.error.map(|error| error.code),
        Some(ErrorCode::Timeout),
        "a slow tool times out"
    );
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    call.timeout_ms = None;
    let gateway = gate.gateway.clone();
    let running =
        tokio::spawn(async move { gateway.call(&super::caller("ann"), call, options).await });
    while gate.gateway.under_way() == 0 {
        tokio::task::yield_now().await;
    }
    cancel.cancel();
    let result = tokio::time::timeout(Duration::from_secs(10), running).await;
    let result = result
        .unwrap_or_else(|_| panic!("a cancelled call ends"))
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(result.error.map(|error| error.code), Some(ErrorCode::Cancelled));
    source.close().await;
    assert_pairs(&gate, 2).await;
}

async fn check_broken(tool: &str, arguments: fn(&str) -> Value, source: Arc<dyn ToolSource>) {
    let gate = TestGate::new().await;
    gate.grant("ann", "*", None).await;
    if let Err(error) = gate.register(Arc::clone(&source)).await {
        assert!(!error.to_string().is_empty(), "a broken source says why");
    } else {
        let id = format!("{}:{tool}", source.id());
        let result = gate.call("ann", &id, arguments("x")).await;
        let error = result.error.unwrap_or_else(|| panic!("a broken source fails its calls"));
        assert!(!error.message.is_empty());
        assert_pairs(&gate, 1).await;
    }
    source.close().await;
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => panic!("arguments are an object"),
    }
}

/// Every call has exactly one outcome.
async fn assert_pairs(gate: &TestGate, calls: usize) {
    let events = gate.events().await;
    let outcomes: Vec<_> =
        events.iter().filter(|event| event.kind == crate::audit::EventKind::Outcome).collect();
    assert_eq!(outcomes.len(), calls, "one outcome per call");
}
