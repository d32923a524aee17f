//! How much is logged to a session: kept for the session, and passed on to the sources, which are
//! shared by all sessions and so log as much as the one that wants most.

use std::collections::BTreeMap;
use std::time::Duration;

use drawgate_core::model::{Caller, Operation, SourceId, ToolInvocation};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::surface::mcp::Mcp;
use crate::surface::mcp::caller::view::CallerView;
use crate::surface::mcp::methods::gate;
use crate::surface::mcp::transport::http::Peer;
use crate::surface::mcp::wire::client;
use crate::surface::mcp::wire::message::{RequestId, RpcError};

/// A source that does not take its level within this time goes without.
const TIME: Duration = Duration::from_secs(2);

/// The most verbose level that was sent to each source.
#[derive(Default)]
pub(crate) struct SourceLogLevels(Mutex<BTreeMap<SourceId, usize>>);

impl SourceLogLevels {
    /// Records a level. Returns whether it must be sent to the source.
    fn note(&self, source: &SourceId, level: usize) -> bool {
        let mut log_levels = self.0.lock();
        let is_new = log_levels.get(source).is_none_or(|before| level < *before);
        if is_new {
            log_levels.insert(source.clone(), level);
        }
        is_new
    }

    fn forget(&self, source: &SourceId) {
        self.0.lock().remove(source);
    }
}

/// `logging/setLevel`.
pub(crate) async fn set_level(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    let name = client::parse_level(params.get("level"), "level")?;
    let level = client::LEVELS.iter().position(|level| *level == name).unwrap_or_default();
    if let Some(session) = &peer.session {
        session.set_log_level(name.clone());
    }
    let view = CallerView::of(mcp, &peer.caller);
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
    Ok(json!({}))
}

/// The client has its answer soon, whatever a source does with it.
async fn pass_on(mcp: Mcp, caller: Caller, source: SourceId, call: ToolInvocation) {
    let sent = tokio::time::timeout(TIME, gate::call_gate(&mcp, &caller, call)).await;
    if !sent.is_ok_and(|result| result.success) {
        mcp.inner.log_levels.forget(&source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_told_only_of_more() {
        let log_levels = SourceLogLevels::default();
        let (a, b) = (SourceId::new("a").unwrap(), SourceId::new("b").unwrap());
        assert!(log_levels.note(&a, 3));
        assert!(!log_levels.note(&a, 3));
        assert!(!log_levels.note(&a, 5));
        assert!(log_levels.note(&a, 0));
        assert!(log_levels.note(&b, 5), "each source for itself");
        log_levels.forget(&a);
        assert!(log_levels.note(&a, 7), "a source that was not reached is told again");
    }
}
