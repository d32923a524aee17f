//! Where tools come from: one folder for each kind of source, holding its configuration, discovery
//! and execution. A source translates; it decides nothing.

#![forbid(unsafe_code)]

pub mod backoff;
pub mod builtin;
mod call_deadline;
pub mod command;
mod configure;
pub mod confine;
mod excerpt;
mod failed_request;
pub mod kind;
pub mod line_rpc;
pub mod mcp;
pub mod oneshot;
pub mod openapi;
pub mod pace;
pub mod pack;
mod reserved;
pub mod schema;
pub mod server;
pub mod setting;
pub mod shape;
pub mod suggest;
pub mod toolpack;
pub mod yaml;

pub use kind::{ConfigError, KINDS, Kinds, SourceKind};
