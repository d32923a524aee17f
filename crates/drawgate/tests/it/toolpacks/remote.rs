//! An MCP server over streamable HTTP that says what a test wants, and may change its mind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[derive(Default)]
struct Behaviour {
    tools: Mutex<Vec<(String, String)>>,
    authorization: Mutex<Vec<String>>,
    /// Whoever is still connected gets no answer but this.
    is_gone: AtomicBool,
}

/// A running server.
pub(super) struct Remote {
    /// `127.0.0.1:PORT`.
    pub(super) address: String,
    behaviour: Arc<Behaviour>,
    serving: JoinHandle<()>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.behaviour.is_gone.store(true, Ordering::SeqCst);
        self.serving.abort();
    }
}

impl Remote {
    /// A server with these tools: their names and descriptions.
    pub(super) async fn start(tools: &[(&str, &str)]) -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), tools)
    }

    /// The same at a place of the test's choice.
    pub(super) fn start_on(listener: TcpListener, tools: &[(&str, &str)]) -> Self {
        let behaviour = Arc::<Behaviour>::default();
        let router = Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&behaviour));
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let remote = Self { address, behaviour, serving };
        remote.describe(tools);
        remote
    }

    /// From now on it has these tools.
    pub(super) fn describe(&self, tools: &[(&str, &str)]) {
        let owned = |(name, words): &(&str, &str)| ((*name).to_owned(), (*words).to_owned());
        *self.behaviour.tools.lock() = tools.iter().map(owned).collect();
    }

    /// The credentials that it was sent.
    pub(super) fn authorization(&self) -> Vec<String> {
        self.behaviour.authorization.lock().clone()
    }
}

/// A pack with tools of a server there, each under the server's own name for it.
pub(super) fn pack(id: &str, address: &str, tools: &[(&str, &str)]) -> Value {
    let tool = |(name, remote): &(&str, &str)| json!({ "name": name, "type": "mcp", "connector_id": "main", "remote_tool": remote });
    json!({
        "id": id, "name": id, "version": "1.0.0",
        "permissions": { "hosts": [address] },
        "connectors": [{ "id": "main", "type": "mcp", "mcp": {
            "transport": "streamable_http", "url": format!("http://{address}/mcp"), "timeout_seconds": 10,
        } }],
        "tools": tools.iter().map(tool).collect::<Vec<_>>(),
    })
}

async fn answer(
    State(behaviour): State<Arc<Behaviour>>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> Response {
    if behaviour.is_gone.load(Ordering::SeqCst) {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    if let Some(value) = headers.get("authorization") {
        behaviour.authorization.lock().push(value.to_str().unwrap().to_owned());
    }
    let params = &message["params"];
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "remote", "version": "1" },
        }),
        "tools/list" => {
            let list = behaviour.tools.lock().clone();
            let tool = |(name, words): (String, String)| json!({ "name": name, "description": words, "inputSchema": { "type": "object" } });
            json!({ "tools": list.into_iter().map(tool).collect::<Vec<_>>() })
        }
        "tools/call" => {
            let text = format!("called {}", params["name"].as_str().unwrap_or_default());
            json!({ "content": [{ "type": "text", "text": text }] })
        }
        "ping" => json!({}),
        _ if message["id"].is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return Json(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }))
                .into_response();
        }
    };
    Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
}
