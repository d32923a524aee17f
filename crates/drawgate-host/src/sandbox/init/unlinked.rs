//! Files without a name that the box's processes hold open: they take space, but no walk finds them.
//!
//! What is only mapped into memory, or on its way through a socket, is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::quota::Amount;

/// The namespace of a box's processes, as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Namespace(u64);

impl Namespace {
    /// That of a process; `None` where the system does not say.
    pub(super) fn of(process: Pid) -> Option<Self> {
        Self::at(Path::new(&format!("/proc/{}", process.as_raw_nonzero())))
    }

    fn at(process: &Path) -> Option<Self> {
        fs::metadata(process.join("ns/pid")).ok().map(|found| Self(found.ino()))
    }

    /// What its processes hold open on these file systems; `None` if something more urgent has come.
    pub(super) fn unlinked(
        self,
        devices: &BTreeSet<u64>,
        interrupted: &dyn Fn() -> bool,
    ) -> Option<Amount> {
        let mut found = BTreeMap::new();
        let processes = below(Path::new("/proc"));
        for process in processes.filter(|process| Self::at(process) == Some(self)) {
            // Threads may have open files of their own.
            for thread in below(&process.join("task")) {
                if interrupted() {
                    return None;
                }
                let open = below(&thread.join("fd")).filter_map(|file| fs::metadata(file).ok());
                let nameless = open.filter(|file| {
                    file.is_file() && file.nlink() == 0 && devices.contains(&file.dev())
                });
                found.extend(nameless.map(|file| ((file.dev(), file.ino()), file.blocks())));
            }
        }
        Some(total(&found))
    }
}

/// The entries of a folder that are numbers.
fn below(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().map_or(&[][..], |name| name.as_encoded_bytes());
        name.iter().all(u8::is_ascii_digit)
    })
}

fn total(found: &BTreeMap<(u64, u64), u64>) -> Amount {
    found.values().fold(Amount::default(), |sum, blocks| {
        sum.plus(Amount { files: 1, bytes: blocks.saturating_mul(512) })
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn an_open_file_without_a_name_is_found() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![1; 3 << 20]).unwrap();
        let which = file.metadata().unwrap();
        let own = Namespace::of(rustix::process::getpid()).unwrap();
        let found = own.unlinked(&BTreeSet::from([which.dev()]), &|| false).unwrap();
        assert!(found.files >= 1 && found.bytes >= 3 << 20, "{found:?}");
        let nowhere = own.unlinked(&BTreeSet::new(), &|| false);
        assert_eq!(nowhere, Some(Amount::default()));
        assert_eq!(own.unlinked(&BTreeSet::from([which.dev()]), &|| true), None);
    }
}
