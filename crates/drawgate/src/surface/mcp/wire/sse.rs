//! Server-sent events: one JSON message each, so that no text of a tool can end an event early.

use bytes::Bytes;

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
