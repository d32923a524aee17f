//! What a client and the gateway remember of each other between messages, and the events on the stream of a request.

pub(crate) mod event_buffer;
pub(crate) mod questions;
pub(crate) mod replays;
pub(crate) mod reply;
pub(crate) mod sessions;
pub(crate) mod subscribed;
