//! The way to the client before the answer to its request.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::event_buffer::EventBuffer;
use super::replays::Replays;
use super::sessions::Session;

/// Sends the reply to one request. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ReplyChannel {
    pub(crate) buffer: Arc<EventBuffer>,
    /// Cancelled when the client has gone for good.
    pub(crate) gone: CancellationToken,
    pub(crate) resumption: Option<Resumption>,
}

/// By what a stream can be taken up again.
#[derive(Clone)]
pub(crate) struct Resumption {
    pub(crate) replays: Arc<Replays>,
    pub(crate) number: u64,
    /// Whether the client understands an event that has only an id.
    pub(crate) primes: bool,
}

impl ReplyChannel {
    /// To a client whose leaving ends its request.
    pub(crate) fn new() -> Self {
        Self {
            buffer: Arc::new(EventBuffer::new(None)),
            gone: CancellationToken::new(),
            resumption: None,
        }
    }

    /// To a client that can come back, as far as its session lets it.
    pub(crate) fn resumable(session: &Session) -> Self {
        let Some(number) = session.replays.number() else { return Self::new() };
        let (replays, primes) = (Arc::clone(&session.replays), session.primes());
        Self {
            buffer: Arc::new(EventBuffer::new(Some(number))),
            gone: CancellationToken::new(),
            resumption: Some(Resumption { replays, number, primes }),
        }
    }

    /// Sends a message that must not get lost.
    pub(crate) fn send(&self, message: &Value) {
        self.buffer.push_required(message.to_string().as_bytes());
    }

    /// Sends a message that a slow client may miss.
    pub(crate) fn send_optional(&self, message: &Value) {
        self.buffer.push_optional(message.to_string().as_bytes());
    }
}
