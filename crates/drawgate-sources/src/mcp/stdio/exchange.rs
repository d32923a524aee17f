//! One request over a duplex transport.

use std::sync::Arc;

use drawgate_core::source::{CallContext, SourceError};
use serde_json::Value;

use super::Connection;
use crate::line_rpc::{Reply, Waiting};
use crate::mcp::callers::ActiveCall;
use crate::mcp::exchange::Turn;

/// A request that the server has got, or will get. Dropping it tells the server, if it may be cancelled.
pub(in crate::mcp) struct Exchange {
    pub(super) connection: Arc<Connection>,
    pub(super) waiting: Waiting,
    /// The caller's call; the gateway's own requests have none.
    pub(super) active_call: Option<ActiveCall>,
}

impl Exchange {
    pub(in crate::mcp) async fn turn(&mut self) -> Result<Turn, SourceError> {
        let waiting = &mut self.waiting;
        let outcome = match &mut self.active_call {
            Some(active_call) => tokio::select! {
                biased;
                outcome = waiting.outcome() => outcome,
                question = active_call.question() => return Ok(Turn::Question(question)),
            },
            None => waiting.outcome().await,
        };
        if let Some(active_call) = &mut self.active_call {
            active_call.answered();
        }
        outcome.map(Turn::Reply)
    }

    /// Waits for the reply to a request of the gateway's own, for which no caller can be asked.
    pub(super) async fn reply(mut self) -> Result<Reply, SourceError> {
        self.waiting.outcome().await
    }

    /// The caller bounds its time.
    pub(in crate::mcp) async fn answer(&self, message: &Value) -> Result<(), SourceError> {
        self.connection.notify(message).await
    }

    pub(in crate::mcp) fn resume(&self, cx: &CallContext) {
        if let Some(active_call) = &self.active_call {
            active_call.resume(cx);
        }
    }
}
