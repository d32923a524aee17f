//! What is used of the file systems of the writable folders, by whomever.
//!
//! They say so for next to nothing, but only all together. So this tells how much a program may have
//! added at most, not how much it has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::fs::{StatVfs, fstat, fstatvfs};

use super::sweep::Folder;

/// No look comes sooner after another.
const SHORTEST: Duration = Duration::from_millis(5);

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

    pub(super) fn minus(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// The larger of each.
    pub(super) fn or_more(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    fn each(self, other: Self, by: impl Fn(u64, u64) -> u64) -> Self {
        Self { files: by(self.files, other.files), bytes: by(self.bytes, other.bytes) }
    }
}

/// What file systems do not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Silence {
    /// Some have no number of files.
    pub(super) files: bool,
    pub(super) bytes: bool,
}

impl Silence {
    const ALL: Self = Self { files: true, bytes: true };

    fn of(found: &StatVfs) -> Self {
        let is_number = |all: u64, free: u64| all > 0 && all >= free;
        Self {
            files: !is_number(found.f_files, found.f_ffree),
            bytes: !is_number(found.f_blocks, found.f_bfree),
        }
    }

    fn and(self, other: Self) -> Self {
        Self { files: self.files || other.files, bytes: self.bytes || other.bytes }
    }
}

/// What is used, by file system. What is free would not do: some work out how many files there is room
/// for from the free space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Used {
    each: BTreeMap<u64, Amount>,
    silence: Silence,
}

impl Used {
    /// As it is now.
    pub(super) fn of(folders: &[Folder]) -> Self {
        folders.iter().fold(Self::default(), |mut used, folder| {
            let silence = match (fstat(folder.handle()), fstatvfs(folder.handle())) {
                (Ok(which), Ok(found)) => {
                    used.each.insert(which.st_dev, amount(&found));
                    Silence::of(&found)
                }
                (Err(_), _) | (_, Err(_)) => Silence::ALL,
            };
            used.silence = used.silence.and(silence);
            used
        })
    }

    /// One file system that says this.
    #[cfg(test)]
    pub(super) fn told(device: u64, used: Amount) -> Self {
        Self { each: BTreeMap::from([(device, used)]), silence: Silence::default() }
    }

    /// One that says nothing about files.
    #[cfg(test)]
    pub(super) fn silent(bytes: u64) -> Self {
        let silence = Silence { files: true, bytes: false };
        Self { each: BTreeMap::from([(1, Amount { files: 0, bytes })]), silence }
    }

    /// The file systems' numbers.
    pub(super) fn devices(&self) -> impl Iterator<Item = u64> {
        self.each.keys().copied()
    }

    /// What there was less of before, on all of them together.
    fn more_than(&self, before: &Self) -> Amount {
        self.each.iter().fold(Amount::default(), |sum, (device, now)| {
            let before = before.each.get(device).copied().unwrap_or_default();
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

/// What file systems have lost since some moment, look by look.
///
/// What one look sees come back does not make up for what another saw go, so others can hide a loss
/// only by freeing as much between the same two looks.
#[derive(Debug)]
pub(super) struct Losses {
    first: Used,
    last: Used,
    looked: Instant,
    /// How long the last two looks were apart, and what was lost between them.
    pace: (Duration, Amount),
    /// Since the last count.
    pub(super) since: Amount,
}

impl Losses {
    pub(super) fn new(first: Used) -> Self {
        let pace = (Duration::ZERO, Amount::default());
        let last = first.clone();
        Self { first, last, looked: Instant::now(), pace, since: Amount::default() }
    }

    /// Takes note of what is used; whether that has changed.
    pub(super) fn look(&mut self, now: Used) -> bool {
        let lost = now.more_than(&self.last);
        self.since = self.since.plus(lost);
        self.pace = (self.looked.elapsed(), lost);
        self.looked = Instant::now();
        let has_changed = now != self.last;
        self.last = now;
        has_changed
    }

    /// What is used more than at the start.
    pub(super) fn grown(&self) -> Amount {
        self.last.more_than(&self.first)
    }

    /// Of what more may be lost than is told.
    pub(super) const fn silence(&self) -> Silence {
        self.last.silence
    }

    /// The file systems' numbers.
    pub(super) fn devices(&self) -> impl Iterator<Item = u64> {
        self.first.devices()
    }

    /// How long until the next look, if so much is left: half of what it takes at this pace, but
    /// `longest` at most.
    pub(super) fn pause(&self, left: Amount, longest: Duration) -> Duration {
        let (time, lost) = self.pace;
        let enough = |left: u64, lost: u64| {
            let looks = left.checked_div(lost.saturating_mul(2))?;
            Some(time.saturating_mul(u32::try_from(looks).unwrap_or(u32::MAX)))
        };
        let soonest = [enough(left.files, lost.files), enough(left.bytes, lost.bytes)];
        let soonest = soonest.into_iter().flatten().min();
        soonest.map_or(longest, |soonest| soonest.clamp(SHORTEST, longest))
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
        let before = Used::told(1, amount(&told));
        // As many files fit as blocks are free.
        (told.f_bfree, told.f_files, told.f_ffree) = (500, 800, 500);
        let after = Used::told(1, amount(&told));
        assert_eq!(after.more_than(&before), Amount { files: 0, bytes: 100 * 4096 });
        (told.f_files, told.f_ffree) = (800, 490);
        let later = Used::told(1, amount(&told));
        assert_eq!(later.more_than(&after), Amount { files: 10, bytes: 0 });
        assert_eq!(after.more_than(&later), Amount::default());
    }

    #[test]
    fn what_is_not_told_is_known() {
        let mut told = rustix::fs::statvfs("/").unwrap();
        (told.f_blocks, told.f_bfree, told.f_files, told.f_ffree) = (1000, 10, 0, 0);
        assert_eq!(Silence::of(&told), Silence { files: true, bytes: false });
        let all = Silence::of(&told).and(Silence { files: false, bytes: true });
        assert_eq!(all, Silence::ALL);
    }
}
