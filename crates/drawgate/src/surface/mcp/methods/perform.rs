//! The way of an operation through the gate for a client that hears of its progress and can cancel it.

use std::sync::Arc;

use drawgate_core::model::{Client, ToolInvocation, ToolResult, TraceParent};
use drawgate_core::pipeline::{CallOptions, WhileAsked};
use drawgate_core::source::ProgressSink;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{gate, questions};
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::session::reply::ReplyChannel;
use crate::surface::mcp::session::sessions::InFlight;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::client;
use crate::surface::mcp::wire::era::Era;
use crate::surface::mcp::wire::message::{INVALID_PARAMS, INVALID_REQUEST, RequestId, RpcError};
use crate::surface::mcp::wire::notice::Notice;
use crate::telemetry::Span;

/// Performs any operation for a client: progress and logs reach it, it can cancel, and in a session
/// it is asked what the source needs to know. Without a session the result may hold questions; see
/// [`questions`](crate::surface::mcp::wire::tool_result::questions).
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
    // A client that declared nothing is asked nothing; the rest is boxed, since it is seldom needed and large.
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
        Some(error) if gate::is_bad_state(error) => {
            Err(RpcError::new(INVALID_PARAMS, error.message.clone()))
        }
        _ => Ok(result),
    }
}

/// How a client wants its call to be performed.
pub(crate) fn options(peer: &Peer, call: &ToolInvocation) -> Result<CallOptions, RpcError> {
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
