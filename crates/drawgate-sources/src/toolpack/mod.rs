//! Toolpacks: installable bundles of tools.
//!
//! A pack's manifest says which programs, MCP servers and APIs its tools come from. Each becomes a
//! source of its own kind, held to what the pack declared; the bundle presents their tools under the
//! pack's names. Where packs come from and which are trusted is decided elsewhere.

mod build;
mod config;
mod connector;
mod examine;
mod loaded_files;
pub mod manifest;
mod part;
mod permissions;
mod restrictions;
mod source;
mod survey;

pub use config::{Override, ToolpackConfig};
pub use connector::{ConnectorKind, ConnectorSettings, PackContext, Selection};
pub use examine::{Finding, examine};
pub use manifest::{FILE, Manifest, Problem, Problems, schema};
pub use permissions::{PermissionChange, Permissions, Program};
pub use source::ToolpackSource;

use crate::kind::SourceKind;

/// Kind `toolpack`.
pub const KIND: SourceKind = SourceKind::new("toolpack");
