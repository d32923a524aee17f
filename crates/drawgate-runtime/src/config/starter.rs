//! The file that `drawgate init` writes.

/// A commented configuration that loads as it is and does what no configuration does.
pub const STARTER: &str = include_str!("starter.toml");
