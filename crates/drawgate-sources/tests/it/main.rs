//! Sources against servers that work, and against servers that do not.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed test may panic")]

mod command;
mod conformance;
mod feature_server;
mod http_server;
mod library;
mod mcp_features;
mod mcp_http;
mod mcp_http_features;
mod mcp_http_rude;
mod mcp_oauth;
mod mcp_outages;
mod mcp_sse;
mod mcp_stdio;
mod mcp_supervision;
mod mcp_unreadable;
mod mcp_websocket;
mod oneshot;
mod openapi;
mod pack;
mod plain_server;
mod support;
mod toolpack;
