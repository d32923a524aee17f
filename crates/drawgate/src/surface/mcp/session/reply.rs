//! The reply to one request. It is plain JSON, unless messages must be sent before the answer or the
//! answer takes long. Then it becomes a stream of events, with the answer as the last.
//!
//! A client that leaves has cancelled its request, except in a session over HTTP: there the protocol
//! says that a broken connection means nothing. The work goes on, and the client can take the stream up
//! again, until it has been away for too long.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::surface::mcp::session::event_buffer::EventBuffer;
use crate::surface::mcp::session::replays::Replays;
use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::wire::message::{RequestId, RpcError};
use crate::surface::mcp::wire::sse;

/// How long an answer that could be plain is waited for, before it becomes a stream that can be taken
/// up again.
const STREAM_AFTER: Duration = Duration::from_millis(100);

/// Performs a request.
type Work = Pin<Box<dyn Future<Output = Result<Vec<u8>, RpcError>> + Send>>;

/// Sends the reply to one request. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ReplyChannel {
    buffer: Arc<EventBuffer>,
    /// Cancelled when the client has gone for good.
    pub(crate) gone: CancellationToken,
    resumption: Option<Resumption>,
}

/// By what a stream can be taken up again.
#[derive(Clone)]
struct Resumption {
    replays: Arc<Replays>,
    number: u64,
    /// Whether the client understands an event that has only an id.
    primes: bool,
}

/// The reply to one request.
pub(crate) enum Reply {
    /// The answer alone.
    Message(Vec<u8>),
    /// Events, with the answer as the last.
    Stream(Response),
}

/// When an answer becomes a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streaming {
    /// As soon as the work takes time: the client waits for reports.
    AtOnce,
    /// Only if messages must be sent before the answer.
    WhenNeeded,
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

    /// Performs the work and answers. Once the answer is a stream the work has a task of its own, so
    /// that a client that does not read can't hold it up.
    pub(crate) async fn respond(
        self,
        id: &RequestId,
        streaming: Streaming,
        work: Work,
    ) -> Result<Reply, RpcError> {
        let primes = self.resumption.as_ref().is_some_and(|resumption| resumption.primes);
        let mut under_way =
            UnfinishedWork { reply: self.clone(), id: id.clone(), work: Some(work) };
        tokio::select! {
            biased;
            done = under_way.done() => return self.finished(done, id),
            () = self.buffer.wait_for_event() => {}
            () = std::future::ready(()), if streaming == Streaming::AtOnce => {}
            () = tokio::time::sleep(STREAM_AFTER), if primes => {}
        }
        let mut reader = self.buffer.read_after(0);
        if let Some(Resumption { replays, number, .. }) = &self.resumption {
            replays.begin(*number, &self.buffer);
        } else {
            reader = reader.or_else(self.gone.clone().drop_guard());
        }
        if primes {
            self.buffer.prime();
        }
        under_way.detach();
        Ok(Reply::Stream(sse::response(reader.into_body())))
    }

    /// Puts the messages that were sent before an immediate answer in front of it.
    fn finished(self, done: Result<Vec<u8>, RpcError>, id: &RequestId) -> Result<Reply, RpcError> {
        let mut buffer = self.buffer.take();
        if buffer.is_empty() {
            return done.map(Reply::Message);
        }
        buffer.extend_from_slice(&sse::event(&message(done, id)));
        Ok(Reply::Stream(sse::response(Body::from(buffer))))
    }

    /// Performs the work, and cancels it when the client has been away for too long.
    async fn perform(self, mut work: Work, id: RequestId) {
        let done = match &self.resumption {
            None => work.await,
            Some(Resumption { replays, .. }) => tokio::select! {
                biased;
                done = &mut work => done,
                () = self.buffer.abandoned(replays.time()) => {
                    self.gone.cancel();
                    work.await
                }
            },
        };
        self.buffer.conclude(&message(done, &id));
        if let Some(Resumption { replays, number, .. }) = &self.resumption {
            replays.finish(*number);
        }
    }
}

/// Work that is not done. A client that leaves before its answer has become a stream drops it: then it
/// goes on, where leaving does not end it.
struct UnfinishedWork {
    reply: ReplyChannel,
    id: RequestId,
    work: Option<Work>,
}

impl UnfinishedWork {
    async fn done(&mut self) -> Result<Vec<u8>, RpcError> {
        let Some(work) = &mut self.work else { return std::future::pending().await };
        let done = work.await;
        self.work = None;
        done
    }

    fn detach(mut self) {
        if let Some(work) = self.work.take() {
            tokio::spawn(self.reply.clone().perform(work, self.id.clone()));
        }
    }
}

impl Drop for UnfinishedWork {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        // There is no runtime to go on with while the program ends.
        let runtime = tokio::runtime::Handle::try_current();
        match (&self.reply.resumption, runtime) {
            (Some(_), Ok(runtime)) => {
                runtime.spawn(self.reply.clone().perform(work, self.id.clone()));
            }
            _ => self.reply.gone.cancel(),
        }
    }
}

/// An answer as a message, whether or not it is an error.
fn message(done: Result<Vec<u8>, RpcError>, id: &RequestId) -> Vec<u8> {
    done.unwrap_or_else(|error| error.of(id).to_bytes())
}
