//! Servers that have tasks of their own: a call goes on where a killed gateway left it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::load::offers;
use crate::support::{Gateway, TestFolder, eventually};
use crate::tasks::{begin, once, result};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A server of revision 2026-07-28 whose one tool becomes a task at once.
#[derive(Default)]
struct Server {
    /// What the task is, by `tasks/get`.
    task: Mutex<Value>,
    /// The methods that were called.
    called: Mutex<Vec<String>>,
}

impl Server {
    async fn start(task: Value) -> (Arc<Self>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Arc::new(Self { task: Mutex::new(task), called: Mutex::default() });
        let router = Router::new().fallback(handle).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let config = format!(
            "[limits]\ntask_after_seconds = 0\n[servers.far]\nurl = \"http://{address}/mcp\"\n"
        );
        (server, config)
    }

    fn count(&self, method: &str) -> usize {
        self.called.lock().iter().filter(|called| *called == method).count()
    }

    fn answer(&self, method: &str) -> Option<Value> {
        let schema = json!({ "type": "object" });
        let capabilities = json!({ "tools": {}, "extensions": { EXTENSION: {} } });
        Some(match method {
            "server/discover" => json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities,
                "serverInfo": { "name": "far", "version": "1" },
                "ttlMs": 0,
                "cacheScope": "private",
            }),
            "tools/list" => json!({
                "tools": [{ "name": "slow", "description": "takes long", "inputSchema": schema }],
                "ttlMs": 0,
                "cacheScope": "private",
            }),
            "tools/call" => json!({
                "resultType": "task", "taskId": "t1", "status": "working", "ttlMs": 60_000,
                "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
                "pollIntervalMs": 50,
            }),
            "tasks/get" => self.task.lock().clone(),
            "tasks/update" | "tasks/cancel" => json!({}),
            _ => return None,
        })
    }
}

async fn handle(State(server): State<Arc<Server>>, Json(message): Json<Value>) -> Response {
    let method = message["method"].as_str().unwrap_or_default();
    server.called.lock().push(method.to_owned());
    let Some(mut answer) = server.answer(method) else {
        let error = json!({ "code": -32601, "message": "unknown method" });
        let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
        return (StatusCode::NOT_FOUND, Json(body)).into_response();
    };
    if answer.get("resultType").is_none() {
        answer["resultType"] = json!("complete");
    }
    Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": answer })).into_response()
}

fn task(status: &str, more: Value) -> Value {
    let mut task = json!({
        "taskId": "t1", "status": status, "ttlMs": 60_000, "pollIntervalMs": 50,
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
    });
    if let (Some(task), Value::Object(more)) = (task.as_object_mut(), more) {
        task.extend(more);
    }
    task
}

async fn ready(place: &TestFolder) -> Gateway {
    let gateway = place.serve();
    offers(&gateway, "far__slow").await;
    gateway
}

#[tokio::test]
async fn a_killed_gateway_takes_the_servers_task_up_again() {
    let (server, config) = Server::start(task("working", json!({}))).await;
    let place = TestFolder::new(&config);
    let gateway = ready(&place).await;
    let id = begin(&gateway, "far__slow", json!({})).await;
    // The server's handle is stored beside the following, not before it: so a while of following.
    eventually("the task is followed", async || (server.count("tasks/get") > 20).then_some(()))
        .await;
    drop(gateway);
    server.called.lock().clear();
    let gateway = ready(&place).await;
    eventually("it is taken up", async || (server.count("tasks/get") > 0).then_some(())).await;
    let text = json!({ "content": [{ "type": "text", "text": "done at last" }] });
    *server.task.lock() = task("completed", json!({ "result": text }));
    let done = once(&gateway, &id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "done at last", "{done}");
    let again = (server.count("tools/call"), server.count("tasks/cancel"));
    assert_eq!(again, (0, 0), "it was neither begun again nor given up");
}

#[tokio::test]
async fn what_a_task_asks_for_needs_the_operators_word() {
    let sampling = json!({ "messages": [], "maxTokens": 1 });
    let asks = json!({ "inputRequests": {
        "s": { "method": "sampling/createMessage", "params": sampling },
    } });
    let (server, config) = Server::start(task("input_required", asks)).await;
    let place = TestFolder::new(&config);
    let gateway = ready(&place).await;
    let id = begin(&gateway, "far__slow", json!({})).await;
    let over = eventually("it is over", async || {
        let task = result(&gateway, "tasks/get", json!({ "taskId": id })).await;
        (task["status"] != "working").then_some(task)
    })
    .await;
    let said = &over["result"]["content"][0]["text"];
    assert!(over["result"]["isError"] == true && said.to_string().contains("sampling"), "{over}");
    assert_eq!(server.count("tasks/update"), 0);
    assert!(over.get("inputRequests").is_none(), "{over}");
}
