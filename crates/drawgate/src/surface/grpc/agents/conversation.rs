//! One agent's conversation, from its registration to its end.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::Caller;
use drawgate_sdk::proto::AgentMessage;
use tonic::Status;
use tonic::codegen::tokio_stream::{Stream, StreamExt};

use super::open_conversations::OpenConversation;
use super::outbox::{Outbox, OutboxClosed};
use super::registered::Registered;
use super::{Agent, Shared, register};

/// How long an agent may take to register.
const REGISTER_TIME: Duration = Duration::from_secs(5);

/// How a conversation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The agent went, or was sent away; it has been told.
    Over,
    /// The agent neither reads nor answers.
    Silent,
}

/// Why a conversation does not go on.
pub(super) enum Stop {
    /// The agent said all that it had to say, and all of it is answered.
    Done,
    /// It hears why.
    Refused(Status),
    /// Nobody listens.
    Closed,
    /// It does not read, or does not answer.
    Silent,
}

impl From<OutboxClosed> for Stop {
    fn from(_: OutboxClosed) -> Self {
        Self::Closed
    }
}

/// A conversation that has not begun yet.
pub(super) struct Conversation {
    shared: Arc<Shared>,
    agent: Agent,
    outbox: Outbox,
    _open: OpenConversation,
}

impl Conversation {
    pub(super) fn new(
        shared: Arc<Shared>,
        agent: Agent,
        outbox: Outbox,
        open: OpenConversation,
    ) -> Self {
        Self { shared, agent, outbox, _open: open }
    }

    /// Converses until one side ends it; then its calls are cancelled.
    pub(super) async fn run<I>(self, mut incoming: I) -> Ended
    where
        I: Stream<Item = Result<AgentMessage, Status>> + Unpin,
    {
        let stop = tokio::select! {
            stop = self.converse(&mut incoming) => stop,
            () = self.agent.cut.cancelled() => Stop::Refused(Status::unavailable("this connection was ended")),
            () = self.outbox.over() => Stop::Closed,
            () = self.outbox.stuck() => Stop::Silent,
        };
        if let Stop::Refused(status) = &stop {
            self.outbox.refuse(status.clone()).await;
        }
        self.outbox.end();
        match stop {
            // Whoever waited for room only knows that nobody listens.
            Stop::Done | Stop::Refused(_) | Stop::Closed if self.outbox.is_stuck() => Ended::Silent,
            Stop::Done | Stop::Refused(_) | Stop::Closed => Ended::Over,
            Stop::Silent => Ended::Silent,
        }
    }

    async fn converse<I>(&self, incoming: &mut I) -> Stop
    where
        I: Stream<Item = Result<AgentMessage, Status>> + Unpin,
    {
        let caller = match self.register(incoming).await {
            Ok(caller) => Arc::new(caller),
            Err(status) => return Stop::Refused(status),
        };
        let mcp = self.shared.mcp.as_ref().zip(self.agent.authority.as_deref());
        let mcp = mcp.map(|(mcp, authority)| mcp.open(&self.shared.gateway, &caller, authority));
        let mut registered = Registered::new(&self.shared, &self.outbox, caller, mcp);
        match registered.run(incoming).await {
            Ok(()) => Stop::Done,
            Err(stop) => stop,
        }
    }

    async fn register<I>(&self, incoming: &mut I) -> Result<Caller, Status>
    where
        I: Stream<Item = Result<AgentMessage, Status>> + Unpin,
    {
        let first = tokio::select! {
            first = tokio::time::timeout(REGISTER_TIME, incoming.next()) => first,
            () = self.shared.stop.cancelled() => return Err(stopping()),
        };
        let message = match first {
            Ok(Some(message)) => message?,
            Ok(None) => return Err(Status::failed_precondition("no registration came")),
            Err(_) => return Err(Status::deadline_exceeded("no registration came in time")),
        };
        let registration = register::first(message)?;
        let now = self.shared.gateway.clock().now_ms();
        register::caller(&self.agent, &registration, now)
    }
}

pub(super) fn stopping() -> Status {
    Status::unavailable("the gateway is stopping")
}
