//! What the file systems of the writable folders lose, by whomever.
//!
//! They say so for next to nothing, but only all together. So this tells how much a program may have
//! added at most, not how much it has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::fs::{fstat, fstatvfs};

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

/// What is free, by file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Free {
    each: BTreeMap<u64, Amount>,
    /// Whether one of them does not tell: some have no number of files.
    is_silent: bool,
}

impl Free {
    /// As it is now.
    pub(super) fn of(folders: &[Folder]) -> Self {
        folders.iter().fold(Self::default(), |mut free, folder| {
            match (fstat(folder.handle()), fstatvfs(folder.handle())) {
                (Ok(which), Ok(found)) => {
                    let bytes = found.f_bfree.saturating_mul(found.f_frsize);
                    free.each.insert(which.st_dev, Amount { files: found.f_ffree, bytes });
                    free.is_silent |= found.f_files == 0;
                }
                (Err(_), _) | (_, Err(_)) => free.is_silent = true,
            }
            free
        })
    }

    /// One file system that says this.
    #[cfg(test)]
    pub(super) fn told(device: u64, free: Amount) -> Self {
        Self { each: BTreeMap::from([(device, free)]), is_silent: false }
    }

    /// One that says nothing.
    #[cfg(test)]
    pub(super) fn silent() -> Self {
        Self { each: BTreeMap::from([(1, Amount { files: 0, bytes: u64::MAX })]), is_silent: true }
    }

    /// The file systems' numbers.
    pub(super) fn devices(&self) -> impl Iterator<Item = u64> {
        self.each.keys().copied()
    }

    /// What there was more of before, on all of them together.
    fn less_than(&self, before: &Self) -> Amount {
        before.each.iter().fold(Amount::default(), |sum, (device, before)| {
            let now = self.each.get(device).copied().unwrap_or_default();
            sum.plus(before.minus(now))
        })
    }
}

/// The losses since some moment, look by look.
///
/// What one look sees come back does not make up for what another saw go, so others can hide a loss
/// only by freeing as much between the same two looks.
#[derive(Debug)]
pub(super) struct Losses {
    first: Free,
    last: Free,
    looked: Instant,
    /// How long the last two looks were apart, and what was lost between them.
    pace: (Duration, Amount),
    /// Since the last count.
    pub(super) since: Amount,
}

impl Losses {
    pub(super) fn new(first: Free) -> Self {
        let pace = (Duration::ZERO, Amount::default());
        let last = first.clone();
        Self { first, last, looked: Instant::now(), pace, since: Amount::default() }
    }

    /// Takes note of what is free; whether that has changed.
    pub(super) fn look(&mut self, now: Free) -> bool {
        let lost = now.less_than(&self.last);
        self.since = self.since.plus(lost);
        self.pace = (self.looked.elapsed(), lost);
        self.looked = Instant::now();
        let has_changed = now != self.last;
        self.last = now;
        has_changed
    }

    /// What there is less than at the start.
    pub(super) fn grown(&self) -> Amount {
        self.last.less_than(&self.first)
    }

    /// Whether more may be lost than is told.
    pub(super) const fn is_silent(&self) -> bool {
        self.last.is_silent
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
