//! MCP servers over HTTP.

use std::sync::Arc;

use drawgate_core::model::ErrorCode;
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::{ProgressSink, ToolSource};
use drawgate_sources::mcp::{McpSource, SourceState};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::http_server::{Mode, Server};
use crate::support::{code, echo, echo_with, gate, invocation, mcp, text, until};

async fn start(mode: Mode) -> (Arc<Server>, Arc<McpSource>) {
    let server = Server::start(mode).await;
    let source = mcp(json!({ "url": server.url, "headers": { "Authorization": "Bearer abc" } }));
    (server, source)
}

#[derive(Default)]
struct Reports(Mutex<Vec<Value>>);

impl ProgressSink for Reports {
    fn report(&self, progress: Map<String, Value>) {
        self.0.lock().push(Value::Object(progress));
    }
}

#[tokio::test]
async fn both_eras_and_both_forms_of_answer_work() {
    for (mode, revision) in [
        (Mode::SessionsJson, "2025-11-25"),
        (Mode::SessionsEvents, "2025-11-25"),
        (Mode::Stateless, "2026-07-28"),
    ] {
        let (server, source) = start(mode).await;
        let gate = gate(&source).await;
        for message in ["one", "two", "grüße"] {
            assert_eq!(text(&echo(&gate, message).await), message, "{mode:?}");
        }
        let diagnostics = source.report();
        assert_eq!(diagnostics.protocol_version.as_deref(), Some(revision));
        assert_eq!(diagnostics.server_name.as_deref(), Some("fixture"));
        assert!(
            server
                .seen("tools/call")
                .iter()
                .all(|seen| seen.headers["authorization"] == "Bearer abc")
        );
        source.close().await;
    }
}

#[tokio::test]
async fn every_request_of_a_session_names_it_and_the_end_gives_it_back() {
    let (server, source) = start(Mode::SessionsJson).await;
    echo(&gate(&source).await, "x").await;
    source.close().await;
    for method in ["notifications/initialized", "tools/list", "tools/call", "DELETE"] {
        let seen = server.seen(method);
        assert_eq!(seen.len(), 1, "{method}");
        assert_eq!(seen[0].headers["mcp-session-id"], "session-1", "{method}");
        assert_eq!(seen[0].headers["mcp-protocol-version"], "2025-11-25", "{method}");
    }
    assert!(!server.seen("initialize")[0].headers.contains_key("mcp-session-id"));
}

#[tokio::test]
async fn a_forgotten_session_is_renewed_once_and_the_call_succeeds() {
    let (server, source) = start(Mode::SessionsJson).await;
    let gate = gate(&source).await;
    let mut changes = source.changes().unwrap();
    server.forget_session();
    let (a, b) = tokio::join!(echo(&gate, "a"), echo(&gate, "b"));
    assert_eq!((text(&a), text(&b)), ("a", "b"));
    assert_eq!(server.seen("initialize").len(), 2, "one handshake for all who found it gone");
    changes.changed().await.unwrap();
    source.close().await;
}

#[tokio::test]
async fn arguments_are_repeated_in_the_headers_that_a_tool_asks_for() {
    let (server, source) = start(Mode::Stateless).await;
    let gate = gate(&source).await;
    let mut call = invocation("x", None);
    call.arguments.insert("region".to_owned(), "zürich".into());
    assert!(echo_with(&gate, call, CallOptions::default()).await.success);
    assert_eq!(server.seen("tools/call")[0].headers["mcp-param-region"], "=?base64?esO8cmljaA==?=");
    source.close().await;
}

#[tokio::test]
async fn what_describes_a_hop_stays_on_it() {
    let (server, source) = start(Mode::Stateless).await;
    let gate = gate(&source).await;
    let mut call = invocation("x", None);
    call.meta.insert("io.modelcontextprotocol/clientInfo".to_owned(), json!({ "name": "caller" }));
    let result = echo_with(&gate, call, CallOptions::default()).await;
    assert!(
        !result.rest.contains_key("resultType") && !result.rest.contains_key("_meta"),
        "{:?}",
        result.rest
    );
    let meta = server.seen("tools/call")[0].body["params"]["_meta"].clone();
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "drawgate");
    source.close().await;
}

#[tokio::test]
async fn progress_comes_before_the_answer() {
    let (_server, source) = start(Mode::SessionsEvents).await;
    let gate = gate(&source).await;
    let reports = Arc::new(Reports::default());
    let options = CallOptions { progress: Some(reports.clone()), ..CallOptions::default() };
    assert!(echo_with(&gate, invocation("x", None), options).await.success);
    assert_eq!(*reports.0.lock(), [json!({ "progress": 1, "total": 2 })]);
    source.close().await;
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_taken_up_again() {
    let (_server, source) = start(Mode::BrokenStream).await;
    assert_eq!(text(&echo(&gate(&source).await, "x").await), "resumed");
    source.close().await;
}

#[tokio::test]
async fn answers_that_are_none_are_errors() {
    for (mode, expected) in
        [(Mode::EndedStream, ErrorCode::Unavailable), (Mode::WrongId, ErrorCode::ExecutionFailed)]
    {
        let (_server, source) = start(mode).await;
        assert_eq!(code(&echo(&gate(&source).await, "x").await), Some(expected), "{mode:?}");
        source.close().await;
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_at_the_server() {
    let (server, source) = start(Mode::Slow).await;
    let gate = gate(&source).await;
    let result = echo_with(&gate, invocation("x", Some(2000)), CallOptions::default()).await;
    assert_eq!(code(&result), Some(ErrorCode::Timeout));
    until("the server is told", || !server.seen("notifications/cancelled").is_empty()).await;
    let (call, told) =
        (server.seen("tools/call").remove(0), server.seen("notifications/cancelled").remove(0));
    assert_eq!(told.body["params"]["requestId"], call.body["id"]);
    source.close().await;
}

#[tokio::test]
async fn announced_changes_are_passed_on() {
    let (_server, source) = start(Mode::Stateless).await;
    let mut changes = source.changes().unwrap();
    source.manifest().await.unwrap();
    changes.changed().await.unwrap();
    source.close().await;
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    for (status, expected) in [
        (401, "credentials (HTTP 401); check its `headers`"),
        (403, "credentials (HTTP 403)"),
        (302, "a redirect (HTTP 302)"),
        (400, "neither `initialize` nor `server/discover`"),
        (404, "neither `initialize` nor `server/discover`"),
        (500, "the server failed (HTTP 500)"),
    ] {
        let (_server, source) = start(Mode::Status(status)).await;
        let error = source.manifest().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{status}: {error}");
        source.close().await;
    }
}

#[tokio::test]
async fn an_address_without_a_server_is_down_and_fails_at_once() {
    // Bound, so that nobody else gets the port, and not listening.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/mcp", nobody.local_addr().unwrap());
    let source = mcp(json!({ "url": url }));
    let error = source.manifest().await.unwrap_err().to_string();
    assert!(error.starts_with("no connection to `127.0.0.1:"), "{error}");
    until("it is marked", || source.report().state == SourceState::Failed).await;
    source.close().await;
}
