//! What a folder has, so that not every protected name must be looked for. Most of them are not there,
//! and one look at the folder costs far less than one for each.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Dir, Mode, OFlags, open};
use rustix::io;

/// A folder with more entries is not read to its end: looking for each name costs less.
const MOST: usize = 1024;

/// The names of a folder's entries.
pub(crate) struct FolderEntries {
    /// In lower case; `None` if they are not known, and anything may be there.
    names: Option<BTreeSet<Vec<u8>>>,
}

impl FolderEntries {
    /// Reads the folder at a path; nothing is known of anything else.
    pub(crate) fn at(path: &Path) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open(path, flags, Mode::empty()).map_or(Self::unknown(), Self::of)
    }

    /// Reads an open folder.
    pub(crate) fn of(folder: impl AsFd) -> Self {
        Self { names: read(folder).ok().flatten() }
    }

    /// Nothing is known.
    pub(crate) const fn unknown() -> Self {
        Self { names: None }
    }

    /// Whether something of this relative path may be there: it is not if its first part is not.
    pub(crate) fn may_have(&self, path: &str) -> bool {
        let first = path.split('/').next().unwrap_or_default();
        let names = self.names.as_ref();
        names.is_none_or(|names| names.contains(first.to_ascii_lowercase().as_bytes()))
    }
}

/// The names, unless there are too many, or some by which a file system that knows no case may mean
/// others.
fn read(folder: impl AsFd) -> io::Result<Option<BTreeSet<Vec<u8>>>> {
    let mut names = BTreeSet::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_ascii_lowercase();
        if !name.is_ascii() || names.len() == MOST {
            return Ok(None);
        }
        names.insert(name);
    }
    Ok(Some(names))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_can_not_be_there_is_ruled_out() {
        let folder = tempfile::tempdir().unwrap();
        let look = || FolderEntries::at(folder.path());
        assert!(!look().may_have("CLAUDE.md"));
        fs::write(folder.path().join("claude.MD"), "").unwrap();
        fs::create_dir(folder.path().join(".git")).unwrap();
        let entries = look();
        assert!(entries.may_have("CLAUDE.md"), "a file system may know no case");
        assert!(entries.may_have(".git/hooks"), "what is deeper is not looked at");
        assert!(!entries.may_have(".github/workflows"));
        // U+017F is an `s` where case does not count.
        fs::write(folder.path().join(".ba\u{17f}hrc"), "").unwrap();
        assert!(look().may_have(".bashrc") && look().may_have(".github/workflows"));
        let file = folder.path().join("claude.MD");
        assert!(FolderEntries::at(&file).may_have(".bashrc"), "it is no folder");
    }

    #[test]
    fn a_large_folder_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=MOST {
            fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        assert!(FolderEntries::at(folder.path()).may_have(".bashrc"));
    }
}
