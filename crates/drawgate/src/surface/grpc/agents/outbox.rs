//! Messages to an agent: a short queue, filled by the conversation and its calls, emptied by the
//! connection. A call with a result waits until there is room, so that an agent that reads slowly costs
//! no memory; an agent that does not read at all is disconnected.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use drawgate_sdk::proto::GatewayMessage;
use drawgate_sdk::proto::gateway_message::Message;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;
use tonic::codegen::tokio_stream::Stream;

use super::OutgoingMessage;

/// The gateway's end of the queue. Cheap to clone.
#[derive(Clone)]
pub(super) struct Outbox {
    queue: mpsc::Sender<OutgoingMessage>,
    timeout: Duration,
    /// Cancelled when the agent does not read.
    stuck: CancellationToken,
    /// Cancelled when the conversation is over.
    over: CancellationToken,
}

/// The agent no longer reads the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutboxClosed;

impl Outbox {
    pub(super) fn new(
        queue: mpsc::Sender<OutgoingMessage>,
        timeout: Duration,
        over: CancellationToken,
    ) -> Self {
        Self { queue, timeout, stuck: CancellationToken::new(), over }
    }

    /// Sends a message as soon as there is room for it.
    pub(super) async fn send(&self, message: Message) -> Result<(), OutboxClosed> {
        self.enqueue(Ok(GatewayMessage { message: Some(message) })).await
    }

    /// Ends the stream with a status.
    pub(super) async fn refuse(&self, status: Status) {
        // If the agent is gone, there is nothing to refuse.
        let _ = self.enqueue(Err(status)).await;
    }

    /// Sends a message if there is room for it, and gives it back otherwise.
    pub(super) fn send_or_return(&self, message: Message) -> Option<Message> {
        let Ok(permit) = self.queue.try_reserve() else { return Some(message) };
        permit.send(Ok(GatewayMessage { message: Some(message) }));
        None
    }

    async fn enqueue(&self, message: OutgoingMessage) -> Result<(), OutboxClosed> {
        let message = match self.queue.try_send(message) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(OutboxClosed),
            Err(TrySendError::Full(message)) => message,
        };
        let sent = tokio::select! {
            sent = tokio::time::timeout(self.timeout, self.queue.send(message)) => sent,
            () = self.over.cancelled() => return Err(OutboxClosed),
        };
        if sent.is_err() {
            self.stuck.cancel();
        }
        sent.map_or(Err(OutboxClosed), |sent| sent.map_err(|_| OutboxClosed))
    }

    /// Waits until there is room for a message.
    pub(super) async fn room(&self) {
        // An error means that the agent is gone, which the conversation learns elsewhere.
        let _ = self.queue.reserve().await;
    }

    /// Waits until the agent has not read for too long.
    pub(super) async fn stuck(&self) {
        self.stuck.cancelled().await;
    }

    /// Whether the agent has not read for too long.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.is_cancelled()
    }

    /// Waits until the conversation is over.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Cancelled with the conversation.
    pub(super) fn until_over(&self) -> CancellationToken {
        self.over.child_token()
    }

    /// Ends the conversation: its calls are cancelled.
    pub(super) fn end(&self) {
        self.over.cancel();
    }
}

/// The agent's end of the queue. When it is dropped, the conversation is over.
pub struct Outgoing {
    waiting: mpsc::Receiver<OutgoingMessage>,
    _over: DropGuard,
}

impl Outgoing {
    pub(super) fn new(waiting: mpsc::Receiver<OutgoingMessage>, over: DropGuard) -> Self {
        Self { waiting, _over: over }
    }
}

impl Stream for Outgoing {
    type Item = OutgoingMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<OutgoingMessage>> {
        self.waiting.poll_recv(cx)
    }
}
