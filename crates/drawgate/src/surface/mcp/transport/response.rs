//! The responses of the HTTP end: a message, a stream of events, a refusal in plain text.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use crate::surface::mcp::wire::message::RpcError;

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error in the protocol's own form.
pub(crate) fn rpc(error: &RpcError) -> Response {
    json(error.status, error.to_bytes())
}

/// Nothing but a status.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A refusal before the protocol's own form applies.
pub(crate) fn plain(status: StatusCode, message: &str) -> Response {
    let mut response = Response::new(Body::from(format!("{message}\n")));
    *response.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    }
    response
}

/// A response that is a stream of events.
pub(crate) fn stream(body: Body) -> Response {
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
