//! MCP servers that are child processes.

use std::sync::Arc;

use drawgate_core::model::{ErrorCode, TraceParent};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::{ProgressSink, ToolSource};
use drawgate_sources::mcp::SourceState;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::support::{
    PATIENCE, alive, code, echo, echo_with, fixture, gate, invocation, mcp, stdio, text, until,
};

#[derive(Default)]
struct Reports(Mutex<Vec<Map<String, Value>>>);

impl ProgressSink for Reports {
    fn report(&self, progress: Map<String, Value>) {
        self.0.lock().push(progress);
    }
}

#[tokio::test]
async fn servers_that_only_look_odd_work() {
    for mode in ["echo", "split_writes", "garbage", "old_protocol", "flood_stderr"] {
        let source = stdio(mode);
        let gate = gate(&source).await;
        assert_eq!(text(&echo(&gate, "hello").await), "hello", "{mode}");
        let diagnostics = source.report();
        assert_eq!(diagnostics.state, SourceState::Ready, "{mode}");
        assert_eq!(diagnostics.server_version.as_deref(), Some("1.2.3"));
        source.close().await;
        assert_eq!(source.report().state, SourceState::Closed);
    }
}

#[tokio::test]
async fn complaints_are_kept_bounded() {
    let source = stdio("flood_stderr");
    source.manifest().await.unwrap();
    until("the last complaint is read", || {
        source.report().stderr_tail.last().is_some_and(|line| line.starts_with("complaint 49999"))
    })
    .await;
    let tail = source.report().stderr_tail;
    assert_eq!(tail.len(), 256);
    assert_eq!(source.report().stderr_lines, 50_000);
    assert!(tail.iter().all(|line| line.chars().count() <= 500));
    source.close().await;
}

#[tokio::test]
async fn answers_to_others_are_ignored_and_counted() {
    let source = stdio("wrong_id");
    let gate = gate(&source).await;
    let result = echo_with(&gate, invocation("x", Some(300)), CallOptions::default()).await;
    assert_eq!(code(&result), Some(ErrorCode::Timeout));
    until("its answer is counted", || source.report().ignored_messages == 1).await;
    source.close().await;
}

#[tokio::test]
async fn the_first_of_two_answers_wins() {
    let source = stdio("twice");
    let gate = gate(&source).await;
    assert_eq!(text(&echo(&gate, "x").await), "first");
    assert_eq!(text(&echo(&gate, "x").await), "first");
    until("the second answers are counted", || source.report().ignored_messages == 2).await;
    source.close().await;
}

#[tokio::test]
async fn errors_of_the_protocol_become_failures() {
    let both = stdio("error_and_result");
    let result = echo(&gate(&both).await, "x").await;
    assert_eq!(code(&result), Some(ErrorCode::ExecutionFailed));
    let refused = stdio("rpc_error");
    let error = echo(&gate(&refused).await, "x").await.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::ExecutionFailed, "bad"));
    assert_eq!(error.details, Some(json!({ "code": -32602, "data": { "why": 1 } })));
    both.close().await;
    refused.close().await;
}

#[tokio::test]
async fn a_server_that_exits_fails_its_calls_and_comes_back() {
    let source = stdio("exit_mid_call");
    let gate = gate(&source).await;
    let mut changes = source.changes().unwrap();
    let (a, b) = tokio::join!(echo(&gate, "a"), echo(&gate, "b"));
    for result in [a, b] {
        assert_eq!(code(&result), Some(ErrorCode::Unavailable), "{result:?}");
    }
    // One change for the loss, one for the return.
    changes.changed().await.unwrap();
    // The second call may have met the server that followed, and ended that one too.
    until("it is back", || {
        let report = source.report();
        report.state == SourceState::Ready && report.restarts >= 1
    })
    .await;
    assert_eq!(source.manifest().await.unwrap().tools.len(), 1);
    source.close().await;
}

#[tokio::test]
async fn a_server_that_never_starts_says_why_at_once() {
    let source = stdio("exit_at_start");
    let error = source.manifest().await.unwrap_err().to_string();
    let why = "the server exited with code 3; its last line of stderr: cannot find my database";
    assert_eq!(error, why);
    // It may have been the question for its era that ended it, so that it is started once more.
    let complaint = "cannot find my database";
    until("the complaints are read", || source.report().stderr_tail == [complaint; 2]).await;
    let diagnostics = source.report();
    assert_eq!(diagnostics.last_error.as_deref(), Some(why));
    assert_eq!(diagnostics.pid, None);
    source.close().await;
}

#[tokio::test]
async fn a_failed_first_start_is_followed_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("started").display().to_string();
    let source = mcp(
        json!({ "command": "python3", "args": [fixture("mcp_server.py"), "thrice_started", state] }),
    );
    let mut changes = source.changes().unwrap();
    assert!(source.manifest().await.is_err());
    changes.changed().await.unwrap();
    assert_eq!(source.manifest().await.unwrap().name, "misbehaving");
    source.close().await;
}

#[tokio::test]
async fn a_hanging_start_fails_and_leaves_nothing() {
    let source = mcp(json!({
        "command": "python3", "args": [fixture("mcp_server.py"), "hang_at_start"], "start_timeout_ms": 300,
    }));
    let asked = tokio::spawn({
        let source = Arc::clone(&source);
        async move { source.manifest().await }
    });
    until("it has a process", || source.report().pid.is_some()).await;
    let group = source.report().pid.unwrap();
    let error = asked.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("within 300 ms"), "{error}");
    until("the process is gone", || alive(group) == 0).await;
    source.close().await;
}

#[tokio::test]
async fn revisions_that_are_not_spoken_are_refused() {
    let source = stdio("future_protocol");
    let error = source.manifest().await.unwrap_err().to_string();
    assert!(error.contains("`2031-01-01`"), "{error}");
    source.close().await;
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let source = mcp(json!({ "command": "no-such-program" }));
    let error = source.manifest().await.unwrap_err().to_string();
    assert!(error.contains("`no-such-program`"), "{error}");
    source.close().await;
}

#[tokio::test]
async fn lists_have_pages_and_an_end() {
    let source = stdio("pages");
    let names: Vec<String> =
        source.manifest().await.unwrap().tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["echo", "echo1", "echo2"]);
    let endless = stdio("endless_pages");
    assert_eq!(endless.manifest().await.unwrap().tools.len(), 0);
    let cut = &endless.report().left_out[0];
    assert!(cut.reason.contains("the rest is left out"), "{cut:?}");
    source.close().await;
    endless.close().await;
}

#[tokio::test]
async fn a_server_with_too_many_tools_keeps_the_first_ones() {
    let source = stdio("too_many");
    assert_eq!(source.manifest().await.unwrap().tools.len(), 5_000);
    let left_out = source.report().left_out;
    assert_eq!(left_out.len(), 1);
    assert_eq!(left_out[0].tool, "tools/list");
    assert!(left_out[0].reason.contains("more than 5000 tools"), "{left_out:?}");
    source.close().await;
}

#[tokio::test]
async fn a_slow_list_of_resources_does_not_hold_up_tools() {
    let source = stdio("slow_resources");
    let first = source.manifest().await.unwrap();
    assert_eq!(first.tools.len(), 1);
    assert!(first.offer.pending && first.offer.resources.is_empty(), "{:?}", first.offer);
    let gate = gate(&source).await;
    let mut changes = source.changes().unwrap();
    changes.mark_unchanged();
    assert_eq!(text(&echo(&gate, "release").await), "release");
    tokio::time::timeout(PATIENCE, changes.changed()).await.expect("the list comes").unwrap();
    let second = source.manifest().await.unwrap();
    assert!(!second.offer.pending);
    assert_eq!(second.offer.resources, [json!({ "uri": "x://1", "name": "one" })]);
    source.close().await;
}

#[tokio::test]
async fn a_server_that_does_not_read_blocks_nobody_for_longer_than_its_deadline() {
    let source = stdio("stdin_not_read");
    let gate = gate(&source).await;
    assert_eq!(text(&echo(&gate, "stop").await), "stopped");
    let large = "x".repeat(256 * 1024);
    let options = CallOptions::default;
    let (a, b) = tokio::join!(
        echo_with(&gate, invocation(&large, Some(300)), options()),
        echo_with(&gate, invocation("small", Some(300)), options()),
    );
    assert_eq!((code(&a), code(&b)), (Some(ErrorCode::Timeout), Some(ErrorCode::Timeout)));
    let other = stdio("echo");
    assert_eq!(text(&echo(&crate::support::gate(&other).await, "fine").await), "fine");
    other.close().await;
    drop(source);
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_server() {
    let source = stdio("slow");
    let gate = gate(&source).await;
    let result = echo_with(&gate, invocation("x", Some(2000)), CallOptions::default()).await;
    assert_eq!(code(&result), Some(ErrorCode::Timeout));
    // The server lists a tool that is named after the request that was cancelled.
    let name = source.manifest().await.unwrap().tools[0].name.clone();
    assert!(name.starts_with("cancelled_"), "{name}");
    source.close().await;
}

#[tokio::test]
async fn progress_is_thinned_and_has_no_token() {
    let source = stdio("progress_flood");
    let gate = gate(&source).await;
    let reports = Arc::new(Reports::default());
    let options = CallOptions { progress: Some(reports.clone()), ..CallOptions::default() };
    assert_eq!(text(&echo_with(&gate, invocation("done", None), options).await), "done");
    let reports = reports.0.lock().clone();
    assert!((1..1000).contains(&reports.len()), "{} reports", reports.len());
    assert_eq!(reports.last().map(|report| &report["progress"]), Some(&json!(19_999)), "the last");
    assert_eq!(Value::Object(reports[0].clone()), json!({ "progress": 0 }));
    source.close().await;
}

#[tokio::test]
async fn a_server_may_ping_but_not_ask() {
    let source = stdio("server_request");
    let result = echo(&gate(&source).await, "x").await;
    let replies: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(replies[0]["error"]["code"], -32601);
    assert_eq!(replies[1], json!({ "jsonrpc": "2.0", "id": "s2", "result": {} }));
    source.close().await;
}

#[tokio::test]
async fn metadata_and_trace_reach_the_server() {
    let source = stdio("meta");
    let gate = gate(&source).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut call = invocation("x", None);
    call.meta.insert("vendor/key".to_owned(), json!(7));
    let options = CallOptions { trace: TraceParent::parse(trace), ..CallOptions::default() };
    let result = echo_with(&gate, call, options).await;
    let seen: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(seen, json!({ "vendor/key": 7, "traceparent": trace }));
    source.close().await;
}

#[tokio::test]
async fn announced_changes_are_passed_on() {
    let source = stdio("announce");
    let gate = gate(&source).await;
    let mut changes = source.changes().unwrap();
    echo(&gate, "x").await;
    changes.changed().await.unwrap();
    source.close().await;
}

#[tokio::test]
async fn closing_ends_the_whole_tree() {
    for mode in ["echo", "grandchildren", "ignores_stdin_close"] {
        let source = stdio(mode);
        source.manifest().await.unwrap();
        let group = source.report().pid.unwrap();
        assert!(alive(group) > 0);
        source.close().await;
        until(mode, || alive(group) == 0).await;
        assert!(source.manifest().await.is_err(), "a closed source stays closed");
    }
}

#[tokio::test]
async fn dropping_the_source_ends_the_whole_tree() {
    let source = stdio("grandchildren");
    source.manifest().await.unwrap();
    let group = source.report().pid.unwrap();
    drop(source);
    until("all are gone", || alive(group) == 0).await;
}
