//! The reply to one request. It is plain JSON, unless messages must be sent before the answer or the
//! answer takes long. Then it becomes a stream of events, with the answer as the last.
//!
//! A client that leaves has cancelled its request, except in a session over HTTP: there the protocol
//! says that a broken connection means nothing. The work goes on, and the client can take the stream up
//! again, until it has been away for too long.

use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::StatusCode;

use super::response::{self, json};
use crate::surface::mcp::session::reply::{ReplyChannel, Resumption};
use crate::surface::mcp::wire::message::{RequestId, RpcError};
use crate::surface::mcp::wire::sse;

/// How long an answer that could be plain is waited for, before it becomes a stream that can be taken
/// up again.
const STREAM_AFTER: Duration = Duration::from_millis(100);

/// Performs a request, and writes its answer.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Vec<u8>, RpcError>> + Send>>;

/// When an answer becomes a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streaming {
    /// As soon as the work takes time: the client waits for reports.
    AtOnce,
    /// Only if messages must be sent before the answer.
    WhenNeeded,
}

/// Performs the work and answers. Once the answer is a stream the work has a task of its own, so
/// that a client that does not read can't hold it up.
pub(crate) async fn respond(
    reply: ReplyChannel,
    id: &RequestId,
    streaming: Streaming,
    work: Work,
) -> Result<Response, RpcError> {
    let primes = reply.resumption.as_ref().is_some_and(|resumption| resumption.primes);
    let mut under_way = UnfinishedWork { reply: reply.clone(), id: id.clone(), work: Some(work) };
    tokio::select! {
        biased;
        done = under_way.done() => return finished(&reply, done, id),
        () = reply.buffer.wait_for_event() => {}
        () = std::future::ready(()), if streaming == Streaming::AtOnce => {}
        () = tokio::time::sleep(STREAM_AFTER), if primes => {}
    }
    let mut reader = reply.buffer.read_after(0);
    if let Some(Resumption { replays, number, .. }) = &reply.resumption {
        replays.begin(*number, &reply.buffer);
    } else {
        reader = reader.or_else(reply.gone.clone().drop_guard());
    }
    if primes {
        reply.buffer.prime();
    }
    under_way.detach();
    Ok(response::stream(Body::from_stream(reader.into_stream())))
}

/// Puts the messages that were sent before an immediate answer in front of it.
fn finished(
    reply: &ReplyChannel,
    done: Result<Vec<u8>, RpcError>,
    id: &RequestId,
) -> Result<Response, RpcError> {
    let mut buffer = reply.buffer.take();
    if buffer.is_empty() {
        return done.map(|message| json(StatusCode::OK, message));
    }
    buffer.extend_from_slice(&sse::event(&message(done, id)));
    Ok(response::stream(Body::from(buffer)))
}

/// Performs the work, and cancels it when the client has been away for too long.
async fn perform(reply: ReplyChannel, mut work: Work, id: RequestId) {
    let done = match &reply.resumption {
        None => work.await,
        Some(Resumption { replays, .. }) => tokio::select! {
            biased;
            done = &mut work => done,
            () = reply.buffer.abandoned(replays.time()) => {
                reply.gone.cancel();
                work.await
            }
        },
    };
    reply.buffer.conclude(&message(done, &id));
    if let Some(Resumption { replays, number, .. }) = &reply.resumption {
        replays.finish(*number);
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
            tokio::spawn(perform(self.reply.clone(), work, self.id.clone()));
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
                runtime.spawn(perform(self.reply.clone(), work, self.id.clone()));
            }
            _ => self.reply.gone.cancel(),
        }
    }
}

/// An answer as a message, whether or not it is an error.
fn message(done: Result<Vec<u8>, RpcError>, id: &RequestId) -> Vec<u8> {
    done.unwrap_or_else(|error| error.of(id).to_bytes())
}
