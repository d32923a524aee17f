//! `tools/call`: the hot path. Parse once, call the gate, write the answer once.

use drawgate_core::model::ToolInvocation;
use serde_json::{Map, Value};

use super::perform::{options, perform_operation};
use super::{finder, meta, tasks};
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::lists::search_tools;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::client;
use crate::surface::mcp::wire::era::Era;
use crate::surface::mcp::wire::message::{INVALID_PARAMS, RequestId, RpcError};

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
                meta::check(&params)?;
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
    Answer::of_tool(peer.era, &asked, Box::new(result))
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
    let (meta, narrowing) = meta::take(&mut params)?;
    Ok(Box::new(narrowing.of(ToolInvocation {
        tool_id: name,
        request_id: id.label(),
        arguments,
        input: client::input(era, &mut params)?,
        meta,
        ..ToolInvocation::default()
    })))
}
