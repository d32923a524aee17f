//! MCP servers for each transport that write down everything that they are sent.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, Method, StatusCode, Uri};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{
    ErrorResponse, Request, Response as Agreed,
};

/// What the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// HTTP with sessions.
    Http,
    /// HTTP by revision 2026-07-28.
    Stateless,
    Sse,
    Websocket,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Http, Self::Stateless, Self::Sse, Self::Websocket];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stateless => "stateless",
            Self::Sse => "sse",
            Self::Websocket => "websocket",
        }
    }

    const fn transport(self) -> &'static str {
        match self {
            Self::Http | Self::Stateless => "streamable_http",
            Self::Sse => "sse",
            Self::Websocket => "websocket",
        }
    }
}

/// A server and what it has seen.
pub(super) struct Recorder {
    kind: Kind,
    address: String,
    seen: Mutex<Vec<String>>,
    /// The one stream of a server of the older transport.
    stream: Mutex<Option<mpsc::UnboundedSender<String>>>,
}

impl Recorder {
    pub(super) async fn start(kind: Kind) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (seen, stream) = (Mutex::default(), Mutex::default());
        let recorder = Arc::new(Self { kind, address, seen, stream });
        let shared = Arc::clone(&recorder);
        if kind == Kind::Websocket {
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(Arc::clone(&shared).socket(stream));
                }
            });
        } else {
            let router = Router::new().fallback(handle).with_state(shared);
            tokio::spawn(async move { axum::serve(listener, router).await });
        }
        recorder
    }

    /// The server in a configuration, with a credential of its own.
    pub(super) fn config(&self, credential: &str) -> String {
        let scheme = if self.kind == Kind::Websocket { "ws" } else { "http" };
        format!(
            "[servers.{}]\ntransport = \"{}\"\nurl = \"{scheme}://{}/mcp\"\nheaders = {{ X-Own = \"{credential}\" }}\n",
            self.kind.name(),
            self.kind.transport(),
            self.address
        )
    }

    /// Everything that came, one request or message each.
    pub(super) fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }

    fn note(&self, seen: String) {
        self.seen.lock().push(seen);
    }

    async fn socket(self: Arc<Self>, stream: TcpStream) {
        #[expect(clippy::result_large_err, reason = "the library's own type")]
        let agree = |request: &Request, mut agreed: Agreed| -> Result<Agreed, ErrorResponse> {
            self.note(format!("{} {:?}", request.uri(), request.headers()));
            agreed.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
            Ok(agreed)
        };
        let mut socket = tokio_tungstenite::accept_hdr_async(stream, agree).await.unwrap();
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            self.note(text.to_string());
            if let Some(answer) = self.answer(&serde_json::from_str(&text).unwrap()) {
                socket.send(Message::text(answer.to_string())).await.unwrap();
            }
        }
    }

    fn answer(&self, message: &Value) -> Option<Value> {
        let id = message.get("id")?;
        let about = json!({ "name": "recorder", "version": "1" });
        let result = match (message["method"].as_str()?, self.kind) {
            ("server/discover", Kind::Stateless) => {
                json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } })
            }
            ("initialize", kind) if kind != Kind::Stateless => {
                json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": about })
            }
            ("tools/list", _) => {
                json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] })
            }
            ("tools/call", _) => {
                let said = message["params"]["arguments"].to_string();
                json!({ "content": [{ "type": "text", "text": said }] })
            }
            _ => {
                let error = json!({ "code": -32601, "message": "unknown method" });
                return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        };
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }

    fn open_stream(&self) -> Response {
        let (sender, receiver) = mpsc::unbounded_channel();
        sender.send("event: endpoint\ndata: /messages\n\n".to_owned()).unwrap();
        *self.stream.lock() = Some(sender);
        let events = futures_util::stream::unfold(receiver, async |mut receiver| {
            receiver.recv().await.map(|text| (Ok::<_, Infallible>(text), receiver))
        });
        ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
    }
}

async fn handle(
    State(recorder): State<Arc<Recorder>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    recorder.note(format!("{method} {uri} {headers:?} {}", String::from_utf8_lossy(&body)));
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = recorder.answer(&message);
    match (recorder.kind, method) {
        (Kind::Sse, Method::GET) => recorder.open_stream(),
        (_, Method::GET | Method::DELETE) => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        (Kind::Sse, _) => {
            if let (Some(answer), Some(stream)) = (answer, recorder.stream.lock().as_ref()) {
                stream.send(format!("event: message\ndata: {answer}\n\n")).unwrap();
            }
            StatusCode::ACCEPTED.into_response()
        }
        (kind, _) => match answer {
            None => StatusCode::ACCEPTED.into_response(),
            Some(answer) => {
                let unknown = kind == Kind::Stateless && answer.get("error").is_some();
                let status = if unknown { StatusCode::NOT_FOUND } else { StatusCode::OK };
                let headers = [("content-type", "application/json")];
                let mut response = (status, headers, answer.to_string()).into_response();
                if kind == Kind::Http && message["method"] == "initialize" {
                    let session = "up-session".parse().unwrap();
                    response.headers_mut().insert("mcp-session-id", session);
                }
                response
            }
        },
    }
}
