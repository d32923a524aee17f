//! A gateway as a library: configuration, assembly, operations, and the loops that keep it going.
//!
//! Programs embed it by [`Runtime`]: `open`, `apply` an edited configuration, `close`. It serves no
//! network protocol and reads no command line: HTTP, gRPC and commands belong to the program around it.

#![forbid(unsafe_code)]

pub mod agents;
mod anchors;
pub mod assemble;
mod background;
pub mod callers;
pub mod config;
pub mod edits;
mod files;
mod follow;
pub mod lock;
pub mod operations;
pub mod packages;
pub mod packs;
pub mod peers;
pub mod plugins;
pub mod profiles;
pub mod providers;
pub mod refusals;
mod settle;
mod start;
#[cfg(test)]
mod structure_tests;
pub mod tasks;
pub mod time;
pub mod toolpack_sources;
pub mod toolpacks;
mod upkeep;
mod webhook;

pub use assemble::Runtime;
