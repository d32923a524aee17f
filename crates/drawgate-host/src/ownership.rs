//! Whether files and folders are ours alone, as sshd asks it of its keys.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Writable by the group, and by everybody.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;
/// Anything at all for the group and for everybody.
const OTHERS: u32 = 0o077;
/// A folder where only the owner of a file may replace it.
const STICKY: u32 = 0o1000;

/// Ours, or the system administrator's, who can do anything anyway.
#[must_use]
pub fn is_ours(found: &Metadata) -> bool {
    let us = rustix::process::geteuid().as_raw();
    [us, 0].contains(&found.uid())
}

/// Whether others may put something else in the place of what is in a folder.
#[must_use]
pub fn others_replace_in(folder: &Metadata) -> bool {
    let mode = folder.mode();
    let by_group = mode & GROUP_WRITES != 0 && !is_private(folder.uid(), folder.gid());
    (by_group || mode & ALL_WRITE != 0) && mode & STICKY == 0
}

/// Whether others may write a file.
#[must_use]
pub fn others_write(file: &Metadata) -> bool {
    file.mode() & (GROUP_WRITES | ALL_WRITE) != 0
}

/// Whether others may do anything with it.
#[must_use]
pub fn is_open(found: &Metadata) -> bool {
    found.mode() & OTHERS != 0
}

/// Many systems give each user a group of the same number, and let it write what the user makes.
const fn is_private(owner: u32, group: u32) -> bool {
    owner != 0 && owner == group
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
