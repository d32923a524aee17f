//! The extension's methods: `tasks/get`, `tasks/update`, `tasks/cancel`, and the call that becomes a
//! task.

use axum::response::Response;
use drawgate_core::model::ToolInvocation;
use drawgate_core::pipeline::CallOptions;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::super::Mcp;
use super::super::call::{input_required_value, is_bad_state, rendered};
use super::super::era::Era;
use super::super::http::{Peer, json as json_response};
use super::super::message::{INVALID_PARAMS, RequestId, RpcError, result_bytes};
use super::super::methods::stateless_meta;
use super::{Begun, Tasks};

/// The extension's name.
pub(in super::super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Revision 2026-07-28: the client did not declare what the request needs.
const MISSING_CAPABILITY: i64 = -32021;

/// Whether a call of this client may become a task.
pub(in super::super) fn wanted(peer: &Peer) -> bool {
    let extensions = peer.client.capabilities.get("extensions");
    peer.era == Era::Stateless
        && extensions.and_then(|all| all.get(EXTENSION)).is_some_and(Value::is_object)
}

/// The tasks, where this gateway has any.
fn book(mcp: &Mcp) -> Result<&Tasks, RpcError> {
    mcp.inner.tasks.as_ref().ok_or_else(|| RpcError::unknown_method("tasks"))
}

/// A call for a client that takes tasks.
pub(in super::super) async fn call(
    tasks: &Tasks,
    peer: &Peer,
    id: &RequestId,
    call: ToolInvocation,
    options: CallOptions,
) -> Result<Response, RpcError> {
    let asked = call.tool_id.clone();
    peer.reaches_gate();
    let result = match tasks.begin(peer, call, options).await {
        Begun::Task(mut task) => {
            task.insert("resultType".to_owned(), "task".into());
            return Ok(answer(id, task));
        }
        Begun::Done(result) => result,
    };
    if let Some(error) = result.error.as_ref().filter(|error| is_bad_state(error)) {
        return Err(RpcError::new(INVALID_PARAMS, error.message.clone()));
    }
    let value = match input_required_value(&result) {
        Some(questions) => questions,
        None => rendered(&asked, &result)?,
    };
    Ok(json_response(StatusCode::OK, result_bytes(id, &value)))
}

/// `tasks/get`.
pub(in super::super) fn get(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
    let task_id = task_id(peer, params)?;
    let task = book(mcp)?.show(&peer.caller.principal, task_id).ok_or_else(unknown)?;
    Ok(complete(id, task))
}

/// `tasks/update`.
pub(in super::super) fn update(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
    let task_id = task_id(peer, params)?;
    let Some(Value::Object(answers)) = params.get("inputResponses") else {
        return Err(RpcError::new(INVALID_PARAMS, "`inputResponses` must be an object"));
    };
    if !book(mcp)?.answer(&peer.caller.principal, task_id, answers.clone()) {
        return Err(unknown());
    }
    Ok(acknowledged(id))
}

/// `tasks/cancel`.
pub(in super::super) async fn cancel(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
    let task_id = task_id(peer, params)?;
    if !book(mcp)?.cancel(&peer.caller.principal, task_id).await {
        return Err(unknown());
    }
    Ok(acknowledged(id))
}

/// Refuses a client that did not declare the extension with this request.
pub(in super::super) fn check(peer: &Peer) -> Result<(), RpcError> {
    if wanted(peer) {
        return Ok(());
    }
    let needed = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
    let message = format!("the client must declare the extension `{EXTENSION}`");
    Err(RpcError::new(MISSING_CAPABILITY, message).with_data(needed))
}

fn task_id<'a>(peer: &Peer, params: &'a Map<String, Value>) -> Result<&'a str, RpcError> {
    check(peer)?;
    let id = params.get("taskId").and_then(Value::as_str);
    id.ok_or_else(|| RpcError::new(INVALID_PARAMS, "`taskId` must be a string"))
}

/// Whose task it is makes no difference to the answer.
fn unknown() -> RpcError {
    RpcError::new(INVALID_PARAMS, "there is no such task, or it has expired")
}

/// Nothing but that it was heard.
fn acknowledged(id: &RequestId) -> Response {
    json_response(StatusCode::OK, result_bytes(id, &json!({ "resultType": "complete" })))
}

fn complete(id: &RequestId, mut members: Map<String, Value>) -> Response {
    members.insert("resultType".to_owned(), "complete".into());
    answer(id, members)
}

fn answer(id: &RequestId, mut members: Map<String, Value>) -> Response {
    let (key, server) = stateless_meta();
    members.insert("_meta".to_owned(), json!({ key: server }));
    json_response(StatusCode::OK, result_bytes(id, &Value::Object(members)))
}
