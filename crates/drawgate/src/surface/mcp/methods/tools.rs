//! `tools/call`: the hot path. Parse once, call the gate, write the answer once.

use std::sync::Arc;

use drawgate_core::model::{
    Client, Narrowing, OWN_META, ToolError, ToolInvocation, ToolResult, TraceParent, shown_name,
};
use drawgate_core::pipeline::{CallOptions, WhileAsked};
use drawgate_core::source::ProgressSink;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::lists::search_tools;
use crate::surface::mcp::methods::finder;
use crate::surface::mcp::methods::questions;
use crate::surface::mcp::methods::tasks;
use crate::surface::mcp::session::reply::ReplyChannel;
use crate::surface::mcp::session::sessions::InFlight;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::client;
use crate::surface::mcp::wire::era::{Era, PROTOCOL_META};
use crate::surface::mcp::wire::message::{INVALID_PARAMS, INVALID_REQUEST, RequestId, RpcError};
use crate::surface::mcp::wire::notice::Notice;
use crate::surface::mcp::wire::tool_result;
use crate::telemetry::Span;

/// Where a client says how it narrows its call.
const META_CALL: &str = "drawgate/call";

/// Calls a tool.
pub(crate) async fn tool(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: Map<String, Value>,
) -> Result<Answer, RpcError> {
    let params = if finder::is_on(mcp, &peer.caller) {
        match params.get("name").and_then(Value::as_str) {
            Some(search_tools::SEARCH) => {
                check_meta(&params)?;
                return finder::answer(mcp, peer, &params);
            }
            Some(search_tools::CALL) => finder::unwrap_call(params)?,
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
        return Box::pin(tasks::call(tasks, peer, *call, (options, offer))).await;
    }
    let asked = call.tool_id.clone();
    let result = perform_operation(mcp, peer, id, call).await?;
    tool_result::answer(peer.era, &asked, Box::new(result))
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
/// [`tool_result::questions`].
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
