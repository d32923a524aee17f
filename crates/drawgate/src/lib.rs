//! The program around a gateway: surfaces, sockets, command line, telemetry.

#![forbid(unsafe_code)]
#![deny(clippy::print_stderr, reason = "`notice!` shows what others wrote, and does not obey it")]

pub mod cli;
pub mod server;
pub mod surface;
pub mod telemetry;

/// The Rust program of `docs/agents.md`, which must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/agents.md")]
pub struct GuideForAgents;
