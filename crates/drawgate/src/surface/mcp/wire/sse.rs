//! Server-sent events: one JSON message each, so that no text of a tool can end an event early.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

/// How long a client waits before it takes a stream up again, in milliseconds.
const RETRY_MS: u64 = 500;

/// One event. The message is JSON on one line.
pub(crate) fn event(message: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(message.len() + 24);
    out.extend_from_slice(b"event: message\ndata: ");
    out.extend_from_slice(message);
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// The same with an id, after which a stream can be taken up again.
pub(crate) fn event_with_id(id: &str, message: &[u8]) -> Bytes {
    [b"id: ", id.as_bytes(), b"\nevent: message\ndata: ", message, b"\n\n"].concat().into()
}

/// An event that says only its id, and how long to wait before a stream that broke is taken up again.
pub(crate) fn priming(id: &str) -> Bytes {
    format!("id: {id}\nretry: {RETRY_MS}\ndata: \n\n").into()
}

/// Nothing, to show that the connection lives.
pub(crate) fn keep_alive() -> Bytes {
    Bytes::from_static(b": keep-alive\n\n")
}

/// A response that is a stream of events.
pub(crate) fn response(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that gather answers would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Events as they come; ends with the channel. Dropping it, as a lost client does, cancels the work.
pub(crate) struct Events {
    received: mpsc::Receiver<Bytes>,
    _cancel_on_drop: DropGuard,
}

impl Events {
    pub(crate) fn new(received: mpsc::Receiver<Bytes>, guard: DropGuard) -> Self {
        Self { received, _cancel_on_drop: guard }
    }
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.received.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
