//! Writing so that a crash leaves the old or the new, and nothing between.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Replaces a file's content. The caller makes sure that no other process does so at the same time.
pub(crate) fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let unfinished = unfinished(path);
    discard(&unfinished)?;
    write_new(&unfinished, content, mode)?;
    fs::rename(&unfinished, path)?;
    sync_folder(path.parent().unwrap_or(path))
}

/// Writes a file that must not be there, and has it on the disk. The mode does not depend on the
/// user's mask.
fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = create(path, mode)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Begins a file that must not be there.
fn create(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Where [`replace`] works before it is done. A process that was killed may have left it.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

/// Removes a file, if there is one.
fn discard(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Has the names in a folder on the disk.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
