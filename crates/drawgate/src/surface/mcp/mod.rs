//! MCP, as a server: streamable HTTP, and standard input and output by a bridge.
//!
//! Both eras of the protocol end here: revisions with sessions (2025-03-26 to 2025-11-25) and the one
//! without (2026-07-28). What passes on to the gate knows of neither.

mod caller;
mod lists;
mod methods;
mod session;
mod state;
mod transport;
mod wire;

pub use caller::transport::Transport;
pub use methods::tasks::FORMAT as TASK_FORMAT;
pub use session::sessions::Sessions;
pub use state::Mcp;
pub use transport::bridge;
pub use transport::http::handle;

#[cfg(test)]
#[path = "size_tests.rs"]
mod size_tests;

#[cfg(test)]
mod structure_tests;
