//! Tasks: calls that take long, for clients of revision 2026-07-28 that take them.

use std::path::{Path, PathBuf};

use http::StatusCode;
use serde_json::{Value, json};

use crate::callers::agent;
use crate::load::{events, offers};
use crate::questions::asking;
use crate::support::{Answer, Gateway, TestFolder, eventually};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn configuration() -> String {
    format!("[limits]\ntask_after_seconds = 0\n{}", asking())
}

/// A request of a client with these capabilities.
async fn ask(
    gateway: &Gateway,
    token: &str,
    capabilities: &Value,
    method: &str,
    params: Value,
) -> Answer {
    let named =
        params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default().to_owned();
    ask_as(gateway, token, capabilities, method, (params, Some(&named))).await
}

/// The same, with this name in the header that repeats it.
async fn ask_as(
    gateway: &Gateway,
    token: &str,
    capabilities: &Value,
    method: &str,
    (mut params, named): (Value, Option<&str>),
) -> Answer {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend(named.filter(|named| !named.is_empty()).map(|named| ("mcp-name", named)));
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    gateway.post_as(token, &headers, &message).await
}

fn takes_tasks() -> Value {
    json!({ "extensions": { EXTENSION: {} }, "elicitation": {} })
}

pub(crate) async fn result(gateway: &Gateway, method: &str, params: Value) -> Value {
    let answer = ask(gateway, &gateway.token, &takes_tasks(), method, params).await;
    answer.json()["result"].clone()
}

/// The task, once it stands so.
pub(crate) async fn once(gateway: &Gateway, id: &str, status: &str) -> Value {
    eventually(status, async || {
        let task = result(gateway, "tasks/get", json!({ "taskId": id })).await;
        assert_eq!(task["resultType"], "complete", "{task}");
        (task["status"] == status).then_some(task)
    })
    .await
}

/// A pipe that a tool waits for.
fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    if !path.exists() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }
    path
}

/// The pipe's other end, once the tool reads; the tool waits as long as it is held.
async fn being_read(pipe: &Path) -> rustix::fd::OwnedFd {
    use rustix::fs::{Mode, OFlags, open};
    eventually("the tool reads", async || {
        open(pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).ok()
    })
    .await
}

async fn ready(place: &TestFolder) -> Gateway {
    let gateway = place.serve();
    offers(&gateway, "q__hold").await;
    gateway
}

pub(crate) async fn begin(gateway: &Gateway, tool: &str, arguments: Value) -> String {
    let call = json!({ "name": tool, "arguments": arguments, "task": {} });
    let task = result(gateway, "tools/call", call).await;
    assert_eq!(task["resultType"], "task", "{task}");
    assert_eq!(task["status"], "working", "{task}");
    assert!(task["ttlMs"].is_u64() && task.get("requestState").is_none(), "{task}");
    task["taskId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_long_call_becomes_a_task_and_its_result_outlives_the_gateway() {
    let place = TestFolder::new(&configuration());
    let pipe = pipe(place.path());
    let gateway = ready(&place).await;
    let id = begin(&gateway, "q__hold", json!({ "pipe": pipe })).await;
    let task = result(&gateway, "tasks/get", json!({ "taskId": id })).await;
    assert_eq!(task["status"], "working");
    tokio::task::spawn_blocking(move || std::fs::write(pipe, "at last")).await.unwrap().unwrap();
    let done = once(&gateway, &id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "at last", "{done}");
    drop(gateway);
    let gateway = ready(&place).await;
    let kept = result(&gateway, "tasks/get", json!({ "taskId": id })).await;
    assert_eq!(kept["result"], done["result"], "after kill -9");
    let database = std::fs::read(place.data().join("drawgate.db")).unwrap();
    let wal = std::fs::read(place.data().join("drawgate.db-wal")).unwrap_or_default();
    let found = [database, wal].iter().any(|bytes| bytes.windows(7).any(|part| part == b"at last"));
    assert!(!found, "a result is sealed");
}

/// A call of `q__hold` by the client of this name, which declares tasks and does not ask for one. The tool ends as
/// soon as it is read whether the client waits.
async fn held_call(gateway: &Gateway, pipe: &Path, client: &str) -> Value {
    let info = json!({ "io.modelcontextprotocol/clientInfo": { "name": client, "version": "1" } });
    let call = json!({ "name": "q__hold", "arguments": { "pipe": pipe }, "_meta": info });
    let answer = result(gateway, "tools/call", call);
    let release = async {
        let held = being_read(pipe).await;
        rustix::io::write(&held, b"the answer").unwrap();
    };
    tokio::join!(answer, release).0
}

#[tokio::test]
async fn a_long_call_is_a_task_for_clients_that_follow_tasks_and_is_answered_for_the_others() {
    let place = TestFolder::new(&configuration());
    let pipe = pipe(place.path());
    let gateway = ready(&place).await;
    let waited = held_call(&gateway, &pipe, "declares").await;
    assert_eq!(waited["resultType"], "complete", "{waited}");
    assert_eq!(waited["content"][0]["text"], "the answer", "{waited}");
    // An unknown task is one, too: who asks about tasks knows what they are.
    let info = json!({ "io.modelcontextprotocol/clientInfo": { "name": "follows" } });
    let _unknown = result(&gateway, "tasks/get", json!({ "taskId": "t", "_meta": info })).await;
    let task = held_call(&gateway, &pipe, "follows").await;
    assert_eq!(task["resultType"], "task", "{task}");
    let done = once(&gateway, task["taskId"].as_str().unwrap(), "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "the answer", "{done}");
    let other = held_call(&gateway, &pipe, "declares").await;
    assert_eq!(other["resultType"], "complete", "another program with the same token: {other}");
}

#[tokio::test]
async fn a_task_is_found_without_the_header_that_names_it_and_not_with_another_name() {
    let place = TestFolder::new(&configuration());
    let pipe = pipe(place.path());
    let gateway = ready(&place).await;
    let id = begin(&gateway, "q__hold", json!({ "pipe": pipe })).await;
    for (method, more) in [
        ("tasks/get", json!({})),
        ("tasks/update", json!({ "inputResponses": {} })),
        ("tasks/cancel", json!({})),
    ] {
        for (named, code) in [(Some("another"), json!(-32020)), (None, Value::Null)] {
            let mut params = more.clone();
            params["taskId"] = json!(id);
            let asked = (params, named);
            let answer = ask_as(&gateway, &gateway.token, &takes_tasks(), method, asked).await;
            assert_eq!(answer.json()["error"]["code"], code, "{method} {named:?}");
        }
    }
}

#[tokio::test]
async fn a_call_that_a_restart_ended_says_so() {
    let place = TestFolder::new(&configuration());
    let pipe = pipe(place.path());
    let gateway = ready(&place).await;
    let id = begin(&gateway, "q__hold", json!({ "pipe": pipe })).await;
    drop(gateway);
    let gateway = ready(&place).await;
    let task = once(&gateway, &id, "failed").await;
    let message = task["error"]["message"].as_str().unwrap();
    assert!(message.contains("its outcome is unknown"), "{message}");
}

#[tokio::test]
async fn a_gateway_that_stops_gives_tasks_their_time_and_says_what_it_cut() {
    for (seconds, status) in [(60, "completed"), (1, "failed")] {
        let drain = format!("[server]\ndrain_seconds = {seconds}\n{}", configuration());
        let place = TestFolder::new(&drain);
        let pipe = pipe(place.path());
        let gateway = ready(&place).await;
        let id = begin(&gateway, "q__hold", json!({ "pipe": pipe })).await;
        let held = being_read(&pipe).await;
        let stopped = tokio::task::spawn_blocking(move || gateway.terminate());
        eventually("the signal", async || place.log().contains("stopping").then_some(())).await;
        let held = if status == "completed" {
            rustix::io::write(&held, b"in time").unwrap();
            drop(held);
            None
        } else {
            Some(held)
        };
        assert_eq!(stopped.await.unwrap(), Some(0));
        drop(held);
        let outcomes = events(&place).into_iter().filter(|event| event["kind"] == "outcome");
        assert_eq!(outcomes.count(), 1, "{status}");
        let gateway = ready(&place).await;
        let task = once(&gateway, &id, status).await;
        if status == "completed" {
            assert_eq!(task["result"]["content"][0]["text"], "in time", "{task}");
        } else {
            let message = task["error"]["message"].as_str().unwrap();
            assert!(message.contains("its outcome is unknown"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_task_belongs_to_its_caller_and_to_clients_that_take_tasks() {
    let place = TestFolder::new(&configuration());
    let pipe = pipe(place.path());
    let gateway = ready(&place).await;
    let other = agent(&place, "bob", &["file.read"]);
    let id = begin(&gateway, "q__hold", json!({ "pipe": pipe })).await;
    for method in ["tasks/get", "tasks/cancel"] {
        let foreign = ask(&gateway, &other, &takes_tasks(), method, json!({ "taskId": id })).await;
        let unknown =
            ask(&gateway, &other, &takes_tasks(), method, json!({ "taskId": "nope" })).await;
        assert_eq!(foreign.rpc_code(), Some(-32602), "{method}");
        assert_eq!(foreign.body, unknown.body, "{method}: no difference to one that is not there");
        let plain =
            ask(&gateway, &gateway.token, &json!({}), method, json!({ "taskId": id })).await;
        assert_eq!((plain.status, plain.rpc_code()), (StatusCode::BAD_REQUEST, Some(-32021)));
        let needed = &plain.json()["error"]["data"]["requiredCapabilities"];
        assert!(needed["extensions"][EXTENSION].is_object(), "{needed}");
    }
    for method in ["tasks/list", "tasks/result"] {
        let gone = ask(&gateway, &gateway.token, &takes_tasks(), method, json!({})).await;
        assert_eq!((gone.status, gone.rpc_code()), (StatusCode::NOT_FOUND, Some(-32601)));
    }
    let discovered = result(&gateway, "server/discover", json!({})).await;
    assert!(discovered["capabilities"]["extensions"][EXTENSION].is_object());
    assert_eq!(once(&gateway, &id, "working").await["taskId"], id.as_str(), "bob ended nothing");
}

#[tokio::test]
async fn a_cancelled_task_ends_the_call_at_its_server() {
    let place = TestFolder::new(&configuration());
    let pipe = pipe(place.path());
    let gateway = ready(&place).await;
    let id = begin(&gateway, "q__hold", json!({ "pipe": pipe })).await;
    let _held = being_read(&pipe).await;
    for _ in 0..2 {
        let ack = result(&gateway, "tasks/cancel", json!({ "taskId": id })).await;
        assert_eq!(ack, json!({ "resultType": "complete" }));
    }
    assert_eq!(once(&gateway, &id, "cancelled").await.get("result"), None);
    let token = gateway.token.clone();
    eventually("the server hears of it", async || {
        let heard = gateway.call(&token, "q__heard", json!({})).await;
        (heard["content"][0]["text"] == "1").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_task_asks_and_goes_on_with_the_answer() {
    let place = TestFolder::new(&configuration());
    let gateway = ready(&place).await;
    let id = begin(&gateway, "q__twice", json!({})).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let asked = once(&gateway, &id, "input_required").await;
        let questions = asked["inputRequests"].as_object().unwrap().clone();
        let (key, question) = questions.iter().next().unwrap();
        assert_eq!(question["method"], "elicitation/create");
        assert!(!seen.contains(key), "keys are unique in a task's life");
        seen.push(key.clone());
        let wrong = json!({ "taskId": id, "inputResponses": { "other": {} } });
        assert_eq!(result(&gateway, "tasks/update", wrong).await["resultType"], "complete");
        let answer = json!({ "action": "accept", "content": { "name": seen.len().to_string() } });
        let update = json!({ "taskId": id, "inputResponses": { key: answer } });
        assert_eq!(
            result(&gateway, "tasks/update", update).await,
            json!({ "resultType": "complete" })
        );
    }
    let done = once(&gateway, &id, "completed").await;
    let text = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("\"1\"") && text.contains("\"2\""), "{text}");
}

#[tokio::test]
async fn nothing_of_an_agents_tasks_passes_to_the_next_of_its_name() {
    let place = TestFolder::new(&configuration());
    let pipe = pipe(place.path());
    let gateway = ready(&place).await;
    let bob = agent(&place, "bob", &["file.read"]);
    let call = json!({ "name": "q__hold", "arguments": { "pipe": pipe }, "task": {} });
    let task = ask(&gateway, &bob, &takes_tasks(), "tools/call", call).await.json();
    let id = json!({ "taskId": task["result"]["taskId"] });
    place.ok(&["agents", "remove", "bob"]);
    let bob = agent(&place, "bob", &["file.read"]);
    let gone = ask(&gateway, &bob, &takes_tasks(), "tasks/get", id.clone()).await;
    assert_eq!(gone.rpc_code(), Some(-32602), "{gone:?}");
    drop(gateway);
    let gateway = ready(&place).await;
    let gone = ask(&gateway, &bob, &takes_tasks(), "tasks/get", id).await;
    assert_eq!(gone.rpc_code(), Some(-32602), "nor from the store: {gone:?}");
}
