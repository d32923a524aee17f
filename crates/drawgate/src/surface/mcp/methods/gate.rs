//! What sources offer beside tools: where a name leads, how the gate is asked for it, and how its
//! answer reads in the protocol.

use drawgate_core::model::{
    Caller, Disclosure, ErrorCode, Operation, SourceId, ToolError, ToolInvocation, ToolResult,
    shown_name,
};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::registry::ItemMatch;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::meta;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::client;
use crate::surface::mcp::wire::era::Era;
use crate::surface::mcp::wire::message::{INTERNAL_ERROR, INVALID_PARAMS, RequestId, RpcError};
use crate::surface::mcp::wire::stateless::result_meta;
use crate::surface::mcp::wire::tool_result;

/// The one source of a name and its own name for it. `unknown` is the error of a name that leads
/// nowhere.
pub(crate) fn only(
    place: ItemMatch,
    unknown: impl FnOnce() -> RpcError,
) -> Result<(SourceId, String), RpcError> {
    match place {
        ItemMatch::One(source, own) => Ok((source, own)),
        ItemMatch::Several(names) => {
            let message = format!("several have this name; use one of `{}`", names.join("`, `"));
            Err(refused(INVALID_PARAMS, message).with_data(json!({ "candidates": names })))
        }
        ItemMatch::Missing => Err(unknown()),
    }
}

/// A call of the gate for something beside tools.
pub(crate) fn invocation(
    era: Era,
    id: &RequestId,
    params: &mut Map<String, Value>,
    (source, operation): (&SourceId, Operation),
    arguments: Map<String, Value>,
) -> Result<Box<ToolInvocation>, RpcError> {
    let input = client::input(era, params)?;
    let (meta, narrowing) = meta::take(params)?;
    Ok(Box::new(narrowing.of(ToolInvocation {
        tool_id: source.to_string(),
        request_id: id.label(),
        arguments,
        meta,
        operation,
        input,
        ..ToolInvocation::default()
    })))
}

/// Makes a call of the gate that can't lead to questions.
pub(crate) async fn call_gate(
    mcp: &Mcp,
    caller: &Caller,
    call: impl Into<Box<ToolInvocation>>,
) -> ToolResult {
    mcp.inner.gateway.call(caller, call, CallOptions::default()).await
}

/// A text parameter that must be there.
pub(crate) fn text<'a>(params: &'a Map<String, Value>, key: &str) -> Result<&'a str, RpcError> {
    let text = params.get(key).and_then(Value::as_str);
    text.ok_or_else(|| invalid(format!("`{key}` must be a string")))
}

pub(crate) fn invalid(message: impl Into<String>) -> RpcError {
    RpcError::new(INVALID_PARAMS, message)
}

/// A refusal of a request that was in order as such.
pub(crate) fn refused(code: i64, message: impl Into<String>) -> RpcError {
    RpcError::new(code, message).with_status(StatusCode::OK)
}

/// That there is no such thing, as far as this caller may know.
pub(crate) fn unknown(what: &str, name: &str) -> RpcError {
    refused(INVALID_PARAMS, format!("unknown {what} `{}`", shown_name(name)))
}

/// The gate's error in the protocol's form. What the caller may not use reads as what is not there.
pub(crate) fn failure(error: &ToolError, unknown: impl FnOnce() -> RpcError) -> RpcError {
    let hidden = error.disclosure == Disclosure::ToolIsHidden
        || matches!(error.code, ErrorCode::PermissionDenied | ErrorCode::ResourceNotFound);
    if hidden {
        return unknown();
    }
    if let Some(relayed) = tool_result::relayed(error) {
        return relayed.with_status(StatusCode::OK);
    }
    let code = match error.code {
        ErrorCode::InvalidArguments | ErrorCode::Conflict => INVALID_PARAMS,
        _ => INTERNAL_ERROR,
    };
    let mut data = json!({ "code": error.code });
    if let Some(details) = &error.details {
        data["details"] = details.clone();
    }
    refused(code, format!("{}: {}", error.code, error.message)).with_data(data)
}

/// How long a client may cache a result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// As long as its source says, by this caller only.
    Private,
    /// The protocol does not say.
    Unspecified,
}

/// A source's result, in the form of the caller's era.
pub(crate) fn answer(era: Era, result: ToolResult, cache: CachePolicy) -> Answer {
    if let Some(questions) = tool_result::questions(&result) {
        return Answer::Value(questions);
    }
    let mut members = result.rest;
    let kind = members.shift_remove("resultType");
    match era {
        Era::Sessions => {}
        Era::Stateless => {
            members.insert("resultType".to_owned(), kind.unwrap_or_else(|| "complete".into()));
            let (key, about) = result_meta();
            match members.get_mut("_meta") {
                Some(Value::Object(meta)) => drop(meta.insert(key, about)),
                _ => drop(members.insert("_meta".to_owned(), json!({ key: about }))),
            }
            if cache == CachePolicy::Private {
                let ttl = members.get("ttlMs").and_then(Value::as_u64).unwrap_or_default();
                members.insert("ttlMs".to_owned(), ttl.into());
                members.insert("cacheScope".to_owned(), "private".into());
            }
        }
    }
    Answer::Value(Value::Object(members))
}

/// The gate knows its own states, a source the calls that it keeps waiting; both say it so.
pub(crate) fn is_bad_state(error: &ToolError) -> bool {
    error.details.as_ref().is_some_and(|details| details["requestState"] == "invalid")
}
