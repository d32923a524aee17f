//! Where tools come from: one folder for each kind of source, holding its configuration, discovery
//! and execution. A source translates; it decides nothing.

pub mod builtin;
mod configure;
mod excerpt;
pub mod kind;
pub mod mcp;
pub mod oneshot;

pub use kind::{ConfigError, KINDS, SourceKind, build, kind};
