//! The tasks extension: `tasks/get`, `tasks/update`, `tasks/cancel`, and the call that becomes a task.
//!
//! Some programs declare the extension and do not follow a task: they would take it for the tool's result. So a
//! call that only takes long becomes a task for those that have shown that they follow tasks, by an earlier request
//! about one or by a `task` in the call. What the server itself makes a task of, is one for all that declare it.

use drawgate_core::model::{Principal, ToolInvocation, ToolResult};
use drawgate_core::pipeline::CallOptions;
use drawgate_runtime::tasks::{
    Format, LIFETIME_MS, Outcome, Status, Task, TaskOffer, TaskOrResult, Tasks,
};
use drawgate_runtime::time::iso;
use serde_json::{Map, Value, json};

use super::gate::is_bad_state;
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::client::page_request;
use crate::surface::mcp::wire::era::{Era, PROTOCOL_META};
use crate::surface::mcp::wire::message::{INTERNAL_ERROR, INVALID_PARAMS, RpcError};
use crate::surface::mcp::wire::stateless::result_meta;
use crate::surface::mcp::wire::tool_result;

/// The extension's name.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Revision 2026-07-28: the client did not declare what the request needs.
const MISSING_CAPABILITY: i64 = -32021;

/// How often a client should look.
const POLL_MS: u64 = 2000;
/// Characters of a client's name by which it is told from others of the same caller.
const MAX_CLIENT_NAME: usize = 128;

/// A client among all of its caller: programs that share a token differ in what they can do.
fn client_of(peer: &Peer, params: &Map<String, Value>) -> (Principal, String) {
    let info = params.get("_meta").and_then(|meta| meta.get(format!("{PROTOCOL_META}clientInfo")));
    let name = info.and_then(|info| info.get("name")?.as_str()).unwrap_or_default();
    (peer.caller.principal.clone(), name.chars().take(MAX_CLIENT_NAME).collect())
}

/// When a call of this client becomes a task.
pub(crate) fn offer(mcp: &Mcp, peer: &Peer, params: &Map<String, Value>) -> TaskOffer {
    let asks = params.get("task").is_some_and(Value::is_object);
    if wanted(peer) && (asks || mcp.inner.task_followers.knows(&client_of(peer, params))) {
        TaskOffer::WhenLong
    } else {
        TaskOffer::WhenServerMakesOne
    }
}

/// How MCP writes what a task came to.
pub const FORMAT: Format = Format { result, failure, page_request };

fn result(tool: &str, result: &ToolResult) -> Result<Value, Value> {
    tool_result::value(tool, result).map_err(|error| error_value(&error))
}

fn failure(message: &str) -> Value {
    error_value(&RpcError::new(INTERNAL_ERROR, message))
}

fn error_value(error: &RpcError) -> Value {
    let mut value = json!({ "code": error.code, "message": error.message });
    if let Some(data) = &error.data {
        value["data"] = (**data).clone();
    }
    value
}

/// Whether a call of this client may become a task.
pub(crate) fn wanted(peer: &Peer) -> bool {
    let extensions = peer.client.capabilities.get("extensions");
    peer.era == Era::Stateless
        && extensions.and_then(|all| all.get(EXTENSION)).is_some_and(Value::is_object)
}

/// The tasks, where this gateway has any.
fn book(mcp: &Mcp) -> Result<&Tasks, RpcError> {
    mcp.inner.tasks.as_ref().ok_or_else(|| RpcError::unknown_method("tasks"))
}

/// A call for a client that takes tasks.
pub(crate) async fn call(
    tasks: &Tasks,
    peer: &Peer,
    call: ToolInvocation,
    (options, offer): (CallOptions, TaskOffer),
) -> Result<Answer, RpcError> {
    let asked = call.tool_id.clone();
    peer.reaches_gate();
    let result = match tasks.begin(&peer.caller, call, options, offer).await {
        TaskOrResult::Task(task) => {
            let mut task = summary(&task);
            task.insert("resultType".to_owned(), "task".into());
            return Ok(answer(task));
        }
        TaskOrResult::Done(result) => result,
    };
    if let Some(error) = result.error.as_ref().filter(|error| is_bad_state(error)) {
        return Err(RpcError::new(INVALID_PARAMS, error.message.clone()));
    }
    Answer::of_tool(Era::Stateless, &asked, result)
}

/// `tasks/get`.
pub(crate) fn get(mcp: &Mcp, peer: &Peer, params: &Map<String, Value>) -> Result<Answer, RpcError> {
    let task_id = task_id(mcp, peer, params)?;
    let task = book(mcp)?.get(&peer.caller.principal, task_id).ok_or_else(unknown)?;
    Ok(complete(details(&task)))
}

/// `tasks/update`.
pub(crate) fn update(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Answer, RpcError> {
    let task_id = task_id(mcp, peer, params)?;
    let Some(Value::Object(answers)) = params.get("inputResponses") else {
        return Err(RpcError::new(INVALID_PARAMS, "`inputResponses` must be an object"));
    };
    if !book(mcp)?.answer(&peer.caller.principal, task_id, answers.clone()) {
        return Err(unknown());
    }
    Ok(acknowledged())
}

/// `tasks/cancel`.
pub(crate) async fn cancel(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Answer, RpcError> {
    let task_id = task_id(mcp, peer, params)?;
    if !book(mcp)?.cancel(&peer.caller.principal, task_id).await {
        return Err(unknown());
    }
    Ok(acknowledged())
}

/// The task as the protocol shows it, without what belongs to its status.
fn summary(task: &Task) -> Map<String, Value> {
    let summary = json!({
        "taskId": task.id,
        "status": task.status,
        "createdAt": iso(task.created_at),
        "lastUpdatedAt": iso(task.updated_at),
        "ttlMs": LIFETIME_MS,
        "pollIntervalMs": POLL_MS,
    });
    match summary {
        Value::Object(summary) => summary,
        _ => Map::new(),
    }
}

/// The same with its result, its error or its questions.
pub(crate) fn details(task: &Task) -> Map<String, Value> {
    let mut shown = summary(task);
    match (task.status, &task.outcome) {
        (Status::InputRequired, _) => {
            shown.insert("inputRequests".to_owned(), Value::Object(task.questions.clone()));
        }
        (Status::Completed, Some(Outcome::Result(result))) => {
            shown.insert("result".to_owned(), result.clone());
        }
        (Status::Failed, Some(Outcome::Error(error))) => {
            shown.insert("error".to_owned(), error.clone());
        }
        _ => {}
    }
    shown
}

/// Refuses a client that did not declare the extension with this request.
pub(crate) fn check(peer: &Peer) -> Result<(), RpcError> {
    if wanted(peer) {
        return Ok(());
    }
    let needed = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
    let message = format!("the client must declare the extension `{EXTENSION}`");
    Err(RpcError::new(MISSING_CAPABILITY, message).with_data(needed))
}

/// The task that a request is about. A client that asks about one follows tasks.
fn task_id<'a>(
    mcp: &Mcp,
    peer: &Peer,
    params: &'a Map<String, Value>,
) -> Result<&'a str, RpcError> {
    check(peer)?;
    mcp.inner.task_followers.note(client_of(peer, params));
    let id = params.get("taskId").and_then(Value::as_str);
    id.ok_or_else(|| RpcError::new(INVALID_PARAMS, "`taskId` must be a string"))
}

/// Whose task it is makes no difference to the answer.
fn unknown() -> RpcError {
    RpcError::new(INVALID_PARAMS, "there is no such task, or it has expired")
}

/// Nothing but that it was heard.
fn acknowledged() -> Answer {
    Answer::Value(json!({ "resultType": "complete" }))
}

fn complete(mut members: Map<String, Value>) -> Answer {
    members.insert("resultType".to_owned(), "complete".into());
    answer(members)
}

fn answer(mut members: Map<String, Value>) -> Answer {
    let (key, server) = result_meta();
    members.insert("_meta".to_owned(), json!({ key: server }));
    Answer::Value(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(status: Status, outcome: Option<Outcome>) -> Task {
        Task {
            id: "t1".into(),
            status,
            created_at: 1_794_738_030_999,
            updated_at: 1_794_738_030_999,
            outcome,
            questions: Map::from_iter([("1.q".into(), json!({ "method": "roots/list" }))]),
        }
    }

    #[test]
    fn a_task_shows_what_belongs_to_its_status() {
        let shown = Value::Object(details(&task(Status::Working, None)));
        assert_eq!(shown["status"], "working");
        assert_eq!(shown["createdAt"], "2026-11-15T10:20:30.999Z");
        assert!(shown["ttlMs"].is_u64() && shown["pollIntervalMs"].is_u64());
        assert!(shown.get("result").is_none() && shown.get("inputRequests").is_none());
        assert!(details(&task(Status::InputRequired, None)).contains_key("inputRequests"));
        let result = Outcome::Result(json!({ "content": [] }));
        let shown = details(&task(Status::Completed, Some(result)));
        assert!(shown.contains_key("result") && !shown.contains_key("inputRequests"));
        let error = Outcome::Error(json!({ "code": -1, "message": "x" }));
        assert!(details(&task(Status::Failed, Some(error))).contains_key("error"));
    }
}
