//! Write tool packs and agents for Drawgate, the tool gateway for AI agents.
//!
//! A **pack** is a program that offers tools. It can run anywhere: it dials the gateway, proves who it
//! is with an SSH key, says which tools it has, and runs what is called. An **agent** is a program that
//! calls tools, and logs in the same way. The gateway stands between them: it checks arguments,
//! capabilities and time limits, and keeps the records.
//!
//! # A pack
//!
//! A tool is an async function. Its input type gives the schema of its arguments, and its output is
//! anything that can be serialised:
//!
//! ```no_run
//! use drawgate_sdk::{Call, Gateway, Key, Pack, PackClient, ToolError, tool};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use std::time::Duration;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct ReadFile {
//!     /// Where the file is.
//!     path: String,
//! }
//!
//! async fn read_file(input: ReadFile, _: Call) -> Result<String, ToolError> {
//!     Ok(std::fs::read_to_string(input.path)?)
//! }
//!
//! async fn delete_file(input: ReadFile, call: Call) -> Result<(), ToolError> {
//!     if input.path.is_empty() {
//!         return Err(ToolError::new("`path` is empty; name a file"));
//!     }
//!     call.progress(0.0, Some(1.0), "deleting").await;
//!     Ok(std::fs::remove_file(input.path)?)
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let pack = Pack::new("file-tools", "1.0.0")
//!         .tool(tool("read_file", "Reads a file.").capability("filesystem").run(read_file))
//!         .tool(
//!             tool("delete_file", "Deletes a file.")
//!                 .capability("filesystem")
//!                 .capability("destructive")
//!                 .timeout(Duration::from_secs(5))
//!                 .annotation("destructiveHint", true)
//!                 .run(delete_file),
//!         );
//!     let gateway = Gateway::at("http://127.0.0.1:7700")?;
//!     let key = Key::from_file("id_ed25519")?;
//!     PackClient::new(gateway, key).serve(pack).await?;
//!     Ok(())
//! }
//! ```
//!
//! The gateway must know the key: `drawgate keys add --pack file-tools id_ed25519.pub`.
//!
//! Tools that are more than a function implement [`Tool`]. What a tool is told about its call (time,
//! cancellation, trace context) is in [`Call`].
//!
//! # An agent
//!
//! ```no_run
//! use drawgate_sdk::{AgentClient, Backoff, CallError, Gateway, Key};
//! use serde_json::json;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let gateway = Gateway::at("https://tools.example.com")?
//!         .identity("SHA256:pEB2lSYRMH5iZ8PVhkaH3wdAVFUfKUu6MFoQ8JgNvBQ");
//!     let key = Key::from_file("id_ed25519")?;
//!     let agent = AgentClient::new(gateway, key, "research-bot")
//!         .reconnect(Backoff::default())
//!         .connect()
//!         .await?;
//!     match agent.call("read_file", json!({ "path": "/etc/hostname" })).await {
//!         Ok(output) => println!("{}", output.text()),
//!         Err(error) if error.code == CallError::UNAVAILABLE => println!("try again later"),
//!         Err(error) => return Err(error.into()),
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # What can be relied on
//!
//! - Plaintext (`http://`) stays on this machine unless [`Gateway::allow_plaintext`] says otherwise;
//!   elsewhere it is TLS, with the system's certificates or [`Gateway::ca_file`].
//! - The gateway proves its own identity at each login, and [`Gateway::identity`] holds it to one.
//!   What is signed counts for one connection to one gateway at one address.
//! - A call is run at most once. What was under way when a connection broke is cancelled at the pack and
//!   fails as [`CallError::UNAVAILABLE`] at the agent; nothing is repeated.
//! - A lost connection comes back after a random time that grows ([`Backoff`]). A refusal is an error
//!   ([`ConnectionError::is_final`]) and not tried again unless [`PackClient::retry_refusals`] says so.
//! - A tool that panics fails its call, not the pack. Calls under way are bounded
//!   ([`Pack::max_concurrent_calls`]), messages too ([`MAX_MESSAGE`]).
//!
//! # Other languages, and without the client
//!
//! The contract is `proto/drawgate.proto`; it is enough to write a pack in any language that has gRPC.
//! The generated code is in [`proto`], what a login signs in [`statement`]. Without the feature
//! `client` the crate is these two modules alone, and the feature `services` says whether the first of
//! them has the gRPC services beside the messages.

#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod agent;
#[cfg(feature = "client")]
mod gateway;
#[cfg(feature = "client")]
mod key;
#[cfg(feature = "client")]
mod pack;
pub mod proto;
pub mod statement;

#[cfg(feature = "client")]
pub use agent::{
    Agent, AgentClient, AgentTool, Artifact, CallError, McpAccess, Progress, ToolCall, ToolOutput,
};
#[cfg(feature = "client")]
pub use gateway::{AddressError, Backoff, ConnectionError, Event, Gateway, MAX_MESSAGE};
#[cfg(feature = "client")]
pub use key::{AgentKey, Key, KeyError};
#[cfg(feature = "client")]
pub use pack::{
    Answer, Call, Definition, FnTool, NoInput, Pack, PackClient, Tool, ToolError, tool,
};
#[cfg(feature = "client")]
pub use tokio_util::sync::CancellationToken;
