//! Writes a client's file: all of it or nothing, with the earlier content kept beside it.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{MergeError, Plan};

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// The file already said so.
    Unchanged,
    /// A new file.
    Created,
    /// The file was changed; its earlier content is here.
    Updated {
        /// The copy.
        backup: PathBuf,
    },
}

/// Why a client's file was not written.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// It could not be read.
    #[error("can't read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its content could not be changed safely. Nothing was written.
    #[error("`{}` was left as it is", path.display())]
    Merge {
        /// The file.
        path: PathBuf,
        /// Why.
        source: MergeError,
    },
    /// It could not be written.
    #[error("can't write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Plan {
    /// Merges the entry into the client's file and writes it.
    pub fn apply(&self) -> Result<Applied, ApplyError> {
        // People link such files to where they version them: replace the file, not the link.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let existing = read(&path)?;
        let content = self
            .merge(existing.as_deref())
            .map_err(|source| ApplyError::Merge { path: path.clone(), source })?;
        if existing.as_deref() == Some(content.as_str()) {
            return Ok(Applied::Unchanged);
        }
        let written = match existing {
            Some(_) => replace(&path, &content),
            None => create(&path, &content),
        };
        written.map_err(|source| ApplyError::Write { path, source })
    }
}

fn read(path: &Path) -> Result<Option<String>, ApplyError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ApplyError::Read { path: path.to_owned(), source }),
    }
}

fn create(path: &Path, content: &str) -> io::Result<Applied> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    put(path, content, None)?;
    Ok(Applied::Created)
}

fn replace(path: &Path, content: &str) -> io::Result<Applied> {
    let permissions = fs::metadata(path)?.permissions();
    let backup = beside(path, ".bak");
    fs::copy(path, &backup)?;
    put(path, content, Some(permissions))?;
    Ok(Applied::Updated { backup })
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
