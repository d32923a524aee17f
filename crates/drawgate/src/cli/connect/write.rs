//! Writes a client's file, with the earlier content kept beside it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use super::super::files;
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
    /// Merges the entry into the client's file and writes it.
    pub fn apply(&self) -> anyhow::Result<Written> {
        // People link such files to where they version them: replace the file, not the link.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let existing = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.with_context(|| format!("can't read `{}`", path.display()))?),
        };
        let content = self
            .merge(existing.as_deref())
            .with_context(|| format!("`{}` was left as it is", path.display()))?;
        let written = match existing {
            Some(existing) if existing == content => return Ok(Written::Unchanged),
            Some(_) => replace(&path, &content),
            None => create(&path, &content),
        };
        written.with_context(|| format!("can't write `{}`", path.display()))
    }
}

fn create(path: &Path, content: &str) -> io::Result<Written> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    files::put(path, content)?;
    Ok(Written::Created)
}

fn replace(path: &Path, content: &str) -> io::Result<Written> {
    let backup = files::back_up(path)?;
    files::put(path, content)?;
    Ok(Written::Updated { backup })
}
