//! The limits `disk_mb` and `files`: what a program adds to the folders that it may write.
//!
//! No file system counts that for a folder. So the folders are walked for files that are newer than the
//! program: when their file systems have grown so much since the last walk that a limit may be exceeded,
//! and every [`LONGEST_PAUSE`].

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::{StatVfs, fstat, fstatvfs};

use super::count::Count;
use super::sweep::Folder;
use super::unlinked::Namespace;
use crate::sandbox::ResourceLimits;
use crate::sandbox::error::{Limit, SandboxError};

const MIB: u64 = 1024 * 1024;

/// How often the file systems are asked: in general, and while they grow so fast that the limit is near.
/// A program can make thousands of files in a tenth of a second; one that waits costs next to nothing.
const TICK: Duration = Duration::from_millis(100);
const TICK_NEAR: Duration = Duration::from_millis(10);
/// A limit is near if it would be reached in so many looks.
const NEAR: u64 = 8;
/// The pause between two walks while a limit may be exceeded, and while it can't be. Others may use the
/// same file systems.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// But walking takes one part in so many of the time at most, in these two cases.
const SHARE: u32 = 20;
const ROUTINE_SHARE: u32 = 1000;

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

    fn times(self, factor: u64) -> Self {
        let by = |number: u64| number.saturating_mul(factor);
        Self { files: by(self.files), bytes: by(self.bytes) }
    }

    fn each(self, other: Self, by: impl Fn(u64, u64) -> u64) -> Self {
        Self { files: by(self.files, other.files), bytes: by(self.bytes, other.bytes) }
    }
}

/// What is used of each file system, by all of its users together. Some do not tell how many files they
/// have; then it is none. What is free would not do: some work out how many files there is room for from
/// the free space.
#[derive(Debug, Default, Clone)]
struct Used(BTreeMap<u64, Amount>);

impl Used {
    fn of(folders: &[Folder]) -> Self {
        let each = folders.iter().filter_map(|folder| {
            let device = fstat(folder.handle()).ok()?.st_dev;
            Some((device, used(&fstatvfs(folder.handle()).ok()?)))
        });
        Self(each.collect())
    }

    /// By how much the file systems have grown, together.
    fn more_than(&self, before: &Self) -> Amount {
        self.0.iter().fold(Amount::default(), |sum, (device, now)| {
            let before = before.0.get(device).copied().unwrap_or_default();
            sum.plus(now.each(before, u64::saturating_sub))
        })
    }
}

fn used(found: &StatVfs) -> Amount {
    let blocks = found.f_blocks.saturating_sub(found.f_bfree);
    Amount {
        files: found.f_files.saturating_sub(found.f_ffree),
        bytes: blocks.saturating_mul(found.f_frsize),
    }
}

/// What a look finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Within,
    Exceeded(SandboxError),
    /// The walk was interrupted, so it is not known.
    Interrupted,
}

/// The limits of one box.
pub(super) struct Quota {
    most: Amount,
    disk_mb: u64,
    started: i64,
    /// What the last walk found, and what was used of the file systems when it began.
    found: Amount,
    before: Used,
    /// What was used at the last look.
    last: Used,
    /// Whether the next look comes sooner.
    is_urgent: bool,
    /// When a walk may begin if a limit may be exceeded, and when it begins in any case.
    may_walk: Instant,
    must_walk: Instant,
}

impl Quota {
    /// Begins now.
    pub(super) fn new(limits: &ResourceLimits, folders: &[Folder]) -> Self {
        // The kernel gives this folder the time at which it is looked at.
        let started = std::fs::metadata("/proc/self").map_or(0, |now| now.ctime());
        let (now, used) = (Instant::now(), Used::of(folders));
        Self {
            most: Amount { files: limits.files, bytes: limits.disk_mb.saturating_mul(MIB) },
            disk_mb: limits.disk_mb,
            started,
            found: Amount::default(),
            before: used.clone(),
            last: used,
            is_urgent: false,
            may_walk: now,
            must_walk: now + LONGEST_PAUSE,
        }
    }

    /// How long until the next look.
    pub(super) const fn tick(&self) -> Duration {
        if self.is_urgent { TICK_NEAR } else { TICK }
    }

    /// Looks while the program runs; `processes` are those whose open files count.
    pub(super) fn look(
        &mut self,
        folders: &[Folder],
        processes: Option<Namespace>,
        interrupted: &dyn Fn() -> bool,
    ) -> Verdict {
        let used = Used::of(folders);
        let most_new = self.most_new(&used);
        let left = self.most.each(most_new, u64::saturating_sub);
        self.is_urgent = used.more_than(&self.last).times(NEAR).is_above(left);
        self.last = used;
        if !self.is_due(most_new, Instant::now()) {
            return Verdict::Within;
        }
        self.walk(folders, processes, interrupted)
    }

    /// What the program can have added at most: what the last walk found, and all that came to the file
    /// systems since.
    fn most_new(&self, used: &Used) -> Amount {
        self.found.plus(used.more_than(&self.before))
    }

    /// Looks once more when the program has ended: one that was too fast to be stopped has still
    /// exceeded its limit.
    pub(super) fn last_look(
        &mut self,
        folders: &[Folder],
        interrupted: &dyn Fn() -> bool,
    ) -> Verdict {
        if !self.most_new(&Used::of(folders)).is_above(self.most) {
            return Verdict::Within;
        }
        self.walk(folders, None, interrupted)
    }

    fn is_due(&self, most_new: Amount, now: Instant) -> bool {
        now >= self.must_walk || most_new.is_above(self.most) && now >= self.may_walk
    }

    fn walk(
        &mut self,
        folders: &[Folder],
        processes: Option<Namespace>,
        interrupted: &dyn Fn() -> bool,
    ) -> Verdict {
        let (begun, used) = (Instant::now(), Used::of(folders));
        let most_new = self.most_new(&used);
        let count = Count::new(self.started, self.most).walked(folders, interrupted);
        let Some(count) = count else { return Verdict::Interrupted };
        let devices = self.before.0.keys().copied().collect();
        let unlinked = match processes {
            Some(processes) => processes.unlinked(&devices, interrupted),
            None => Some(Amount::default()),
        };
        let Some(unlinked) = unlinked else { return Verdict::Interrupted };
        let mut new = count.new.plus(unlinked);
        if count.is_partial {
            // A program that closes its folders answers for all that was added to the file systems.
            new = new.each(most_new, u64::max);
        }
        let (took, now) = (begun.elapsed(), Instant::now());
        self.may_walk = now + took.saturating_mul(SHARE).max(SHORTEST_PAUSE);
        self.must_walk = now + took.saturating_mul(ROUTINE_SHARE).max(LONGEST_PAUSE);
        (self.found, self.before) = (new, used);
        self.judge(new)
    }

    fn judge(&self, new: Amount) -> Verdict {
        let exceeded = |limit, most| Verdict::Exceeded(SandboxError::Limit { limit, most });
        if new.files > self.most.files {
            exceeded(Limit::Files, self.most.files)
        } else if new.bytes > self.most.bytes {
            exceeded(Limit::Disk, self.disk_mb)
        } else {
            Verdict::Within
        }
    }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
