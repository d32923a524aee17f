//! A conversation after the registration: calls, the agent's list, heartbeats.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::{Caller, ErrorCode};
use drawgate_core::pipeline::UNREAD;
use drawgate_sdk::proto::agent_message::Message as Heard;
use drawgate_sdk::proto::gateway_message::Message;
use drawgate_sdk::proto::{AgentMessage, Heartbeat, Shutdown, ToolCall};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::{Code, Status};

use super::calls::Calls;
use super::conversation::{Stop, stopping};
use super::line::Line;
use super::lists::Listed;
use super::{PATIENCE, Shared};

/// Between two looks at an agent's list: many packs may come at once.
const LIST_PAUSE: Duration = Duration::from_millis(100);
/// Longest id that an agent may choose.
const MAX_ID: usize = 256;
/// What the ids of the gateway's own heartbeats begin with: what comes back so is never a question.
const OWN_HEARTBEAT: &str = "gateway:";

/// A conversation after the registration.
pub(super) struct Registered<'a> {
    shared: &'a Shared,
    line: &'a Line,
    caller: Arc<Caller>,
    calls: Calls,
    known: Listed,
    registry: watch::Receiver<u64>,
    grants: watch::Receiver<u64>,
    /// When to look at the list again, and when that was done last.
    due: Option<Instant>,
    looked: Instant,
    /// Heartbeats since the agent was heard last.
    quiet: u32,
    beats: u64,
    /// The agent has said all.
    is_closed: bool,
    is_stopping: bool,
}

impl<'a> Registered<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, line: &'a Line, caller: Arc<Caller>) -> Self {
        Self {
            // Before the first look, so that nothing is missed.
            registry: shared.gateway.registry_changes(),
            grants: shared.gateway.grant_changes(),
            calls: Calls::new(Arc::clone(shared), Arc::clone(&caller), line.clone()),
            known: shared.lists.of(&shared.gateway, &caller),
            shared,
            line,
            caller,
            due: None,
            looked: Instant::now(),
            quiet: 0,
            beats: 0,
            is_closed: false,
            is_stopping: false,
        }
    }

    /// Converses until the agent has said all and heard all, or something stops it.
    pub(super) async fn run<I>(&mut self, incoming: &mut I) -> Result<(), Stop>
    where
        I: Stream<Item = Result<AgentMessage, Status>> + Unpin,
    {
        self.line.say(Message::Welcome(self.known.welcome(&self.caller))).await?;
        let heartbeat = self.shared.heartbeat;
        let mut beat = tokio::time::interval_at(Instant::now() + heartbeat, heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let shared = self.shared;
        let mut stopped = pin!(shared.stop.cancelled());
        loop {
            tokio::select! {
                heard = next(self.line, incoming), if !self.is_closed => self.hear(heard).await?,
                () = self.calls.ended(), if self.is_closed || self.is_stopping => return self.finish(),
                changed = self.registry.changed() => self.look_soon(changed.is_ok())?,
                changed = self.grants.changed() => self.look_soon(changed.is_ok())?,
                () = at(self.due) => self.look().await?,
                _ = beat.tick() => self.beat().await?,
                () = &mut stopped, if !self.is_stopping => self.stop().await?,
            }
        }
    }

    /// The last call has been answered.
    fn finish(&self) -> Result<(), Stop> {
        if self.is_stopping { Err(Stop::Refused(stopping())) } else { Ok(()) }
    }

    async fn hear(&mut self, heard: Option<Result<AgentMessage, Status>>) -> Result<(), Stop> {
        self.quiet = 0;
        let Some(heard) = heard else {
            self.is_closed = true;
            self.calls.last();
            return Ok(());
        };
        let heard = match heard {
            Ok(heard) => heard,
            Err(status) => {
                if status.code() == Code::OutOfRange {
                    self.too_large(&status).await;
                }
                return Err(Stop::Refused(status));
            }
        };
        match heard.message {
            Some(Heard::Call(call)) => self.call(call).await,
            Some(Heard::Cancel(cancel)) => {
                self.calls.cancel(&cancel.request_id);
                Ok(())
            }
            Some(Heard::Heartbeat(question)) => self.answer(question).await,
            Some(Heard::Register(_)) => {
                Err(Stop::Refused(Status::failed_precondition("you are registered already")))
            }
            // Something of a later version of the contract.
            None => Ok(()),
        }
    }

    /// A message that is larger than any may be: what else than a call?
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
            Some(refusal) => Ok(self.line.say(refusal).await?),
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
        Ok(self.line.say(Message::Heartbeat(question)).await?)
    }

    /// Asks a silent agent whether it is there. Grants end by themselves too, so the list is also
    /// looked at now and then.
    async fn beat(&mut self) -> Result<(), Stop> {
        // An agent that has said all can't answer; the connection's own pings watch over it.
        if !self.is_closed {
            self.quiet += 1;
            if self.quiet >= PATIENCE {
                return Err(Stop::Silent);
            }
            self.beats += 1;
            let request_id = format!("{OWN_HEARTBEAT}{}", self.beats);
            self.line.say(Message::Heartbeat(Heartbeat { request_id })).await?;
        }
        self.look_soon(true)
    }

    fn look_soon(&mut self, is_there: bool) -> Result<(), Stop> {
        if !is_there {
            return Err(Stop::Refused(stopping()));
        }
        let soon = (self.looked + LIST_PAUSE).max(Instant::now());
        self.due.get_or_insert(soon);
        Ok(())
    }

    /// Tells the agent of its list if it is another one now.
    async fn look(&mut self) -> Result<(), Stop> {
        self.due = None;
        self.looked = Instant::now();
        let now = self.shared.lists.of(&self.shared.gateway, &self.caller);
        if now.differs(&self.known) {
            self.line.say(Message::ToolsChanged(now.changed())).await?;
            self.known = now;
        }
        Ok(())
    }

    async fn stop(&mut self) -> Result<(), Stop> {
        self.is_stopping = true;
        self.calls.last();
        let reason = "the gateway is stopping".to_owned();
        Ok(self.line.say(Message::Shutdown(Shutdown { reason })).await?)
    }
}

/// The next message, read only when an answer to it would find room.
async fn next<I>(line: &Line, incoming: &mut I) -> Option<Result<AgentMessage, Status>>
where
    I: Stream<Item = Result<AgentMessage, Status>> + Unpin,
{
    line.room().await;
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
