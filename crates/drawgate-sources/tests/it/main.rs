//! Sources against servers that work, and against servers that do not.

mod conformance;
mod http_server;
mod mcp_http;
mod mcp_stdio;
mod oneshot;
mod support;
