//! The way to a client while its request is performed: the answer is plain JSON, unless something
//! must be said before it. Then it becomes a stream of events, with the answer as the last.

use std::pin::Pin;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::message::{INTERNAL_ERROR, RequestId, RpcError};
use super::sse;

/// Events that wait for a slow client; more reports are dropped.
const MAX_WAITING: usize = 32;

/// The way to a client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Line {
    events: mpsc::Sender<Bytes>,
    /// Cancelled when the client has gone.
    pub(super) gone: CancellationToken,
}

/// The other end, which becomes the answer.
pub(super) struct Outlet {
    line: Line,
    received: mpsc::Receiver<Bytes>,
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
    pub(super) fn new() -> (Self, Outlet) {
        let (events, received) = mpsc::channel(MAX_WAITING);
        let line = Self { events, gone: CancellationToken::new() };
        (line.clone(), Outlet { line, received })
    }

    /// Says something that must not get lost; waits for a slow client.
    pub(super) async fn say(&self, message: &Value) {
        // The client may be gone; then there is nobody to tell.
        let _ = self.events.send(sse::event(message.to_string().as_bytes())).await;
    }

    /// Says something that a slow client may miss. One place stays free for the answer.
    pub(super) fn mention(&self, message: &Value) {
        if self.events.capacity() > 1 {
            let _ = self.events.try_send(sse::event(message.to_string().as_bytes()));
        }
    }

    /// Shows that the connection lives.
    pub(super) fn keep_alive(&self) {
        if self.events.capacity() > 1 {
            let _ = self.events.try_send(sse::keep_alive());
        }
    }
}

impl Outlet {
    /// Performs the work and answers. Once the answer is a stream the work has a task of its own, so
    /// that a client that does not read can't hold it up; a client that leaves ends it.
    pub(super) async fn respond(
        self,
        id: &RequestId,
        streaming: Streaming,
        mut work: Pin<Box<dyn Future<Output = Result<Response, RpcError>> + Send>>,
    ) -> Result<Response, RpcError> {
        let Self { line, mut received } = self;
        let guard = line.gone.clone().drop_guard();
        let first = tokio::select! {
            biased;
            done = &mut work => return finished(done, received, id).await,
            event = received.recv() => event,
            () = std::future::ready(()), if streaming == Streaming::AtOnce => None,
        };
        let id = id.clone();
        tokio::spawn(async move {
            let answer = message(work.await, &id).await;
            let _ = line.events.send(sse::event(&answer)).await;
        });
        Ok(sse::response(Body::new(sse::Events::new(received, guard).after(first))))
    }
}

/// What was said before an answer that came at once goes before it.
async fn finished(
    done: Result<Response, RpcError>,
    mut received: mpsc::Receiver<Bytes>,
    id: &RequestId,
) -> Result<Response, RpcError> {
    let mut said = Vec::new();
    while let Ok(event) = received.try_recv() {
        said.extend_from_slice(&event);
    }
    if said.is_empty() {
        return done;
    }
    said.extend_from_slice(&sse::event(&message(done, id).await));
    Ok(sse::response(Body::from(said)))
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
