//! What an agent is told: a short queue, filled by the conversation and its calls, emptied by the
//! connection. Whoever has a result waits for its turn, so that an agent that reads slowly costs no
//! memory; one that does not read at all is given up.

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

use super::Said;

/// The gateway's end. Cheap to clone.
#[derive(Clone)]
pub(super) struct Line {
    queue: mpsc::Sender<Said>,
    patience: Duration,
    /// Cancelled when the agent does not read.
    stuck: CancellationToken,
    /// Cancelled when the conversation is over.
    over: CancellationToken,
}

/// Nobody listens any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

impl Line {
    pub(super) fn new(
        queue: mpsc::Sender<Said>,
        patience: Duration,
        over: CancellationToken,
    ) -> Self {
        Self { queue, patience, stuck: CancellationToken::new(), over }
    }

    /// Says something, as soon as there is room for it.
    pub(super) async fn say(&self, message: Message) -> Result<(), Gone> {
        self.send(Ok(GatewayMessage { message: Some(message) })).await
    }

    /// The last word: the agent sees it as the end of the stream.
    pub(super) async fn refuse(&self, status: Status) {
        // If nobody listens, there is nobody to refuse.
        let _ = self.send(Err(status)).await;
    }

    /// Says something if there is room for it, and gives it back otherwise.
    pub(super) fn mention(&self, message: Message) -> Result<(), Message> {
        match self.queue.try_reserve() {
            Ok(place) => {
                place.send(Ok(GatewayMessage { message: Some(message) }));
                Ok(())
            }
            Err(_) => Err(message),
        }
    }

    async fn send(&self, said: Said) -> Result<(), Gone> {
        let said = match self.queue.try_send(said) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(Gone),
            Err(TrySendError::Full(said)) => said,
        };
        let sent = tokio::select! {
            sent = tokio::time::timeout(self.patience, self.queue.send(said)) => sent,
            () = self.over.cancelled() => return Err(Gone),
        };
        if sent.is_err() {
            self.stuck.cancel();
        }
        sent.map_or(Err(Gone), |sent| sent.map_err(|_| Gone))
    }

    /// Waits until something could be said.
    pub(super) async fn room(&self) {
        // An error means that nobody listens, which the conversation hears otherwise.
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

    /// Waits until nobody listens any more.
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

/// The agent's end. When it is dropped, the conversation is over.
pub struct Outgoing {
    waiting: mpsc::Receiver<Said>,
    _over: DropGuard,
}

impl Outgoing {
    pub(super) fn new(waiting: mpsc::Receiver<Said>, over: DropGuard) -> Self {
        Self { waiting, _over: over }
    }
}

impl Stream for Outgoing {
    type Item = Said;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Said>> {
        self.waiting.poll_recv(cx)
    }
}
