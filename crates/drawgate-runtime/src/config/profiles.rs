//! Where the profiles of agents are.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The folder that is read if none is named.
const FOLDER: &str = "agents";

/// Profiles of agents that the gateway runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Profiles {
    /// Folders with profiles, `*.md`. Folders below them are not read. A profile counts once you have
    /// accepted it: `drawgate profiles accept NAME`. Relative to this file's folder.
    #[schemars(extend("format" = "trusted-path"))]
    pub folders: Vec<PathBuf>,
}

impl Default for Profiles {
    fn default() -> Self {
        Self { folders: vec![PathBuf::from(FOLDER)] }
    }
}

impl Profiles {
    /// Whether a folder need not exist: nobody named it.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        *self == Self::default()
    }
}
