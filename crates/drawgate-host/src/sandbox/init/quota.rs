//! The limits `disk_mb` and `files`: what a program adds to the folders that it may write.
//!
//! No file system counts that for a folder. So the folders are walked for files that are newer than the
//! program: when their file systems have grown by more than the limits, and every [`LONGEST_PAUSE`].

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

/// How often the file systems are asked: while they have grown little, and while a limit is near. A
/// program can make thousands of files in a tenth of a second.
const TICK: Duration = Duration::from_millis(100);
const TICK_NEAR: Duration = Duration::from_millis(10);
/// The pause between two walks while a limit may be exceeded, and while it can't be. Others may use the
/// same file systems.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// But walking takes one part in so many of the time at most.
const SHARE: u32 = 20;

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

    fn each(self, other: Self, by: impl Fn(u64, u64) -> u64) -> Self {
        Self { files: by(self.files, other.files), bytes: by(self.bytes, other.bytes) }
    }
}

/// What is used of each file system, by all of its users together. Some do not tell how many files they
/// have; then it is none. What is free would not do: some work out how many files there is room for from
/// the free space.
#[derive(Debug, Default)]
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
    before: Used,
    /// Whether the file systems have grown by more than half of a limit.
    is_near: bool,
    /// When a walk may begin if a limit may be exceeded, and when it begins in any case.
    may_walk: Instant,
    must_walk: Instant,
}

impl Quota {
    /// Begins now.
    pub(super) fn new(limits: &ResourceLimits, folders: &[Folder]) -> Self {
        // The kernel gives this folder the time at which it is looked at.
        let started = std::fs::metadata("/proc/self").map_or(0, |now| now.ctime());
        let now = Instant::now();
        Self {
            most: Amount { files: limits.files, bytes: limits.disk_mb.saturating_mul(MIB) },
            disk_mb: limits.disk_mb,
            started,
            before: Used::of(folders),
            is_near: false,
            may_walk: now,
            must_walk: now + LONGEST_PAUSE,
        }
    }

    /// How long until the next look.
    pub(super) const fn tick(&self) -> Duration {
        if self.is_near { TICK_NEAR } else { TICK }
    }

    /// Looks while the program runs; `processes` are those whose open files count.
    pub(super) fn look(
        &mut self,
        folders: &[Folder],
        processes: Option<Namespace>,
        interrupted: &dyn Fn() -> bool,
    ) -> Verdict {
        let grown = Used::of(folders).more_than(&self.before);
        self.is_near = grown.plus(grown).is_above(self.most);
        if !self.is_due(grown, Instant::now()) {
            return Verdict::Within;
        }
        self.walk(folders, grown, processes, interrupted)
    }

    /// Looks once more when the program has ended: one that was too fast to be stopped has still
    /// exceeded its limit.
    pub(super) fn last_look(
        &mut self,
        folders: &[Folder],
        interrupted: &dyn Fn() -> bool,
    ) -> Verdict {
        let grown = Used::of(folders).more_than(&self.before);
        if !grown.is_above(self.most) {
            return Verdict::Within;
        }
        self.walk(folders, grown, None, interrupted)
    }

    fn is_due(&self, grown: Amount, now: Instant) -> bool {
        now >= self.must_walk || grown.is_above(self.most) && now >= self.may_walk
    }

    fn walk(
        &mut self,
        folders: &[Folder],
        grown: Amount,
        processes: Option<Namespace>,
        interrupted: &dyn Fn() -> bool,
    ) -> Verdict {
        let begun = Instant::now();
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
            new = new.each(grown, u64::max);
        }
        let pause = begun.elapsed().saturating_mul(SHARE);
        self.may_walk = Instant::now() + pause.max(SHORTEST_PAUSE);
        self.must_walk = Instant::now() + pause.max(LONGEST_PAUSE);
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
