//! MCP servers over HTTP with server-sent events, good ones and hostile ones.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use drawgate_core::model::ErrorCode;
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::{ProgressSink, ToolSource};
use drawgate_sources::mcp::{McpSource, SourceState};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::plain_server::answers;
use crate::support::{code, echo, echo_with, gate, invocation, mcp, text, until};

/// How the server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Good,
    /// Names an endpoint on another origin.
    OtherOrigin,
    /// Opens the stream and says nothing.
    Silent,
    /// Ends the stream at once.
    Ended,
    /// Answers a call with a message without end.
    Oversized,
    /// Answers messages with this status.
    Posts(u16),
    /// Answers everything with this status.
    Status(u16),
    /// Answers with something that is no stream.
    NoStream,
}

struct Server {
    mode: Mode,
    url: String,
    stream: Mutex<Option<mpsc::Sender<String>>>,
    posts: Mutex<Vec<(String, HeaderMap)>>,
}

#[derive(Default)]
struct Reports(Mutex<Vec<Map<String, Value>>>);

impl ProgressSink for Reports {
    fn report(&self, progress: Map<String, Value>) {
        self.0.lock().push(progress);
    }
}

impl Server {
    async fn start(mode: Mode) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/sse", listener.local_addr().unwrap());
        let (stream, posts) = (Mutex::default(), Mutex::default());
        let server = Arc::new(Self { mode, url, stream, posts });
        let router = Router::new().fallback(handle).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    fn source(&self) -> Arc<McpSource> {
        self.source_with(&json!({ "start_timeout_ms": 20_000 }))
    }

    fn source_with(&self, more: &Value) -> Arc<McpSource> {
        let mut config = json!({
            "transport": "sse", "url": self.url, "longest_pause_ms": 5, "headers": { "X-Key": "k" },
        });
        for (key, value) in more.as_object().unwrap() {
            config[key] = value.clone();
        }
        mcp(config)
    }

    async fn say(&self, text: String) {
        let stream = self.stream.lock().clone();
        // It fails when the client has hung up.
        let _ = stream.unwrap().send(text).await;
    }

    fn hang_up(&self) {
        *self.stream.lock() = None;
    }
}

fn status(code: u16) -> Response {
    Response::builder().status(StatusCode::from_u16(code).unwrap()).body(Body::empty()).unwrap()
}

async fn handle(
    State(server): State<Arc<Server>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match (server.mode, method) {
        (Mode::Status(code), _) => status(code),
        (Mode::NoStream, _) => Response::new(Body::from("{}")),
        (_, Method::GET) => open(&server, &headers),
        (Mode::Posts(code), _) => status(code),
        (_, _) => {
            server.posts.lock().push((uri.to_string(), headers));
            let message: Value = serde_json::from_slice(&body).unwrap();
            if server.mode == Mode::Oversized && message["method"] == "tools/call" {
                flood(&server);
                return status(202);
            }
            for answer in answers(&message) {
                server.say(format!("event: message\ndata: {answer}\n\n")).await;
            }
            status(202)
        }
    }
}

fn open(server: &Arc<Server>, headers: &HeaderMap) -> Response {
    assert_eq!(headers["accept"], "text/event-stream");
    assert_eq!(headers["x-key"], "k");
    let (sender, receiver) = mpsc::channel(64);
    let first = match server.mode {
        Mode::OtherOrigin => "event: endpoint\ndata: http://127.0.0.1:1/messages\n\n",
        Mode::Silent => ": nothing\n\n",
        _ => "event: endpoint\ndata: /messages?session_id=7\n\n",
    };
    sender.try_send(first.to_owned()).unwrap();
    if server.mode != Mode::Ended {
        *server.stream.lock() = Some(sender);
    }
    let stream = futures_util::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|text| (Ok::<_, Infallible>(text), receiver))
    });
    let mut response = Response::new(Body::from_stream(stream));
    response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
    response
}

fn flood(server: &Arc<Server>) {
    let server = Arc::clone(server);
    tokio::spawn(async move {
        server.say("data: ".to_owned()).await;
        let stream = server.stream.lock().clone().unwrap();
        while stream.send("x".repeat(1024 * 1024)).await.is_ok() {}
    });
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    let server = Server::start(Mode::Good).await;
    let source = server.source();
    let gate = gate(&source).await;
    assert_eq!(text(&echo(&gate, "hello").await), "hello");
    let error = echo(&gate, "refuse").await.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::ExecutionFailed, "no"));
    assert_eq!(code(&echo(&gate, "fail").await), Some(ErrorCode::ExecutionFailed));
    let reports = Arc::new(Reports::default());
    let options = CallOptions { progress: Some(reports.clone()), ..CallOptions::default() };
    assert_eq!(text(&echo_with(&gate, invocation("progress", None), options).await), "progress");
    assert_eq!(reports.0.lock().len(), 1);
    let diagnostics = source.report();
    assert_eq!((diagnostics.transport, diagnostics.state), ("sse", SourceState::Ready));
    assert_eq!(diagnostics.protocol_version.as_deref(), Some("2024-11-05"));
    for (uri, headers) in server.posts.lock().iter() {
        assert_eq!(uri, "/messages?session_id=7");
        assert_eq!(headers["x-key"], "k");
        assert_eq!(headers["content-type"], "application/json");
    }
    source.close().await;
    until("the stream is closed", || {
        server.stream.lock().as_ref().is_some_and(mpsc::Sender::is_closed)
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_ends_is_opened_again() {
    let server = Server::start(Mode::Good).await;
    let source = server.source();
    let gate = gate(&source).await;
    server.hang_up();
    until("it is back", || {
        source.report().restarts == 1 && source.report().state == SourceState::Ready
    })
    .await;
    let ended = source.report().last_error;
    assert_eq!(ended.as_deref(), Some("the server ended its event stream"));
    assert_eq!(text(&echo(&gate, "again").await), "again");
    source.close().await;
}

#[tokio::test]
async fn hostile_servers_are_refused_with_a_reason() {
    let cases = [
        (Mode::OtherOrigin, "`http://127.0.0.1:1/messages`, which is not an address of its own"),
        (Mode::Silent, "no event `endpoint` came"),
        (Mode::Ended, "ended its event stream"),
        (Mode::Status(401), "credentials (HTTP 401)"),
        (Mode::Status(500), "the server failed (HTTP 500)"),
        (Mode::Status(302), "a redirect (HTTP 302)"),
        (Mode::NoStream, "is no event stream"),
        (Mode::Posts(404), "has forgotten the connection"),
        (Mode::Posts(500), "the server failed (HTTP 500)"),
    ];
    for (mode, expected) in cases {
        let server = Server::start(mode).await;
        let wait = if mode == Mode::Silent { 1000 } else { 20_000 };
        let source = server.source_with(&json!({ "start_timeout_ms": wait }));
        let error = source.manifest().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{mode:?}: {error}");
        source.close().await;
    }
}

#[tokio::test]
async fn messages_are_bounded() {
    let server = Server::start(Mode::Oversized).await;
    let source = server.source();
    let gate = gate(&source).await;
    let error = echo(&gate, "hello").await.error.unwrap();
    assert!(error.message.contains("more than 67108864 bytes"), "{}", error.message);
    until("the stream is given up", || source.report().last_error.is_some()).await;
    source.close().await;
}
