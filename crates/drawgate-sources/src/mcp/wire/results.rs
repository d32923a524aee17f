//! What the results of requests amount to.

use drawgate_core::model::{InputRequired, ToolOutput};
use drawgate_core::source::SourceError;
use serde_json::{Map, Value};

use super::{META, META_SERVER, REQUEST_STATE, text};
use crate::mcp::requests::ClientRequest;

/// What an answer amounts to.
#[derive(Debug)]
pub(in crate::mcp) enum Settled {
    /// There is a result, without what only said so.
    Complete(Map<String, Value>),
    /// The server needs answers first.
    Asks(InputRequired),
    /// The server has made a task of it.
    Task(Map<String, Value>),
}

/// Tells a result from a question.
pub(in crate::mcp) fn settle(mut result: Map<String, Value>) -> Result<Settled, SourceError> {
    let kind = result.shift_remove("resultType");
    match kind.as_ref().map(|kind| kind.as_str().unwrap_or_default()) {
        None | Some("complete") => {
            forget_server(&mut result);
            Ok(Settled::Complete(result))
        }
        Some("input_required") => asks(result).map(Settled::Asks),
        Some("task") => Ok(Settled::Task(result)),
        Some(_) => {
            let message = "the server answered with a kind of result that is not understood";
            Err(SourceError::Failed { message: message.to_owned(), details: kind })
        }
    }
}

fn asks(mut result: Map<String, Value>) -> Result<InputRequired, SourceError> {
    let bad = |what: &str| SourceError::Protocol(format!("the server asks for input, {what}"));
    let requests = match result.shift_remove("inputRequests") {
        Some(Value::Object(requests)) => requests,
        None => Map::new(),
        Some(_) => return Err(bad("but its `inputRequests` are not an object")),
    };
    let state = match result.shift_remove(REQUEST_STATE) {
        Some(Value::String(state)) => Some(state),
        None => None,
        Some(_) => return Err(bad("but its `requestState` is not a text")),
    };
    let known = |request: &Value| text(Some(request), "method").and_then(ClientRequest::of);
    if requests.values().any(|request| known(request).is_none()) {
        return Err(bad("but by a method that no client has"));
    }
    if requests.is_empty() && state.is_none() {
        return Err(bad("but does not say for which"));
    }
    Ok(InputRequired { requests, state })
}

/// The result of what is not a tool's.
pub(in crate::mcp) fn passed_on(result: Map<String, Value>) -> ToolOutput {
    ToolOutput { rest: result, ..ToolOutput::default() }
}

/// The result of `tools/call`.
pub(in crate::mcp) fn output(mut result: Map<String, Value>) -> Result<ToolOutput, SourceError> {
    let content = match result.shift_remove("content") {
        Some(Value::Array(content)) => content,
        None => Vec::new(),
        Some(_) => {
            return Err(SourceError::Protocol("the server's `content` is not a list".to_owned()));
        }
    };
    let structured = result.shift_remove("structuredContent");
    // A server that says `false` in so many words is quoted; only `true` means something.
    let is_error = result.get("isError") == Some(&Value::Bool(true));
    if is_error {
        result.shift_remove("isError");
    }
    Ok(ToolOutput { content, structured, is_error, rest: result, ..ToolOutput::default() })
}

/// To its callers the gateway is the server.
fn forget_server(result: &mut Map<String, Value>) {
    if let Some(Value::Object(meta)) = result.get_mut(META)
        && meta.shift_remove(META_SERVER).is_some()
        && meta.is_empty()
    {
        result.shift_remove(META);
    }
}
