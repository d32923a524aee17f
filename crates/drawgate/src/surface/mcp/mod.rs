//! MCP, as a server: streamable HTTP, and standard input and output by a bridge.
//!
//! Both eras of the protocol end here: revisions with sessions (2025-03-26 to 2025-11-25) and the one
//! without (2026-07-28). What passes on to the gate knows of neither.

pub mod bridge;
mod call;
mod era;
mod http;
mod lists;
mod message;
mod methods;
mod resources;
mod session;
mod sse;
mod watch;

use std::sync::Arc;

use drawgate_core::pipeline::Gateway;

pub use http::{Transport, handle};
pub use session::Sessions;

use crate::telemetry::Spans;

/// The MCP server. Cheap to clone.
#[derive(Clone)]
pub struct Mcp {
    inner: Arc<Inner>,
}

struct Inner {
    gateway: Gateway,
    sessions: Sessions,
    lists: lists::Lists,
    streams: watch::Streams,
    spans: Spans,
    max_body: usize,
}

impl Mcp {
    /// An MCP server in front of a gate.
    #[must_use]
    pub fn new(gateway: Gateway, sessions: Sessions, spans: Spans, max_body: usize) -> Self {
        let inner = Inner {
            gateway,
            sessions,
            lists: lists::Lists::default(),
            streams: watch::Streams::default(),
            spans,
            max_body,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Ends all open streams, so that connections can close.
    pub fn close(&self) {
        self.inner.streams.close();
    }

    /// Forgets sessions that have been idle for too long.
    pub fn sweep(&self) {
        self.inner.sessions.sweep();
    }

    /// Sessions that are open.
    #[must_use]
    pub fn open_sessions(&self) -> usize {
        self.inner.sessions.len()
    }
}
