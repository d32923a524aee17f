//! What the tests share: a gate with one source, and a look at the processes of this machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::{ErrorCode, SourceId, ToolInvocation, ToolResult};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::ToolSource;
use drawgate_core::testing::{TestGate, caller};
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use drawgate_sources::mcp::McpSource;
use serde_json::{Value, json};

/// Longer than anything here takes; only a failure waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) fn host() -> Arc<Host> {
    let environment =
        BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    Arc::new(Host::new(Secrets::new(environment), None).unwrap())
}

pub(crate) fn id() -> SourceId {
    SourceId::new("up").unwrap()
}

pub(crate) fn mcp(config: Value) -> Arc<McpSource> {
    Arc::new(McpSource::new(id(), serde_json::from_value(config).unwrap(), &host()).unwrap())
}

pub(crate) fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The misbehaving server in one of its modes.
pub(crate) fn stdio(mode: &str) -> Arc<McpSource> {
    mcp(stdio_config(mode))
}

pub(crate) fn stdio_config(mode: &str) -> Value {
    json!({ "command": "python3", "args": [fixture("mcp_server.py"), mode], "start_timeout_ms": 60_000 })
}

/// A gate where `ann` may call everything of one source.
pub(crate) async fn gate(source: &Arc<impl ToolSource>) -> TestGate {
    let gate = TestGate::new().await;
    gate.grant("ann", "*", None).await;
    let registered = gate.register(Arc::clone(source) as Arc<dyn ToolSource>).await;
    assert_eq!(registered.unwrap(), []);
    gate
}

pub(crate) fn invocation(message: &str, timeout_ms: Option<u64>) -> ToolInvocation {
    let mut call =
        ToolInvocation { tool_id: "up:echo".to_owned(), timeout_ms, ..ToolInvocation::default() };
    call.request_id.push('r');
    call.arguments.insert("message".to_owned(), message.into());
    call
}

pub(crate) async fn echo_with(
    gate: &TestGate,
    call: ToolInvocation,
    options: CallOptions,
) -> ToolResult {
    let ann = caller("ann");
    let work = gate.gateway.call(&ann, call, options);
    tokio::time::timeout(PATIENCE, work).await.expect("a call ends")
}

pub(crate) async fn echo(gate: &TestGate, message: &str) -> ToolResult {
    echo_with(gate, invocation(message, None), CallOptions::default()).await
}

pub(crate) fn text(result: &ToolResult) -> &str {
    result.content.first().and_then(|block| block["text"].as_str()).unwrap_or_default()
}

pub(crate) fn code(result: &ToolResult) -> Option<ErrorCode> {
    result.error.as_ref().map(|error| error.code)
}

pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let wait = async {
        while !condition() {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never happened: {what}"));
}

/// Members of a process group that have not ended.
pub(crate) fn alive(group: u32) -> usize {
    let stat = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let member = |stat: String| {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let (state, its_group) = (*fields.first()?, fields.get(2)?.parse::<u32>().ok()?);
        (its_group == group && state != "Z" && state != "X").then_some(())
    };
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries.filter_map(|entry| stat(entry.file_name().to_str()?)).filter_map(member).count()
}
