//! An MCP server over HTTP, in both eras, which remembers what it was sent.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// How the server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Revision 2025-11-25, answers as JSON.
    SessionsJson,
    /// The same, answers as event streams, with progress before the answer.
    SessionsEvents,
    /// Revision 2026-07-28.
    Stateless,
    /// A stream that ends without an answer, which comes when the stream is taken up again.
    BrokenStream,
    /// A stream that ends without an answer, for good.
    EndedStream,
    /// Calls are never answered.
    Slow,
    /// Calls are answered with their own message, as JSON.
    VerbatimJson,
    /// The same, in an event of a stream that stays open.
    VerbatimEvents,
    /// Calls are answered with another id.
    WrongId,
    /// Everything is answered with this status.
    Status(u16),
}

#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

pub(crate) struct Server {
    mode: Mode,
    pub(crate) url: String,
    seen: Mutex<Vec<Seen>>,
    session: Mutex<u32>,
}

impl Server {
    pub(crate) async fn start(mode: Mode) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = Arc::new(Self { mode, url, seen: Mutex::default(), session: Mutex::new(1) });
        let router = Router::new().fallback(handle).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    /// Requests of an MCP method, or of an HTTP method if there is no body.
    pub(crate) fn seen(&self, method: &str) -> Vec<Seen> {
        let wanted = |seen: &&Seen| seen.body["method"] == method || seen.method.as_str() == method;
        self.seen.lock().iter().filter(wanted).cloned().collect()
    }

    /// Makes the server forget its session.
    pub(crate) fn forget_session(&self) {
        *self.session.lock() += 1;
    }

    fn session(&self) -> String {
        format!("session-{}", self.session.lock())
    }
}

async fn handle(
    State(server): State<Arc<Server>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let seen = Seen { method: method.clone(), headers: headers.clone(), body: body.clone() };
    server.seen.lock().push(seen);
    match server.mode {
        Mode::Status(code) => {
            reply(StatusCode::from_u16(code).unwrap(), "text/plain", String::new())
        }
        Mode::Stateless => stateless(&headers, &body),
        _ if method == Method::GET => resumed(&headers),
        _ => sessions(&server, &headers, &body).await,
    }
}

fn reply(status: StatusCode, media: &str, body: String) -> Response {
    Response::builder().status(status).header("content-type", media).body(Body::from(body)).unwrap()
}

fn json_reply(status: StatusCode, message: &Value) -> Response {
    reply(status, "application/json", message.to_string())
}

fn event(id: Option<&str>, message: &Value) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}data: {message}\n\n")
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn resumed(headers: &HeaderMap) -> Response {
    let Some(request) = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.strip_prefix("event-")?.parse().ok())
    else {
        return reply(StatusCode::METHOD_NOT_ALLOWED, "text/plain", String::new());
    };
    let request: u64 = request;
    let answer = json!({ "jsonrpc": "2.0", "id": request, "result": { "content": [{ "type": "text", "text": "resumed" }] } });
    reply(StatusCode::OK, "text/event-stream", event(None, &answer))
}

async fn sessions(server: &Server, headers: &HeaderMap, body: &Value) -> Response {
    let id = &body["id"];
    let session = server.session();
    if body["method"] == "initialize" {
        let result = json!({
            "protocolVersion": body["params"]["protocolVersion"],
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "fixture", "version": "1" },
        });
        let mut response =
            json_reply(StatusCode::OK, &json!({ "jsonrpc": "2.0", "id": id, "result": result }));
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        return response;
    }
    if headers.get("mcp-session-id").and_then(|value| value.to_str().ok()) != Some(&session) {
        return json_reply(
            StatusCode::NOT_FOUND,
            &error(&Value::Null, -32001, "Session not found"),
        );
    }
    match (id.is_null(), server.mode) {
        (true, _) => reply(StatusCode::ACCEPTED, "text/plain", String::new()),
        (false, mode) if body["method"] == "tools/call" => answer_call(mode, body).await,
        (false, _) => json_reply(
            StatusCode::OK,
            &json!({ "jsonrpc": "2.0", "id": id, "result": result(body) }),
        ),
    }
}

async fn answer_call(mode: Mode, body: &Value) -> Response {
    let id = &body["id"];
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result(body) });
    match mode {
        Mode::SessionsEvents => {
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": body["params"]["_meta"]["progressToken"], "progress": 1, "total": 2,
            } });
            let events = event(None, &progress) + &event(None, &answer);
            reply(StatusCode::OK, "text/event-stream", events)
        }
        Mode::BrokenStream => {
            let events = format!("retry: 1\nid: event-{id}\ndata:\n\n");
            reply(StatusCode::OK, "text/event-stream", events)
        }
        Mode::EndedStream => reply(StatusCode::OK, "text/event-stream", ": nothing\n\n".to_owned()),
        Mode::Slow => std::future::pending().await,
        Mode::VerbatimJson => reply(StatusCode::OK, "application/json", verbatim(body)),
        Mode::VerbatimEvents => {
            let event = Ok::<_, std::convert::Infallible>(format!("data: {}\n\n", verbatim(body)));
            let open = stream::iter([event]).chain(stream::pending());
            let response = Response::builder().header("content-type", "text/event-stream");
            response.body(Body::from_stream(open)).unwrap()
        }
        Mode::WrongId => {
            json_reply(StatusCode::OK, &json!({ "jsonrpc": "2.0", "id": 123_456, "result": {} }))
        }
        Mode::SessionsJson | Mode::Stateless | Mode::Status(_) => {
            json_reply(StatusCode::OK, &answer)
        }
    }
}

fn verbatim(body: &Value) -> String {
    let message = body["params"]["arguments"]["message"].as_str().unwrap_or_default();
    message.replace("ID", &body["id"].to_string())
}

fn result(body: &Value) -> Value {
    if body["method"] == "tools/list" {
        let properties = json!({ "message": { "type": "string" }, "region": { "type": "string", "x-mcp-header": "Region" } });
        let schema = json!({ "type": "object", "properties": properties });
        return json!({ "tools": [{ "name": "echo", "description": "answers", "inputSchema": schema }] });
    }
    json!({ "content": [{ "type": "text", "text": body["params"]["arguments"]["message"] }] })
}

/// Refuses whatever the revision says must be refused.
fn stateless(headers: &HeaderMap, body: &Value) -> Response {
    const PREFIX: &str = "io.modelcontextprotocol/";
    let (id, meta) = (&body["id"], &body["params"]["_meta"]);
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let refuse = |code, message| json_reply(StatusCode::BAD_REQUEST, &error(id, code, message));
    if !meta.is_object() || !meta[format!("{PREFIX}clientCapabilities")].is_object() {
        return refuse(-32602, "missing _meta");
    }
    let wanted = [
        ("mcp-protocol-version", &meta[format!("{PREFIX}protocolVersion")]),
        ("mcp-method", &body["method"]),
    ];
    if wanted.iter().any(|(name, value)| *value != header(name))
        || headers.contains_key("mcp-session-id")
    {
        return refuse(-32020, "HeaderMismatch");
    }
    if body["method"] == "tools/call" && body["params"]["name"] != header("mcp-name") {
        return refuse(-32020, "HeaderMismatch: Mcp-Name");
    }
    let mut result = match body["method"].as_str().unwrap_or_default() {
        "server/discover" => {
            json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": { "listChanged": true } } })
        }
        "tools/list" | "tools/call" => result(body),
        "subscriptions/listen" => {
            let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {} });
            let first = event(None, &changed);
            return reply(StatusCode::OK, "text/event-stream", first);
        }
        _ => return json_reply(StatusCode::NOT_FOUND, &error(id, -32601, "Method not found")),
    };
    result["resultType"] = json!("complete");
    result["_meta"] =
        json!({ format!("{PREFIX}serverInfo"): { "name": "fixture", "version": "2" } });
    json_reply(StatusCode::OK, &json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}
