//! A conversation after the registration: calls, the agent's list, heartbeats.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::{Caller, ErrorCode};
use drawgate_core::pipeline::UNREAD;
use drawgate_sdk::proto::agent_message::Message as AgentRequest;
use drawgate_sdk::proto::gateway_message::Message;
use drawgate_sdk::proto::{AgentMessage, Heartbeat, Shutdown, ToolCall};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::{Code, Status};

use super::calls::Calls;
use super::conversation::{Stop, stopping};
use super::lists::Listed;
use super::mcp::McpSession;
use super::outbox::Outbox;
use super::{MAX_MISSED_HEARTBEATS, Shared};

/// Least time between two checks of an agent's list: many packs may connect at once.
const LIST_PAUSE: Duration = Duration::from_millis(100);
/// Longest id that an agent may choose.
const MAX_ID: usize = 256;
/// What the ids of the gateway's own heartbeats begin with: what comes back so is never a question.
const OWN_HEARTBEAT: &str = "gateway:";

/// A conversation after the registration.
pub(super) struct Registered<'a> {
    shared: &'a Shared,
    outbox: &'a Outbox,
    caller: Arc<Caller>,
    calls: Calls,
    known: Listed,
    /// The way to MCP for the agent's programs.
    mcp: Option<McpSession>,
    registry: watch::Receiver<u64>,
    grants: watch::Receiver<u64>,
    /// When to check the list of tools again, and when that was done last.
    refresh_at: Option<Instant>,
    refreshed: Instant,
    /// Heartbeats since the last message of the agent.
    unanswered: u32,
    beats: u64,
    /// The agent has closed its side.
    is_closed: bool,
    is_stopping: bool,
}

impl<'a> Registered<'a> {
    pub(super) fn new(
        shared: &'a Arc<Shared>,
        outbox: &'a Outbox,
        caller: Arc<Caller>,
        mcp: Option<McpSession>,
    ) -> Self {
        Self {
            // Before the first look, so that nothing is missed.
            registry: shared.gateway.registry_changes(),
            grants: shared.gateway.grant_changes(),
            calls: Calls::new(Arc::clone(shared), Arc::clone(&caller), outbox.clone()),
            known: shared.lists.of(&shared.gateway, &caller),
            mcp,
            shared,
            outbox,
            caller,
            refresh_at: None,
            refreshed: Instant::now(),
            unanswered: 0,
            beats: 0,
            is_closed: false,
            is_stopping: false,
        }
    }

    /// Runs until the agent has closed its side and all its calls are answered, or something stops it.
    pub(super) async fn run<I>(&mut self, incoming: &mut I) -> Result<(), Stop>
    where
        I: Stream<Item = Result<AgentMessage, Status>> + Unpin,
    {
        let welcome = self.known.welcome(&self.caller, self.mcp.as_ref());
        self.outbox.send(Message::Welcome(welcome)).await?;
        let heartbeat = self.shared.heartbeat;
        let mut ticks = tokio::time::interval_at(Instant::now() + heartbeat, heartbeat);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let shared = self.shared;
        let mut stopped = pin!(shared.stop.cancelled());
        loop {
            tokio::select! {
                received = next(self.outbox, incoming), if !self.is_closed => self.receive(received).await?,
                () = self.calls.ended(), if self.is_closed || self.is_stopping => return self.finish(),
                changed = self.registry.changed() => self.schedule_refresh(changed.is_ok())?,
                changed = self.grants.changed() => self.schedule_refresh(changed.is_ok())?,
                () = at(self.refresh_at) => self.refresh_tools().await?,
                _ = ticks.tick() => self.heartbeat().await?,
                () = &mut stopped, if !self.is_stopping => self.stop().await?,
            }
        }
    }

    /// The last call has been answered.
    fn finish(&self) -> Result<(), Stop> {
        if self.is_stopping { Err(Stop::Refused(stopping())) } else { Ok(()) }
    }

    async fn receive(
        &mut self,
        received: Option<Result<AgentMessage, Status>>,
    ) -> Result<(), Stop> {
        self.unanswered = 0;
        let Some(received) = received else {
            self.is_closed = true;
            self.calls.last();
            return Ok(());
        };
        let received = match received {
            Ok(received) => received,
            Err(status) => {
                if status.code() == Code::OutOfRange {
                    self.too_large(&status).await;
                }
                return Err(Stop::Refused(status));
            }
        };
        match received.message {
            Some(AgentRequest::Call(call)) => self.call(call).await,
            Some(AgentRequest::Cancel(cancel)) => {
                self.calls.cancel(&cancel.request_id);
                Ok(())
            }
            Some(AgentRequest::Heartbeat(question)) => self.answer(question).await,
            Some(AgentRequest::Register(_)) => {
                Err(Stop::Refused(Status::failed_precondition("you are registered already")))
            }
            // Something of a later version of the contract.
            None => Ok(()),
        }
    }

    /// Records a message that is too large as a refused call, which is all that it can have been.
    async fn too_large(&self, status: &Status) {
        let call = ToolCall { tool_name: UNREAD.to_owned(), ..ToolCall::default() };
        self.calls.refuse(call, ErrorCode::InvalidArguments, status.message()).await;
    }

    async fn call(&self, call: ToolCall) -> Result<(), Stop> {
        if !is_id(&call.request_id) {
            let status = bad_id();
            self.calls.refuse(call, ErrorCode::InvalidArguments, status.message()).await;
            return Err(Stop::Refused(status));
        }
        let refused = if self.is_stopping {
            let message = "the gateway is stopping; call again later";
            Some(self.calls.refuse(call, ErrorCode::Unavailable, message).await)
        } else {
            self.calls.start(call).await.err()
        };
        match refused {
            Some(refusal) => Ok(self.outbox.send(refusal).await?),
            None => Ok(()),
        }
    }

    async fn answer(&self, question: Heartbeat) -> Result<(), Stop> {
        if question.request_id.starts_with(OWN_HEARTBEAT) {
            return Ok(());
        }
        if question.request_id.len() > MAX_ID {
            return Err(Stop::Refused(bad_id()));
        }
        Ok(self.outbox.send(Message::Heartbeat(question)).await?)
    }

    /// Sends a heartbeat to a silent agent. Grants also expire, so the list is checked here too.
    async fn heartbeat(&mut self) -> Result<(), Stop> {
        // An agent that has closed its side can't answer; the connection's own pings watch over it.
        if !self.is_closed {
            self.unanswered += 1;
            if self.unanswered >= MAX_MISSED_HEARTBEATS {
                return Err(Stop::Silent);
            }
            self.beats += 1;
            let request_id = format!("{OWN_HEARTBEAT}{}", self.beats);
            self.outbox.send(Message::Heartbeat(Heartbeat { request_id })).await?;
        }
        self.schedule_refresh(true)
    }

    fn schedule_refresh(&mut self, is_there: bool) -> Result<(), Stop> {
        if !is_there {
            return Err(Stop::Refused(stopping()));
        }
        let soon = (self.refreshed + LIST_PAUSE).max(Instant::now());
        self.refresh_at.get_or_insert(soon);
        Ok(())
    }

    /// Sends the agent its list of tools if that has changed.
    async fn refresh_tools(&mut self) -> Result<(), Stop> {
        self.refresh_at = None;
        self.refreshed = Instant::now();
        let now = self.shared.lists.of(&self.shared.gateway, &self.caller);
        if now.differs(&self.known) {
            self.outbox.send(Message::ToolsChanged(now.changed())).await?;
            self.known = now;
        }
        Ok(())
    }

    async fn stop(&mut self) -> Result<(), Stop> {
        self.is_stopping = true;
        self.calls.last();
        let reason = "the gateway is stopping".to_owned();
        Ok(self.outbox.send(Message::Shutdown(Shutdown { reason })).await?)
    }
}

/// The next message, read only when an answer to it would find room.
async fn next<I>(outbox: &Outbox, incoming: &mut I) -> Option<Result<AgentMessage, Status>>
where
    I: Stream<Item = Result<AgentMessage, Status>> + Unpin,
{
    outbox.room().await;
    incoming.next().await
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

const fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID
}

fn bad_id() -> Status {
    Status::invalid_argument(format!("`request_id` must have 1 to {MAX_ID} bytes"))
}
