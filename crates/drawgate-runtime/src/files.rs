//! Writing so that a crash leaves the old or the new, and nothing between.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use drawgate_core::canonical;

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
pub(crate) fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = create(path, mode)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Begins a file that must not be there.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<File> {
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
pub(crate) fn discard(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Deletes a file or a folder with all in it, if it is there, without following links.
pub(crate) fn delete(place: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(place).is_ok_and(|data| data.is_dir()) {
        return discard(place);
    }
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Has the names in a folder on the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A random, unused name; none where the machine gives no random bytes.
pub(crate) fn random_name() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(canonical::hex(&bytes))
}
