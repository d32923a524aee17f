//! One request over a duplex transport.

use std::sync::Arc;

use drawgate_core::source::{CallContext, SourceError};
use serde_json::Value;
use tokio::sync::oneshot;

use super::Connection;
use super::pending::Outcome;
use crate::mcp::callers::ActiveCall;
use crate::mcp::exchange::Turn;
use crate::mcp::{Reply, wire};

/// A request that the server has got, or will get. Dropping it tells the server, if it may be cancelled.
pub(in crate::mcp) struct Exchange {
    pub(super) connection: Arc<Connection>,
    pub(super) id: u64,
    pub(super) answer: oneshot::Receiver<Outcome>,
    /// The caller's call; the gateway's own requests have none.
    pub(super) active_call: Option<ActiveCall>,
    pub(super) ending: Ending,
}

/// What the server is told when the request is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// That the request is cancelled.
    Cancel,
    /// Nothing: before the handshake is done it would not understand.
    Silence,
}

impl Exchange {
    pub(in crate::mcp) async fn turn(&mut self) -> Result<Turn, SourceError> {
        let answer = &mut self.answer;
        let outcome = match &mut self.active_call {
            Some(active_call) => tokio::select! {
                biased;
                outcome = answer => outcome,
                question = active_call.question() => return Ok(Turn::Question(question)),
            },
            None => answer.await,
        };
        if let Some(active_call) = &mut self.active_call {
            active_call.answered();
        }
        outcome.map_err(|_| stopped())?.map(Turn::Reply)
    }

    /// Waits for the reply to a request of the gateway's own, for which no caller can be asked.
    pub(super) async fn reply(mut self) -> Result<Reply, SourceError> {
        (&mut self.answer).await.map_err(|_| stopped())?
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

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.connection.pending.give_up(self.id) && self.ending == Ending::Cancel {
            self.connection.try_notify(&wire::cancelled(self.id));
        }
    }
}

pub(super) fn stopped() -> SourceError {
    SourceError::unreachable("the server was stopped")
}
