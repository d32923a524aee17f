//! `tools/call`: the hot path. Parse once, call the gate, write the answer once.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use drawgate_core::model::{
    Disclosure, ErrorCode, ToolError, ToolInvocation, ToolResult, TraceParent,
};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::ProgressSink;
use http::StatusCode;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Mcp;
use super::era::{Era, PROTOCOL_META};
use super::http::{Peer, json as json_response};
use super::message::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RequestId, RpcError, open_result,
};
use super::sse;
use crate::telemetry::Span;

/// Where the gate's own error code and details stand in a result.
const META_ERROR: &str = "drawgate/error";
/// Progress reports that wait for a slow client; more are dropped.
const MAX_PROGRESS: usize = 32;

/// Calls a tool.
pub(super) async fn tool(
    mcp: &Mcp,
    peer: Peer,
    id: &RequestId,
    params: Map<String, Value>,
) -> Result<Response, RpcError> {
    let (call, progress_token) = invocation(id, params)?;
    let options = CallOptions { cancel: CancellationToken::new(), ..CallOptions::default() };
    let open = match &peer.session {
        Some(session) => Some(session.open(id, &options.cancel).ok_or_else(|| {
            RpcError::new(
                INVALID_REQUEST,
                "a request with this `id` is open already, or too many are",
            )
        })?),
        None => None,
    };
    match progress_token {
        None => {
            let answer = perform(mcp, &peer, id, call, options).await;
            drop(open);
            answer.map(|body| json_response(StatusCode::OK, body))
        }
        Some(token) => Ok(stream(mcp, peer, id.clone(), call, options, token, open)),
    }
}

fn invocation(
    id: &RequestId,
    mut params: Map<String, Value>,
) -> Result<(ToolInvocation, Option<Value>), RpcError> {
    let invalid = |message: &str| RpcError::new(INVALID_PARAMS, message);
    let Some(Value::String(name)) = params.shift_remove("name") else {
        return Err(invalid("`name` must be a string"));
    };
    let arguments = match params.shift_remove("arguments") {
        None => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(invalid("`arguments` must be an object")),
    };
    let mut meta = match params.shift_remove("_meta") {
        None => Map::new(),
        Some(Value::Object(meta)) => meta,
        Some(_) => return Err(invalid("`_meta` must be an object")),
    };
    let progress_token = match meta.shift_remove("progressToken") {
        None => None,
        Some(token @ (Value::String(_) | Value::Number(_))) => Some(token),
        Some(_) => return Err(invalid("`progressToken` must be a string or a number")),
    };
    // The protocol's own metadata speaks of this hop, not of the next.
    meta.retain(|key, _| !key.starts_with(PROTOCOL_META));
    let call = ToolInvocation {
        tool_id: name,
        request_id: id.label(),
        arguments,
        meta,
        ..ToolInvocation::default()
    };
    Ok((call, progress_token))
}

async fn perform(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    call: ToolInvocation,
    mut options: CallOptions,
) -> Result<Vec<u8>, RpcError> {
    let asked = call.tool_id.clone();
    let parent = call.meta.get("traceparent").and_then(Value::as_str).and_then(TraceParent::parse);
    let span = mcp.inner.spans.start(parent.as_ref());
    options.trace = span.as_ref().map(Span::context).or(parent);
    let result = mcp.inner.gateway.call(&peer.caller, call, options).await;
    if let Some(span) = span {
        span.end(&peer.caller, &result);
    }
    write(peer.era, id, &asked, &result)
}

/// Answers as a stream of events: progress as it comes, then the result. The call runs in a task of
/// its own, so that a client that does not read can't hold it up; a client that leaves cancels it.
fn stream(
    mcp: &Mcp,
    peer: Peer,
    id: RequestId,
    call: ToolInvocation,
    mut options: CallOptions,
    token: Value,
    open: Option<super::session::InFlight>,
) -> Response {
    let (events, received) = mpsc::channel(MAX_PROGRESS);
    options.progress = Some(Arc::new(Progress { token, events: events.clone() }));
    let cancel = options.cancel.clone();
    let mcp = mcp.clone();
    tokio::spawn(async move {
        let answer = perform(&mcp, &peer, &id, call, options).await;
        drop(open);
        let body = answer.unwrap_or_else(|error| error.of(&id).to_bytes());
        // The client may be gone; then there is nobody to tell.
        let _ = events.send(sse::event(&body)).await;
    });
    sse::response(Body::new(sse::Events::new(received, cancel.drop_guard())))
}

struct Progress {
    token: Value,
    events: mpsc::Sender<bytes::Bytes>,
}

impl ProgressSink for Progress {
    fn report(&self, mut progress: Map<String, Value>) {
        progress.insert("progressToken".to_owned(), self.token.clone());
        let message =
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress });
        // One place stays free for the answer; a slow client misses reports, never the result.
        if self.events.capacity() > 1 {
            let _ = self.events.try_send(sse::event(message.to_string().as_bytes()));
        }
    }
}

/// The answer in the protocol's form. What a model can act upon is a result with `isError`; a tool
/// that is not there, and an error of the tool's own server, are errors of the protocol.
fn write(era: Era, id: &RequestId, asked: &str, result: &ToolResult) -> Result<Vec<u8>, RpcError> {
    if let Some(error) = &result.error {
        let hidden = error.disclosure == Disclosure::ToolIsHidden
            || error.code == ErrorCode::ResourceNotFound;
        if hidden {
            return Err(RpcError::new(INVALID_PARAMS, ToolError::unknown_tool(asked).message));
        }
        if let Some(relayed) = relayed(error) {
            return Err(relayed);
        }
    }
    let mut out = Vec::with_capacity(512);
    open_result(id, &mut out);
    serde_json::to_writer(&mut out, &View { era, result })
        .map_err(|_| RpcError::new(INTERNAL_ERROR, "the result could not be written"))?;
    out.push(b'}');
    Ok(out)
}

/// An error that the tool's own server gave in the protocol's form goes on in that form.
fn relayed(error: &ToolError) -> Option<RpcError> {
    let details = error.details.as_ref().filter(|_| error.code == ErrorCode::ExecutionFailed)?;
    let code = details.get("code")?.as_i64()?;
    let relayed = RpcError::new(code, error.message.clone());
    Some(match details.get("data") {
        Some(data) if !data.is_null() => relayed.with_data(data.clone()),
        _ => relayed,
    })
}

/// A tool result as MCP writes it.
struct View<'a> {
    era: Era,
    result: &'a ToolResult,
}

impl Serialize for View<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let result = self.result;
        let mut map = serializer.serialize_map(None)?;
        if self.era == Era::Stateless {
            map.serialize_entry(
                "resultType",
                result.rest.get("resultType").unwrap_or(&json!("complete")),
            )?;
        }
        match &result.error {
            Some(error) if result.content.is_empty() => {
                let text = format!("{}: {}", error.code, error.message);
                map.serialize_entry("content", &[json!({ "type": "text", "text": text })])?;
            }
            _ => map.serialize_entry("content", &result.content)?,
        }
        if let Some(structured) = &result.structured_content {
            map.serialize_entry("structuredContent", structured)?;
        }
        if !result.success {
            map.serialize_entry("isError", &true)?;
        }
        for (key, value) in &result.rest {
            let taken =
                ["resultType", "_meta", "content", "structuredContent"].contains(&key.as_str());
            if !taken && (key != "isError" || result.success) {
                map.serialize_entry(key, value)?;
            }
        }
        let meta = self.meta();
        if !meta.is_empty() {
            map.serialize_entry("_meta", &meta)?;
        }
        map.end()
    }
}

impl View<'_> {
    fn meta(&self) -> Map<String, Value> {
        let mut meta = match self.result.rest.get("_meta") {
            Some(Value::Object(meta)) => meta.clone(),
            _ => Map::new(),
        };
        if self.era == Era::Stateless {
            let (key, value) = super::methods::stateless_meta();
            meta.insert(key, value);
        }
        if let Some(error) = self.result.error.as_ref().filter(|_| self.result.content.is_empty()) {
            meta.insert(META_ERROR.to_owned(), serde_json::to_value(error).unwrap_or_default());
        }
        meta
    }
}
