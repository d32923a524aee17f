//! Everything that touches the machine: child processes, outgoing HTTP, the environment, the clock
//! and storage. Knows nothing of tools or of MCP.
//!
//! The calls that the rest of the workspace must not make (spawning, HTTP clients, the environment)
//! are made here and nowhere else.

pub mod clock;
pub mod credentials;
pub mod egress;
pub mod host;
pub mod own_files;
pub mod ownership;
pub mod process;
pub mod repoll;
pub mod sandbox;
pub mod seal;
pub mod secrets;
pub mod store;
pub mod trusted;
pub mod user_files;

pub use host::Host;
