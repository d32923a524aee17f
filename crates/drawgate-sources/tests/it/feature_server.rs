//! An MCP server over HTTP that asks, logs and tells, in both eras.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use futures_util::stream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

const PREFIX: &str = "io.modelcontextprotocol/";

/// How the server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Revision 2025-11-25; what it does not know it answers with this status.
    Sessions(u16),
    /// Revision 2026-07-28; its first answer is that it wants that revision.
    Stateless,
}

#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

pub(crate) struct FeatureServer {
    manner: Manner,
    pub(crate) url: String,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    seen: Vec<Seen>,
    session: u32,
    /// Questions that wait for their answers.
    asked: BTreeMap<String, oneshot::Sender<Value>>,
    /// The stream for everything.
    told: Option<mpsc::UnboundedSender<Value>>,
    greeted: bool,
}

impl FeatureServer {
    pub(crate) async fn start(manner: Manner) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = Arc::new(Self { manner, url, inner: Mutex::default() });
        let router = Router::new().fallback(handle).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    pub(crate) fn seen(&self, method: &str) -> Vec<Seen> {
        let inner = self.inner.lock();
        inner.seen.iter().filter(|seen| seen.body["method"] == method).cloned().collect()
    }

    /// Whether somebody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.inner.lock().told.as_ref().is_some_and(|told| !told.is_closed())
    }

    pub(crate) fn tell(&self, message: Value) {
        let inner = self.inner.lock();
        inner.told.as_ref().unwrap().send(message).unwrap();
    }

    /// Makes the server forget its session.
    pub(crate) fn forget_session(&self) {
        self.inner.lock().session += 1;
    }

    fn session(&self) -> String {
        format!("session-{}", self.inner.lock().session)
    }

    /// A question, and its answer when it comes.
    fn question(&self, call: &Value) -> (Value, oneshot::Receiver<Value>) {
        let (sender, receiver) = oneshot::channel();
        let id = format!("asked-{call}");
        self.inner.lock().asked.insert(id.clone(), sender);
        let params = json!({ "message": "sure?", "requestedSchema": { "type": "object", "properties": {} } });
        (
            json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params }),
            receiver,
        )
    }

    /// A new stream for everything in place of the one before.
    fn listen(&self, first: Option<Value>) -> Response {
        let (sender, receiver) = mpsc::unbounded_channel();
        if let Some(first) = first {
            sender.send(first).unwrap();
        }
        self.inner.lock().told = Some(sender);
        events(receiver)
    }
}

async fn handle(
    State(server): State<Arc<FeatureServer>>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    server.inner.lock().seen.push(Seen { headers: headers.clone(), body: body.clone() });
    match (server.manner, method) {
        (Manner::Sessions(_), Method::GET) => server.listen(None),
        (Manner::Sessions(status), Method::POST) => sessions(&server, status, &headers, body).await,
        (Manner::Stateless, Method::POST) => stateless(&server, &headers, &body),
        (_, _) => empty(405),
    }
}

fn empty(status: u16) -> Response {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

fn whole(status: u16, message: &Value) -> Response {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Body::from(message.to_string()))
        .unwrap()
}

fn events(messages: mpsc::UnboundedReceiver<Value>) -> Response {
    let stream = stream::unfold(messages, |mut messages| async {
        let message = messages.recv().await?;
        Some((Ok::<_, std::io::Error>(format!("data: {message}\n\n")), messages))
    });
    Response::builder()
        .status(StatusCode::OK)
        .header("content-type", "text/event-stream")
        .body(Body::from_stream(stream))
        .unwrap()
}

fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn said(id: &Value, value: &Value) -> Value {
    result(id, &json!({ "content": [{ "type": "text", "text": value.to_string() }] }))
}

fn tools() -> Value {
    let properties = json!({
        "message": { "type": "string" },
        "count": { "type": "integer", "x-mcp-header": "Count" },
        "sure": { "type": "boolean", "x-mcp-header": "Sure" },
    });
    let schema = json!({ "type": "object", "properties": properties });
    json!({ "tools": [{ "name": "echo", "description": "answers", "inputSchema": schema }] })
}

async fn sessions(
    server: &Arc<FeatureServer>,
    unknown: u16,
    headers: &HeaderMap,
    body: Value,
) -> Response {
    let id = body["id"].clone();
    let session = server.session();
    let Some(method) = body["method"].as_str() else {
        let asked = server.inner.lock().asked.remove(id.as_str().unwrap_or_default());
        asked.unwrap().send(body["result"].clone()).unwrap();
        return empty(202);
    };
    if method == "initialize" {
        let about = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {}, "resources": { "subscribe": true }, "logging": {} },
            "serverInfo": { "name": "features", "version": "1" },
        });
        let mut response = whole(200, &result(&id, &about));
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        return response;
    }
    let known = [
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/subscribe",
    ];
    if !known.contains(&method) && !id.is_null() {
        let error = json!({ "code": -32601, "message": "Method not found" });
        let error = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        return if unknown == 200 { whole(200, &error) } else { empty(unknown) };
    }
    if headers.get("mcp-session-id").is_none_or(|given| given != session.as_str()) {
        return empty(404);
    }
    match method {
        "tools/call" => call(server, &id, &body).await,
        "tools/list" => whole(200, &result(&id, &tools())),
        "resources/list" => {
            whole(200, &result(&id, &json!({ "resources": [{ "uri": "mem://a", "name": "a" }] })))
        }
        "resources/templates/list" => whole(200, &result(&id, &json!({ "resourceTemplates": [] }))),
        _ if id.is_null() => empty(202),
        _ => whole(200, &result(&id, &json!({}))),
    }
}

async fn call(server: &Arc<FeatureServer>, id: &Value, body: &Value) -> Response {
    let message = &body["params"]["arguments"]["message"];
    match message.as_str().unwrap_or_default() {
        // On the stream of the call.
        "elicit" => {
            let (question, answer) = server.question(id);
            let (sender, receiver) = mpsc::unbounded_channel();
            sender.send(question).unwrap();
            let id = id.clone();
            tokio::spawn(async move {
                if let Ok(answer) = answer.await {
                    sender.send(said(&id, &answer)).unwrap();
                }
            });
            events(receiver)
        }
        // On the stream for everything, while the call's own answer is not even begun.
        "elicit elsewhere" => {
            let (question, answer) = server.question(id);
            server.tell(question);
            whole(200, &said(id, &answer.await.unwrap()))
        }
        "log" => {
            let (sender, receiver) = mpsc::unbounded_channel();
            let params = json!({ "level": "info", "data": "hello" });
            sender.send(json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params })).unwrap();
            sender.send(said(id, message)).unwrap();
            events(receiver)
        }
        // A batch, as in revision 2025-03-26.
        "batch" => {
            let other = json!({ "jsonrpc": "2.0", "method": "notifications/other" });
            whole(200, &json!([other, said(id, message)]))
        }
        _ => whole(200, &said(id, message)),
    }
}

fn stateless(server: &FeatureServer, headers: &HeaderMap, body: &Value) -> Response {
    let (id, params) = (&body["id"], &body["params"]);
    let fail = |status: u16, code: i64, data: &Value| {
        let error = json!({ "code": code, "message": "no", "data": data });
        whole(status, &json!({ "jsonrpc": "2.0", "id": id, "error": error }))
    };
    if !std::mem::replace(&mut server.inner.lock().greeted, true) {
        return fail(400, -32022, &json!({ "supported": ["2026-07-28"], "requested": "?" }));
    }
    if params["_meta"][format!("{PREFIX}protocolVersion")] != "2026-07-28" {
        return fail(400, -32602, &Value::Null);
    }
    let method = body["method"].as_str().unwrap_or_default();
    let named = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        _ => None,
    };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if header("mcp-method") != Some(method) || header("mcp-name") != named {
        return fail(400, -32020, &Value::Null);
    }
    let list_changes = json!({ "listChanged": true });
    let answer = match method {
        "server/discover" => json!({ "supportedVersions": ["2026-07-28"], "capabilities": {
            "tools": list_changes, "prompts": list_changes, "completions": {},
            "resources": { "subscribe": true },
        } }),
        "tools/list" => tools(),
        "resources/list" => json!({ "resources": [{ "uri": "mem://a", "name": "a" }] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "prompts/list" => json!({ "prompts": [{ "name": "greet" }] }),
        "resources/read" => json!({ "contents": [], "ttlMs": 1, "cacheScope": "private" }),
        "prompts/get" => json!({ "messages": [] }),
        "completion/complete" => json!({ "completion": { "values": [] } }),
        "subscriptions/listen" => {
            let params = json!({ "_meta": { format!("{PREFIX}subscriptionId"): id }, "notifications": params["notifications"] });
            let method = "notifications/subscriptions/acknowledged";
            return server
                .listen(Some(json!({ "jsonrpc": "2.0", "method": method, "params": params })));
        }
        "tools/call" => match stateless_call(id, params) {
            Ok(answer) => answer,
            Err(required) => return fail(400, -32021, &required),
        },
        _ => return fail(404, -32601, &Value::Null),
    };
    let mut answer = answer;
    if answer.get("resultType").is_none() {
        answer["resultType"] = json!("complete");
    }
    whole(200, &result(id, &answer))
}

/// A result, or the capabilities that are missing.
fn stateless_call(id: &Value, params: &Value) -> Result<Value, Value> {
    let message = &params["arguments"]["message"];
    match (message.as_str(), params.get("inputResponses")) {
        (Some("capability"), _) => Err(json!({ "requiredCapabilities": { "sampling": {} } })),
        (Some("elicit"), None) => {
            let ask = json!({ "method": "elicitation/create", "params": { "message": "sure?" } });
            Ok(json!({
                "resultType": "input_required",
                "inputRequests": { "k": ask },
                "requestState": "opaque\"state",
            }))
        }
        (Some("elicit"), Some(responses)) => {
            Ok(said(id, &json!([responses, params["requestState"]]))["result"].clone())
        }
        (_, _) => Ok(said(id, message)["result"].clone()),
    }
}
