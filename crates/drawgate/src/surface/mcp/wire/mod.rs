//! The protocol as it is written: messages, the two eras, headers, events. It knows of no session and of no method's work.

pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod era;
pub(crate) mod headers;
pub(crate) mod message;
pub(crate) mod method;
pub(crate) mod notice;
pub(crate) mod parameters;
pub(crate) mod sse;
pub(crate) mod stateless;
pub(crate) mod tool_result;
