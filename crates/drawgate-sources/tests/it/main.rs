//! Sources against servers that work, and against servers that do not.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed test may panic")]

mod conformance;
mod http_server;
mod mcp_http;
mod mcp_stdio;
mod oneshot;
mod support;
