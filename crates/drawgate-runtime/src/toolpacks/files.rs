//! Writing so that a crash leaves the old or the new, and nothing between.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use drawgate_core::canonical;
use drawgate_host::user_files;

use super::error::ToolpackError;

/// Replaces a file's content. The caller makes sure that no other process does so at the same time.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), ToolpackError> {
    let unfinished = unfinished(path);
    discard(&unfinished)?;
    write_new(&unfinished, content, mode).map_err(ToolpackError::io("write", path))?;
    move_over(&unfinished, path)
}

/// Moves a finished file to where it belongs, for good.
pub(super) fn move_over(from: &Path, to: &Path) -> Result<(), ToolpackError> {
    fs::rename(from, to).map_err(ToolpackError::io("write", to))?;
    sync_folder(to.parent().unwrap_or(to))
}

/// Writes a file that must not be there, and has it on the disk. The mode does not depend on the
/// user's mask.
pub(super) fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = create(path, mode)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Begins a file that must not be there.
pub(super) fn create(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Where [`replace`] works before it is done. A process that was killed may have left it.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    path.with_file_name(name)
}

/// Removes a file, if there is one.
pub(super) fn discard(path: &Path) -> Result<(), ToolpackError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ToolpackError::io("remove", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Has the names in a folder on the disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), ToolpackError> {
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(ToolpackError::io("write", folder))
}

/// A file's content; `None` if there is no such file.
pub(super) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, ToolpackError> {
    match user_files::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ToolpackError::io("read", path)(error)),
    }
}

/// A random, unused name.
pub(super) fn random_name() -> Result<String, ToolpackError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| ToolpackError::NoRandomness)?;
    Ok(canonical::hex(&bytes))
}
