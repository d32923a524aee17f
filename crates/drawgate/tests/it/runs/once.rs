//! An MCP server with a tool that may not be repeated: it counts its calls, and holds those that it is
//! told to hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The tool's name at the gateway.
pub(super) const TOOL: &str = "once__do";

/// A running server.
pub(super) struct Once {
    /// `127.0.0.1:PORT`.
    address: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// How often the tool was called, by the `id` that it was given.
    calls: watch::Sender<BTreeMap<String, usize>>,
    /// The ids of calls that are not answered yet.
    held: watch::Sender<BTreeSet<String>>,
}

impl Drop for Once {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Once {
    pub(super) async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let router = Router::new().route("/mcp", post(answer)).with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, serving }
    }

    /// The server in a configuration. Its tool writes, as far as grants are concerned.
    pub(super) fn config(&self) -> String {
        let address = &self.address;
        format!(
            "[servers.once]\ntransport = \"streamable_http\"\nurl = \"http://{address}/mcp\"\n\
             capabilities = [\"file.write\"]\n"
        )
    }

    /// Answers no call with this id until it is released.
    pub(super) fn hold(&self, id: &str) {
        self.shared.held.send_modify(|held| {
            held.insert(id.to_owned());
        });
    }

    pub(super) fn release(&self, id: &str) {
        self.shared.held.send_modify(|held| {
            held.remove(id);
        });
    }

    /// Waits until the tool was called with this id.
    pub(super) async fn called(&self, id: &str) {
        let mut calls = self.shared.calls.subscribe();
        calls.wait_for(|calls| calls.contains_key(id)).await.unwrap();
    }

    pub(super) fn calls(&self) -> BTreeMap<String, usize> {
        self.shared.calls.borrow().clone()
    }
}

impl Shared {
    async fn call(&self, id: &str) -> Value {
        self.calls.send_modify(|calls| *calls.entry(id.to_owned()).or_default() += 1);
        self.held.subscribe().wait_for(|held| !held.contains(id)).await.unwrap();
        json!({ "content": [{ "type": "text", "text": "done" }] })
    }
}

async fn answer(State(shared): State<Arc<Shared>>, Json(message): Json<Value>) -> Response {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "once", "version": "1" },
        }),
        "tools/list" => {
            let schema = json!({ "type": "object", "properties": { "id": { "type": "string" } } });
            json!({ "tools": [{ "name": "do", "description": "Does it", "inputSchema": schema }] })
        }
        "tools/call" => {
            shared.call(message["params"]["arguments"]["id"].as_str().unwrap_or_default()).await
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
