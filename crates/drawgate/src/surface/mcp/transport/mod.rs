//! Streamable HTTP, and standard input and output by a bridge: requests come in and answers go out here.

pub mod bridge;
pub(crate) mod http;
mod negotiation;
mod post;
mod reply;
mod response;
mod sessions;
mod watch;
