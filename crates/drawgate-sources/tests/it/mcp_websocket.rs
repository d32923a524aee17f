//! MCP servers over `WebSocket`, good ones and hostile ones.

use std::sync::Arc;

use drawgate_core::model::ErrorCode;
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::{ProgressSink, ToolSource};
use drawgate_sources::mcp::{McpSource, SourceState};
use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use crate::plain_server::answers;
use crate::support::{code, echo, echo_with, gate, invocation, mcp, text, until};

/// How the server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Good,
    /// Chooses this subprotocol.
    Subprotocol(&'static str),
    /// Chooses none.
    NoSubprotocol,
    /// Uses an extension that was not offered.
    Extension,
    /// Answers a call with a binary message first, and with a ping whose answer it waits for.
    BinaryAndPing,
    /// Answers a call with a frame that says that it is huge.
    Oversized,
    /// Answers a call with its own message.
    Verbatim,
    /// Answers a call by closing the connection.
    Closing,
    /// Is a web server.
    Web(&'static str),
}

#[derive(Default)]
struct Reports(Mutex<Vec<Map<String, Value>>>);

impl ProgressSink for Reports {
    fn report(&self, progress: Map<String, Value>) {
        self.0.lock().push(progress);
    }
}

async fn start(mode: Mode) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
    let keys = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&keys);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(mode, stream, Arc::clone(&seen)));
        }
    });
    (url, keys)
}

async fn serve(mode: Mode, mut stream: TcpStream, keys: Arc<Mutex<Vec<String>>>) {
    if let Mode::Web(answer) = mode {
        // A request that was not read turns the end of the connection into a reset.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        return;
    }
    #[expect(clippy::result_large_err, reason = "the library's own type")]
    let agree = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        assert_eq!(request.headers()["sec-websocket-protocol"], "mcp");
        keys.lock().push(request.headers()["x-key"].to_str().unwrap().to_owned());
        let mut say = |name: &'static str, value: &str| {
            response.headers_mut().insert(name, value.parse().unwrap());
        };
        match mode {
            Mode::NoSubprotocol => {}
            Mode::Subprotocol(other) => say("sec-websocket-protocol", other),
            Mode::Extension => {
                say("sec-websocket-protocol", "mcp");
                say("sec-websocket-extensions", "permessage-deflate");
            }
            _ => say("sec-websocket-protocol", "mcp"),
        }
        Ok(response)
    };
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, agree).await.unwrap();
    while let Some(Ok(message)) = socket.next().await {
        if let Message::Text(text) = message {
            let message: Value = serde_json::from_str(&text).unwrap();
            if message["method"] == "tools/call" && mode == Mode::Verbatim {
                let words = message["params"]["arguments"]["message"].as_str().unwrap();
                let words = words.replace("ID", &message["id"].to_string());
                socket.send(Message::text(words)).await.unwrap();
                continue;
            }
            if message["method"] == "tools/call" && !before_answer(mode, &mut socket).await {
                return;
            }
            for answer in answers(&message) {
                socket.send(Message::text(answer.to_string())).await.unwrap();
            }
        }
    }
}

/// What comes before the answer to a call; `false` if none comes.
async fn before_answer(mode: Mode, socket: &mut WebSocketStream<TcpStream>) -> bool {
    match mode {
        Mode::BinaryAndPing => {
            socket.send(Message::binary(b"{}".to_vec())).await.unwrap();
            socket.send(Message::Ping(b"here?".to_vec().into())).await.unwrap();
            let pong = socket.next().await.unwrap().unwrap();
            pong == Message::Pong(b"here?".to_vec().into())
        }
        Mode::Oversized => {
            let mut head = vec![0x81, 127];
            head.extend((64 * 1024 * 1024 + 1_u64).to_be_bytes());
            socket.get_mut().write_all(&head).await.unwrap();
            // Until the client hangs up.
            while let Some(Ok(_)) = socket.next().await {}
            false
        }
        Mode::Closing => {
            let frame = CloseFrame { code: 1011.into(), reason: "overloaded".into() };
            socket.close(Some(frame)).await.unwrap();
            false
        }
        _ => true,
    }
}

fn source(url: &str) -> Arc<McpSource> {
    mcp(json!({
        "transport": "websocket", "url": url, "start_timeout_ms": 20_000, "longest_pause_ms": 5,
        "headers": { "X-Key": "k" },
    }))
}

#[tokio::test]
async fn tools_are_listed_and_called() {
    let (url, keys) = start(Mode::Good).await;
    let source = source(&url);
    let gate = gate(&source).await;
    assert_eq!(text(&echo(&gate, "grüße").await), "grüße");
    let error = echo(&gate, "refuse").await.error.unwrap();
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::ExecutionFailed, "no"));
    assert_eq!(code(&echo(&gate, "fail").await), Some(ErrorCode::ExecutionFailed));
    let reports = Arc::new(Reports::default());
    let options = CallOptions { progress: Some(reports.clone()), ..CallOptions::default() };
    assert_eq!(text(&echo_with(&gate, invocation("progress", None), options).await), "progress");
    assert_eq!(reports.0.lock().len(), 1);
    let large = "x".repeat(256 * 1024);
    assert_eq!(code(&echo(&gate, &large).await), None, "large messages pass");
    let diagnostics = source.report();
    assert_eq!((diagnostics.transport, diagnostics.state), ("websocket", SourceState::Ready));
    assert_eq!(*keys.lock(), ["k"]);
    source.close().await;
}

#[tokio::test]
async fn binary_messages_are_counted_and_pings_answered() {
    let (url, _) = start(Mode::BinaryAndPing).await;
    let source = source(&url);
    assert_eq!(text(&echo(&gate(&source).await, "hello").await), "hello");
    assert_eq!(source.report().ignored_messages, 1);
    source.close().await;
}

#[tokio::test]
async fn a_closed_connection_is_opened_again_and_its_reason_kept() {
    let (url, keys) = start(Mode::Closing).await;
    let source = source(&url);
    let gate = gate(&source).await;
    assert_eq!(code(&echo(&gate, "x").await), Some(ErrorCode::Unavailable));
    until("it is back", || {
        let report = source.report();
        report.restarts == 1 && report.state == SourceState::Ready
    })
    .await;
    let reason = source.report().last_error;
    assert_eq!(reason.as_deref(), Some("the server closed the connection: 1011 `overloaded`"));
    assert_eq!(keys.lock().len(), 2);
    source.close().await;
}

#[tokio::test]
async fn hostile_servers_are_refused_with_a_reason() {
    let subprotocol = "does not speak the WebSocket subprotocol `mcp`";
    let forged = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                  sec-websocket-accept: forged\r\nsec-websocket-protocol: mcp\r\n\r\n";
    let cases = [
        (Mode::Subprotocol("graphql"), subprotocol),
        (Mode::NoSubprotocol, subprotocol),
        (Mode::Extension, "extensions that were not offered"),
        (Mode::Web(forged), "does not open a WebSocket"),
        (Mode::Web("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"), "does not speak WebSocket"),
        (
            Mode::Web("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"),
            "credentials (HTTP 403)",
        ),
    ];
    for (mode, expected) in cases {
        let (url, _) = start(mode).await;
        let source = source(&url);
        let error = source.manifest().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{mode:?}: {error}");
        source.close().await;
    }
}

#[tokio::test]
async fn frames_are_bounded() {
    let (url, _) = start(Mode::Oversized).await;
    let source = source(&url);
    let gate = gate(&source).await;
    let error = echo(&gate, "hello").await.error.unwrap();
    assert!(error.message.contains("more than 67108864 bytes"), "{}", error.message);
    until("the connection is given up", || source.report().last_error.is_some()).await;
    source.close().await;
}

#[tokio::test]
async fn answers_that_can_not_be_read_fail_at_once() {
    let (url, _) = start(Mode::Verbatim).await;
    crate::mcp_unreadable::check(&source(&url)).await;
}
