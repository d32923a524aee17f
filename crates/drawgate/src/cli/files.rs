//! Files that commands change: all of a file or nothing of it.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// How many copies of a file are kept beside it.
const MAX_COPIES: usize = 99;

/// Puts this content into a file, whole or not at all. One that is there keeps its permissions.
pub(super) fn put(path: &Path, content: &str) -> io::Result<()> {
    let permissions = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => Some(found?.permissions()),
    };
    let temporary = beside(path, &format!(".{}.tmp", std::process::id()));
    let done = fill(&temporary, content, permissions).and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        // The error that matters is the one above.
        let _ = fs::remove_file(&temporary);
    }
    done
}

/// Makes a folder, with those above it, for its owner alone. One that is there stays as it is.
pub(super) fn make_private_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Copies a file to one beside it that ends in `.bak`.
pub(super) fn back_up(path: &Path) -> io::Result<PathBuf> {
    let backup = beside(path, ".bak");
    fs::copy(path, &backup)?;
    Ok(backup)
}

/// Copies a file to a new one beside it, with this suffix and, if need be, a number. Only its owner can
/// read the copy.
pub(super) fn keep_copy(path: &Path, suffix: &str) -> io::Result<PathBuf> {
    let numbered = (2..=MAX_COPIES).map(|number| format!("{suffix}-{number}"));
    let names = std::iter::once(suffix.to_owned()).chain(numbered);
    let free = names.map(|suffix| beside(path, &suffix)).find(|copy| !copy.exists());
    let copy = free.ok_or_else(|| io::Error::other("there are too many copies already"))?;
    let content = fs::read_to_string(path)?;
    fill(&copy, &content, Some(fs::Permissions::from_mode(0o600)))?;
    Ok(copy)
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
