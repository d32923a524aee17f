//! Writes a client's file, with the earlier content kept in the data folder.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::files::{self, Change};
use super::Plan;

/// What was done to a client's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "written", rename_all = "snake_case")]
pub enum Written {
    /// Nothing; its content is only shown.
    No,
    /// Nothing, since it was up to date.
    Unchanged,
    /// A new file was made.
    Created,
    /// The file was changed.
    Updated {
        /// A copy of its earlier content.
        backup: PathBuf,
    },
}

impl Plan {
    /// Merges the entry into the client's file and writes it; `data` is the data folder, for a copy.
    pub fn apply(&self, data: &Path) -> anyhow::Result<Written> {
        let change = files::change(&self.path, data, |existing| self.merge(existing))?;
        Ok(match change {
            Change::None => Written::Unchanged,
            Change::Created => Written::Created,
            Change::Updated(backup) => Written::Updated { backup },
        })
    }
}
