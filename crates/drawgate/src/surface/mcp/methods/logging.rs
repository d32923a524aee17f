//! How much is logged to a session: kept for the session, and passed on to the sources, which are
//! shared by all sessions and so log as much as the one that wants most.

use std::time::Duration;

use drawgate_core::model::{Caller, Operation, SourceId, ToolInvocation};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::gate;
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::caller::view::CallerView;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::client;
use crate::surface::mcp::wire::message::{RequestId, RpcError};

/// A source that does not take its level within this time goes without.
const TIME: Duration = Duration::from_secs(2);

/// `logging/setLevel`.
pub(crate) async fn set_level(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Answer, RpcError> {
    let name = client::parse_level(params.get("level"), "level")?;
    let level = client::LEVELS.iter().position(|level| *level == name).unwrap_or_default();
    if let Some(session) = &peer.session {
        session.set_log_level(name.clone());
    }
    let view = CallerView::of(&mcp.inner.gateway, &peer.caller);
    let mut telling = JoinSet::new();
    for source in view.open(Operation::SetLogLevel) {
        if mcp.inner.log_levels.note(&source, level) {
            let mut arguments = Map::new();
            arguments.insert("level".to_owned(), name.as_str().into());
            let call = ToolInvocation {
                tool_id: source.to_string(),
                request_id: id.label(),
                arguments,
                operation: Operation::SetLogLevel,
                ..ToolInvocation::default()
            };
            telling.spawn(pass_on(mcp.clone(), peer.caller.clone(), source, call));
        }
    }
    // The next call's messages are subject to the new level, so that the sources must have it first.
    telling.join_all().await;
    Ok(Answer::kept(peer.era, json!({})))
}

/// The client has its answer soon, whatever a source does with it.
async fn pass_on(mcp: Mcp, caller: Caller, source: SourceId, call: ToolInvocation) {
    let sent = tokio::time::timeout(TIME, gate::call_gate(&mcp, &caller, call)).await;
    if !sent.is_ok_and(|result| result.success) {
        mcp.inner.log_levels.forget(&source);
    }
}
