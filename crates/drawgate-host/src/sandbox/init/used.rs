//! What is used of the file systems of the writable folders, by whomever.
//!
//! They say so for next to nothing, but only all together. So this tells how much a program may have
//! added at most, not how much it has.

use std::collections::BTreeMap;

use rustix::fs::{StatVfs, fstat, fstatvfs};

use super::sweep::Folder;

/// Files and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Amount {
    /// Whether there is more of anything.
    pub(super) const fn is_above(self, most: Self) -> bool {
        self.files > most.files || self.bytes > most.bytes
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// The larger of each.
    pub(super) fn or_more(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    fn minus(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    fn each(self, other: Self, by: impl Fn(u64, u64) -> u64) -> Self {
        Self { files: by(self.files, other.files), bytes: by(self.bytes, other.bytes) }
    }
}

/// What is used, by file system. Some do not tell how many files they have; then it is none. What is
/// free would not do: some work out how many files there is room for from the free space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Used(BTreeMap<u64, Amount>);

impl Used {
    /// As it is now.
    pub(super) fn of(folders: &[Folder]) -> Self {
        let each = folders.iter().filter_map(|folder| {
            let device = fstat(folder.handle()).ok()?.st_dev;
            Some((device, amount(&fstatvfs(folder.handle()).ok()?)))
        });
        Self(each.collect())
    }

    /// One file system that says this.
    #[cfg(test)]
    pub(super) fn told(used: Amount) -> Self {
        Self(BTreeMap::from([(1, used)]))
    }

    /// The file systems' numbers.
    pub(super) fn devices(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// What there was less of before, on all of them together.
    pub(super) fn more_than(&self, before: &Self) -> Amount {
        self.0.iter().fold(Amount::default(), |sum, (device, now)| {
            let before = before.0.get(device).copied().unwrap_or_default();
            sum.plus(now.minus(before))
        })
    }
}

fn amount(found: &StatVfs) -> Amount {
    let blocks = found.f_blocks.saturating_sub(found.f_bfree);
    Amount {
        files: found.f_files.saturating_sub(found.f_ffree),
        bytes: blocks.saturating_mul(found.f_frsize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_others_take_is_no_loss_of_files() {
        let mut told = rustix::fs::statvfs("/").unwrap();
        (told.f_blocks, told.f_bfree, told.f_frsize) = (1000, 600, 4096);
        (told.f_files, told.f_ffree) = (900, 600);
        let before = Used::told(amount(&told));
        // As many files fit as blocks are free.
        (told.f_bfree, told.f_files, told.f_ffree) = (500, 800, 500);
        let after = Used::told(amount(&told));
        assert_eq!(after.more_than(&before), Amount { files: 0, bytes: 100 * 4096 });
        (told.f_files, told.f_ffree) = (800, 490);
        let later = Used::told(amount(&told));
        assert_eq!(later.more_than(&after), Amount { files: 10, bytes: 0 });
        assert_eq!(after.more_than(&later), Amount::default());
    }
}
