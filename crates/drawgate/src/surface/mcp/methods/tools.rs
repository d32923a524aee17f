//! `tools/call`: the hot path. Parse once, call the gate, write the answer once.

use std::sync::Arc;

use axum::response::Response;
use drawgate_core::model::{
    Client, Disclosure, ErrorCode, Narrowing, OWN_META, ToolError, ToolInvocation, ToolResult,
    TraceParent, shown_name,
};
use drawgate_core::pipeline::{CallOptions, WhileAsked};
use drawgate_core::source::ProgressSink;
use http::StatusCode;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::surface::mcp::Mcp;
use crate::surface::mcp::methods::finder;
use crate::surface::mcp::methods::questions;
use crate::surface::mcp::methods::tasks;
use crate::surface::mcp::session::reply::ReplyChannel;
use crate::surface::mcp::session::sessions::InFlight;
use crate::surface::mcp::transport::http::{Peer, json as json_response};
use crate::surface::mcp::wire::client;
use crate::surface::mcp::wire::era::{Era, PROTOCOL_META};
use crate::surface::mcp::wire::message::{
    INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RequestId, RpcError, open_result, result_bytes,
};
use crate::surface::mcp::wire::notice::Notice;
use crate::telemetry::Span;

/// Where the gate's own error code and details stand in a result.
const META_ERROR: &str = "drawgate/error";
/// Where a client says how it narrows its call.
const META_CALL: &str = "drawgate/call";

/// Calls a tool.
pub(crate) async fn tool(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: Map<String, Value>,
) -> Result<Response, RpcError> {
    let params = if finder::is_on(mcp, &peer.caller) {
        match params.get("name").and_then(Value::as_str) {
            Some(finder::SEARCH) => {
                check_meta(&params)?;
                return finder::answer(mcp, peer, id, &params);
            }
            Some(finder::CALL) => finder::unwrap_call(params)?,
            _ => params,
        }
    } else {
        params
    };
    let offer = tasks::offer(mcp, peer, &params);
    let call = invocation(peer.era, id, params)?;
    // A run is not asked and waits for its calls: they are its steps.
    let may_be_task = peer.caller.lineage.is_none() && tasks::wanted(peer);
    if let Some(tasks) = mcp.inner.tasks.as_ref().filter(|_| may_be_task) {
        let options = options(peer, &call)?;
        return Box::pin(tasks::call(tasks, peer, id, *call, (options, offer))).await;
    }
    let asked = call.tool_id.clone();
    let result = perform_operation(mcp, peer, id, call).await?;
    write(peer.era, id, &asked, &result).map(|body| json_response(StatusCode::OK, body))
}

fn invocation(
    era: Era,
    id: &RequestId,
    mut params: Map<String, Value>,
) -> Result<Box<ToolInvocation>, RpcError> {
    let invalid = |message: &str| RpcError::new(INVALID_PARAMS, message);
    let Some(Value::String(name)) = params.shift_remove("name") else {
        return Err(invalid("`name` must be a string"));
    };
    let arguments = match params.shift_remove("arguments") {
        None => Map::new(),
        Some(Value::Object(arguments)) => arguments,
        Some(_) => return Err(invalid("`arguments` must be an object")),
    };
    let (meta, narrowing) = meta(&mut params)?;
    Ok(Box::new(narrowing.of(ToolInvocation {
        tool_id: name,
        request_id: id.label(),
        arguments,
        input: client::input(era, &mut params)?,
        meta,
        ..ToolInvocation::default()
    })))
}

/// The metadata of a request that goes on with it, and how the client narrows its call. The protocol's
/// own members speak of this hop, not of the next, and so do the gateway's.
pub(crate) fn meta(
    params: &mut Map<String, Value>,
) -> Result<(Map<String, Value>, Narrowing), RpcError> {
    let mut meta = match params.shift_remove("_meta") {
        None => return Ok(Default::default()),
        Some(Value::Object(meta)) => meta,
        Some(_) => return Err(RpcError::new(INVALID_PARAMS, "`_meta` must be an object")),
    };
    meta.retain(|key, _| !key.starts_with(PROTOCOL_META));
    let narrowing = match meta.shift_remove(META_CALL) {
        None | Some(Value::Null) => Narrowing::default(),
        Some(Value::Object(members)) => Narrowing::try_from(members).map_err(|error| {
            RpcError::new(INVALID_PARAMS, format!("`{META_CALL}`: {}", error.message))
        })?,
        Some(_) => {
            let message = format!("`{META_CALL}` must be an object");
            return Err(RpcError::new(INVALID_PARAMS, message));
        }
    };
    refuse_own(&meta)?;
    Ok((meta, narrowing))
}

/// Refuses members that are the gateway's to read where it does not read them: a caller that believes
/// its call to be narrowed must not be mistaken.
fn refuse_own(meta: &Map<String, Value>) -> Result<(), RpcError> {
    let Some(unread) = meta.keys().find(|key| key.starts_with(OWN_META)) else { return Ok(()) };
    let message = format!(
        "`_meta` has `{}`, which is not read here; calls take `{META_CALL}`",
        shown_name(unread)
    );
    Err(RpcError::new(INVALID_PARAMS, message))
}

/// The same for a request that is not a call.
pub(crate) fn check_meta(params: &Map<String, Value>) -> Result<(), RpcError> {
    params.get("_meta").and_then(Value::as_object).map_or(Ok(()), refuse_own)
}

/// Performs any operation for a client: progress and logs reach it, it can cancel, and in a session
/// it is asked what the source needs to know. Without a session the result may hold questions; see
/// [`input_required_value`].
pub(crate) async fn perform_operation(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    call: Box<ToolInvocation>,
) -> Result<ToolResult, RpcError> {
    let mut options = options(peer, &call)?;
    let _open = register(peer, id, &options.cancel)?;
    peer.reaches_gate();
    let span = mcp.inner.spans.start(options.trace.as_ref());
    options.trace = span.as_ref().map(Span::context).or(options.trace);
    if let Some(lineage) = &peer.caller.lineage {
        let run = mcp.inner.runs.as_ref().and_then(|runs| runs.program_of(&lineage.run));
        return match run {
            Some(program) => Ok(Box::pin(program.call(*call, options)).await),
            None => Err(RpcError::new(INVALID_REQUEST, "the run has ended")),
        };
    }
    // Who declared nothing is asked nothing; the rest is boxed, since it is seldom needed and large.
    let result = match peer.era {
        _ if peer.client.capabilities.is_empty() => {
            mcp.inner.gateway.call(&peer.caller, call, options).await
        }
        Era::Sessions => Box::pin(questions::converse(mcp, peer, call, options)).await?,
        Era::Stateless => Box::pin(questions::pass_on(mcp, peer, call, options)).await?,
    };
    if let Some(span) = span {
        span.end(&peer.caller, &result);
    }
    match &result.error {
        Some(error) if is_bad_state(error) => {
            Err(RpcError::new(INVALID_PARAMS, error.message.clone()))
        }
        _ => Ok(result),
    }
}

/// How a client wants its call to be performed.
fn options(peer: &Peer, call: &ToolInvocation) -> Result<CallOptions, RpcError> {
    Ok(CallOptions {
        progress: reports(peer, call)?,
        cancel: peer.reply.as_ref().map_or_else(CancellationToken::new, |reply| reply.gone.clone()),
        trace: call.meta.get("traceparent").and_then(Value::as_str).and_then(TraceParent::parse),
        page_request: client::page_request(&peer.client),
        client: Arc::clone(&peer.client),
        as_task: false,
        while_asked: WhileAsked::Wait,
        resume: None,
    })
}

/// The questions in a result, as a client without a session gets them.
pub(crate) fn input_required_value(result: &ToolResult) -> Option<Value> {
    let required = result.input_required.as_deref()?;
    let (key, server) = crate::surface::mcp::methods::stateless_meta();
    let mut value = json!({
        "resultType": "input_required",
        "inputRequests": required.requests,
        "_meta": { key: server },
    });
    if let Some(state) = &required.state {
        value["requestState"] = state.as_str().into();
    }
    Some(value)
}

/// Notes the request, so that the client of a session can cancel it.
fn register(
    peer: &Peer,
    id: &RequestId,
    cancel: &CancellationToken,
) -> Result<Option<InFlight>, RpcError> {
    let Some(session) = &peer.session else { return Ok(None) };
    match session.open(id, cancel) {
        Some(open) => Ok(Some(open)),
        None => Err(RpcError::new(
            INVALID_REQUEST,
            "a request with this `id` is open already, or too many are",
        )),
    }
}

/// The gate knows its own states, a source the calls that it keeps waiting; both say it so.
pub(crate) fn is_bad_state(error: &ToolError) -> bool {
    error.details.as_ref().is_some_and(|details| details["requestState"] == "invalid")
}

/// Where reports of a running call go, if the client can hear any.
fn reports(peer: &Peer, call: &ToolInvocation) -> Result<Option<Arc<dyn ProgressSink>>, RpcError> {
    let token = match call.meta.get("progressToken") {
        None => None,
        Some(token @ (Value::String(_) | Value::Number(_))) => Some(token.clone()),
        Some(_) => {
            let message = "`progressToken` must be a string or a number";
            return Err(RpcError::new(INVALID_PARAMS, message));
        }
    };
    let Some(reply) = peer.reply.clone() else { return Ok(None) };
    let (era, client) = (peer.era, Arc::clone(&peer.client));
    Ok(Some(Arc::new(Reports { token, era, client, reply })))
}

struct Reports {
    token: Option<Value>,
    era: Era,
    client: Arc<Client>,
    reply: ReplyChannel,
}

impl ProgressSink for Reports {
    fn report(&self, mut progress: Map<String, Value>) {
        let Some(token) = &self.token else { return };
        progress.insert("progressToken".to_owned(), token.clone());
        self.reply.send_optional(&Notice::Progress.with(progress));
    }

    fn log(&self, message: Map<String, Value>) {
        if client::wants_log(self.era, &self.client, message.get("level")) {
            self.reply.send_optional(&Notice::Log.with(message));
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
    if let Some(questions) = input_required_value(result) {
        return Ok(result_bytes(id, &questions));
    }
    let mut out = Vec::with_capacity(512);
    open_result(id, &mut out);
    serde_json::to_writer(&mut out, &View { era, result })
        .map_err(|_| RpcError::new(INTERNAL_ERROR, "the result could not be written"))?;
    out.push(b'}');
    Ok(out)
}

/// The same as a value, in the era without sessions, for who does not answer at once.
pub(crate) fn rendered(asked: &str, result: &ToolResult) -> Result<Value, RpcError> {
    let body = write(Era::Stateless, &RequestId::Number(0.into()), asked, result)?;
    let mut answer: Value = serde_json::from_slice(&body)
        .map_err(|_| RpcError::new(INTERNAL_ERROR, "the result could not be written"))?;
    Ok(answer["result"].take())
}

/// An error that the tool's own server gave in the protocol's form goes on in that form.
pub(crate) fn relayed(error: &ToolError) -> Option<RpcError> {
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
        // Before 2026-07-28 it had to be an object, and clients refuse anything else.
        let fits = |value: &&Value| self.era == Era::Stateless || value.is_object();
        let structured = result.structured_content.as_ref();
        let text = |text: String| [json!({ "type": "text", "text": text })];
        match (&result.error, structured) {
            (Some(error), _) if result.content.is_empty() => {
                let said = format!("{}: {}", error.code, error.message);
                map.serialize_entry("content", &text(said))?;
            }
            (None, Some(value)) if result.content.is_empty() && !fits(&value) => {
                map.serialize_entry("content", &text(value.to_string()))?;
            }
            _ => map.serialize_entry("content", &result.content)?,
        }
        if let Some(structured) = structured.filter(fits) {
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
        // No server speaks in the gate's name.
        meta.retain(|key, _| !key.starts_with(OWN_META));
        if self.era == Era::Stateless {
            let (key, value) = crate::surface::mcp::methods::stateless_meta();
            meta.insert(key, value);
        }
        // Of a failure of the tool's own, the content says all.
        let is_own = |error: &&ToolError| {
            error.code == ErrorCode::ExecutionFailed && !self.result.content.is_empty()
        };
        if let Some(error) = self.result.error.as_ref().filter(|error| !is_own(error)) {
            meta.insert(META_ERROR.to_owned(), serde_json::to_value(error).unwrap_or_default());
        }
        meta
    }
}
