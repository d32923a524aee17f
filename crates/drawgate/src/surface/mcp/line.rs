//! The way to a client while its request is performed: the answer is plain JSON, unless something
//! must be said before it, or it takes long. Then it becomes a stream of events, with the answer as the
//! last.
//!
//! A client that leaves has cancelled its request, except in a session over HTTP: there the protocol
//! says that a broken connection means nothing. The work goes on, and the client can take the stream up
//! again, until it has been away for too long.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::message::{INTERNAL_ERROR, RequestId, RpcError};
use super::replays::Replays;
use super::said::Said;
use super::session::Session;
use super::sse;

/// How long an answer that could be plain is waited for, before it becomes a stream that can be taken
/// up again.
const STREAM_AFTER: Duration = Duration::from_millis(100);

/// Performs a request.
type Work = Pin<Box<dyn Future<Output = Result<Response, RpcError>> + Send>>;

/// The way to a client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Line {
    said: Arc<Said>,
    /// Cancelled when the client has gone for good.
    pub(super) gone: CancellationToken,
    resumption: Option<Arc<Resumption>>,
}

/// By what a stream can be taken up again.
struct Resumption {
    replays: Arc<Replays>,
    number: u64,
    /// Whether the client understands an event that has only an id.
    primes: bool,
}

/// When an answer becomes a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streaming {
    /// As soon as the work takes time: the client waits for reports.
    AtOnce,
    /// Only if there is something to say before the answer.
    WhenNeeded,
}

impl Line {
    /// To a client whose leaving ends its request.
    pub(super) fn new() -> Self {
        Self { said: Arc::new(Said::new(None)), gone: CancellationToken::new(), resumption: None }
    }

    /// To a client that can come back, as far as its session lets it.
    pub(super) fn resumable(session: &Session) -> Self {
        let Some(number) = session.replays.number() else { return Self::new() };
        let (replays, primes) = (Arc::clone(&session.replays), session.primes());
        Self {
            said: Arc::new(Said::new(Some(number))),
            gone: CancellationToken::new(),
            resumption: Some(Arc::new(Resumption { replays, number, primes })),
        }
    }

    /// Says something that must not get lost.
    pub(super) fn say(&self, message: &Value) {
        self.said.say(message.to_string().as_bytes());
    }

    /// Says something that a slow client may miss.
    pub(super) fn mention(&self, message: &Value) {
        self.said.mention(message.to_string().as_bytes());
    }

    /// Performs the work and answers. Once the answer is a stream the work has a task of its own, so
    /// that a client that does not read can't hold it up.
    pub(super) async fn respond(
        self,
        id: &RequestId,
        streaming: Streaming,
        work: Work,
    ) -> Result<Response, RpcError> {
        let primes = self.resumption.as_ref().is_some_and(|resumption| resumption.primes);
        let mut under_way = UnderWay { line: self.clone(), id: id.clone(), work: Some(work) };
        tokio::select! {
            biased;
            done = under_way.done() => return self.finished(done, id).await,
            () = self.said.anything() => {}
            () = std::future::ready(()), if streaming == Streaming::AtOnce => {}
            () = tokio::time::sleep(STREAM_AFTER), if primes => {}
        }
        let mut reader = self.said.read_after(0);
        if let Some(Resumption { replays, number, .. }) = self.resumption.as_deref() {
            replays.begin(*number, &self.said);
        } else {
            reader = reader.or_else(self.gone.clone().drop_guard());
        }
        if primes {
            self.said.prime();
        }
        under_way.go_on();
        Ok(sse::response(reader.into_body()))
    }

    /// What was said before an answer that came at once goes before it.
    async fn finished(
        self,
        done: Result<Response, RpcError>,
        id: &RequestId,
    ) -> Result<Response, RpcError> {
        let mut said = self.said.take();
        if said.is_empty() {
            return done;
        }
        said.extend_from_slice(&sse::event(&message(done, id).await));
        Ok(sse::response(Body::from(said)))
    }

    /// Performs the work, and cancels it when the client has been away for too long.
    async fn perform(self, mut work: Work, id: RequestId) {
        let done = match self.resumption.as_deref() {
            None => work.await,
            Some(Resumption { replays, .. }) => tokio::select! {
                biased;
                done = &mut work => done,
                () = self.said.abandoned(replays.time()) => {
                    self.gone.cancel();
                    work.await
                }
            },
        };
        self.said.conclude(&message(done, &id).await);
        if let Some(Resumption { replays, number, .. }) = self.resumption.as_deref() {
            replays.over(*number);
        }
    }
}

/// Work that is not done. A client that leaves before its answer has become a stream drops it: then it
/// goes on, where leaving does not end it.
struct UnderWay {
    line: Line,
    id: RequestId,
    work: Option<Work>,
}

impl UnderWay {
    async fn done(&mut self) -> Result<Response, RpcError> {
        let Some(work) = &mut self.work else { return std::future::pending().await };
        let done = work.await;
        self.work = None;
        done
    }

    fn go_on(mut self) {
        if let Some(work) = self.work.take() {
            tokio::spawn(self.line.clone().perform(work, self.id.clone()));
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        // There is no runtime to go on with while the program ends.
        let runtime = tokio::runtime::Handle::try_current();
        match (&self.line.resumption, runtime) {
            (Some(_), Ok(runtime)) => {
                runtime.spawn(self.line.clone().perform(work, self.id.clone()));
            }
            _ => self.line.gone.cancel(),
        }
    }
}

/// An answer as the message in it.
async fn message(done: Result<Response, RpcError>, id: &RequestId) -> Bytes {
    let unreadable = || RpcError::new(INTERNAL_ERROR, "the result could not be written");
    let body = match done {
        Ok(response) => response.into_body().collect().await.map_err(|_| unreadable()),
        Err(error) => Err(error),
    };
    match body {
        Ok(body) => body.to_bytes(),
        Err(error) => error.of(id).to_bytes().into(),
    }
}
