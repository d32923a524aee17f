//! Whether a file and the folders on the way to it are ours alone.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{FileProblem, unreadable};

/// Writable by the group, and by everybody.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;
/// A folder where only the owner of a file may replace it.
const STICKY: u32 = 0o1000;

/// Checks a folder and those above it, up to the root or the user's home: who may write one of them
/// can put another folder in the place of the one below.
pub(super) fn check_folders(folder: &Path, home: Option<&Path>) -> Result<(), FileProblem> {
    for above in folder.ancestors() {
        check_folder(above, &above.metadata().map_err(unreadable(above))?)?;
        if Some(above) == home {
            break;
        }
    }
    Ok(())
}

fn check_folder(folder: &Path, metadata: &Metadata) -> Result<(), FileProblem> {
    let shown = || folder.display().to_string();
    if !is_ours(metadata) {
        return Err(FileProblem::NotOurs(shown()));
    }
    let mode = metadata.mode();
    let by_group = mode & GROUP_WRITES != 0 && !is_private(metadata.uid(), metadata.gid());
    if (by_group || mode & ALL_WRITE != 0) && mode & STICKY == 0 {
        return Err(FileProblem::Writable(shown()));
    }
    Ok(())
}

/// Many systems give each user a group of the same number, and let it write what the user makes.
const fn is_private(owner: u32, group: u32) -> bool {
    owner != 0 && owner == group
}

pub(super) fn check_file(path: &Path, metadata: &Metadata) -> Result<(), FileProblem> {
    let shown = || path.display().to_string();
    if !metadata.is_file() {
        return Err(FileProblem::NotAFile(shown()));
    }
    if !is_ours(metadata) {
        return Err(FileProblem::NotOurs(shown()));
    }
    if metadata.mode() & (GROUP_WRITES | ALL_WRITE) != 0 {
        return Err(FileProblem::Writable(shown()));
    }
    Ok(())
}

/// Ours, or the system administrator's, who can do anything anyway.
fn is_ours(metadata: &Metadata) -> bool {
    let us = rustix::process::geteuid().as_raw();
    [us, 0].contains(&metadata.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_users_own_group_is_private() {
        let rows = [(1000, 1000, true), (1000, 100, false), (1000, 0, false), (0, 0, false)];
        for (owner, group, expected) in rows {
            assert_eq!(is_private(owner, group), expected, "{owner}:{group}");
        }
    }
}
