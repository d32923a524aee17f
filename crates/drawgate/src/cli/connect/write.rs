//! Writes a client's file: all of it or nothing, with the earlier content kept beside it.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

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
    put(path, content, None)?;
    Ok(Written::Created)
}

fn replace(path: &Path, content: &str) -> io::Result<Written> {
    let permissions = fs::metadata(path)?.permissions();
    let backup = beside(path, ".bak");
    fs::copy(path, &backup)?;
    put(path, content, Some(permissions))?;
    Ok(Written::Updated { backup })
}

fn put(path: &Path, content: &str, permissions: Option<fs::Permissions>) -> io::Result<()> {
    let temporary = beside(path, &format!(".{}.tmp", std::process::id()));
    let done = fill(&temporary, content, permissions).and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        // The error that matters is the one above.
        let _ = fs::remove_file(&temporary);
    }
    done
}

fn fill(path: &Path, content: &str, permissions: Option<fs::Permissions>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    // Before the content, which may be private.
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(suffix);
    path.with_file_name(name)
}
