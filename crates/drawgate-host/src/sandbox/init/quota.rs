//! What the program adds to the folders that it may write.
//!
//! No file system counts that for a folder. So the folders are walked for files that are newer than the
//! program. Between two walks the file systems say how much may have been added at most, and as long as
//! that is within the limits, no walk is needed. Others who free as much meanwhile hide what is added,
//! and some file systems do not count files; so the folders are walked from time to time, too.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::count::Count;
use super::sweep::Folder;
use super::used::{Amount, Used};
use crate::sandbox::ResourceLimits;
use crate::sandbox::error::{Limit, SandboxError};

const MIB: u64 = 1024 * 1024;

/// How often the file systems are asked, and how often while nothing changes.
const TICK: Duration = Duration::from_millis(50);
const QUIET_TICK: Duration = Duration::from_millis(200);
/// The folders are walked again after this time; if the same is found, after twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// But walking by time takes one part in so many of the time at most, and walking for cause one in so
/// many: others may use the same file systems.
const SHARE: u32 = 20;
const SHARE_FOR_CAUSE: u32 = 2;

/// The box that is counted.
pub(super) trait Counted {
    /// Whether there is something more urgent to do than to count.
    fn is_called(&self) -> bool;
    /// What is used where its folders are.
    fn used(&self, folders: &[Folder]) -> Used {
        Used::of(folders)
    }
    /// What it holds open on these file systems that has no name any more; `None` if something more
    /// urgent has come.
    fn unlinked(&self, devices: &BTreeSet<u64>) -> Option<Amount>;
}

/// What a look finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Within,
    Exceeded(SandboxError),
    /// Nobody knows: something more urgent has come.
    Interrupted,
}

/// The counter.
pub(super) struct Quota {
    most: Amount,
    disk_mb: u64,
    started: i64,
    /// What was used at the start, at the last walk, and at the last look.
    first: Used,
    at_walk: Used,
    last: Used,
    is_quiet: bool,
    /// What the last walk found, when the next may begin, when it must, and how long that was put off.
    counted: Amount,
    may_walk: Instant,
    must_walk: Instant,
    pause: Duration,
}

impl Quota {
    /// Begins now.
    pub(super) fn new(limits: &ResourceLimits, folders: &[Folder]) -> Self {
        // The kernel gives this folder the time at which it is looked at.
        let started = std::fs::metadata("/proc/self").map_or(0, |now| now.ctime());
        Self::from_use(limits, started, Used::of(folders))
    }

    fn from_use(limits: &ResourceLimits, started: i64, used: Used) -> Self {
        let now = Instant::now();
        Self {
            most: Amount { files: limits.files, bytes: limits.disk_mb.saturating_mul(MIB) },
            disk_mb: limits.disk_mb,
            started,
            first: used.clone(),
            at_walk: used.clone(),
            last: used,
            is_quiet: false,
            counted: Amount::default(),
            may_walk: now,
            must_walk: now + FIRST_PAUSE,
            pause: FIRST_PAUSE,
        }
    }

    /// How long until the next look.
    pub(super) const fn tick(&self) -> Duration {
        if self.is_quiet { QUIET_TICK } else { TICK }
    }

    /// Looks while the program runs. Walking stops when there is something more urgent to do.
    pub(super) fn look(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        let now = Instant::now();
        let is_in_doubt = self.could_be_exceeded(folders, program);
        if now >= self.must_walk || is_in_doubt && now >= self.may_walk {
            return self.walk(folders, program);
        }
        Verdict::Within
    }

    /// Looks once more when nobody is left: a program that was too fast to be stopped has still
    /// exceeded its limit.
    pub(super) fn last_look(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        if self.could_be_exceeded(folders, program) {
            return self.walk(folders, program);
        }
        Verdict::Within
    }

    fn could_be_exceeded(&mut self, folders: &[Folder], program: &dyn Counted) -> bool {
        let used = program.used(folders);
        self.is_quiet = used == self.last;
        self.last = used;
        self.counted.plus(self.last.more_than(&self.at_walk)).is_above(self.most)
    }

    fn walk(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        let begun = Instant::now();
        // What is added while it is walked comes on top of what is found.
        let used = self.last.clone();
        let Some(count) = self.count(folders, program) else { return Verdict::Interrupted };
        let (now, took) = (Instant::now(), begun.elapsed());
        let is_same = count.new == self.counted;
        let pause = if is_same { (self.pause * 2).min(LAST_PAUSE) } else { FIRST_PAUSE };
        self.pause = pause.max(took.saturating_mul(SHARE));
        self.must_walk = now + self.pause;
        self.may_walk = now + took.saturating_mul(SHARE_FOR_CAUSE);
        self.counted = count.new;
        self.at_walk = used;
        self.judge(&count)
    }

    /// With what has no name; `None` if something more urgent has come.
    fn count(&self, folders: &[Folder], program: &dyn Counted) -> Option<Count> {
        let count = Count::new(self.started, self.most);
        let mut count = count.walked(folders, &|| program.is_called())?;
        let unlinked = program.unlinked(&self.first.devices().collect())?;
        count.new = count.new.plus(unlinked);
        if count.is_partial {
            // Who keeps others out of its folders answers for all that has been added anywhere.
            count.new = count.new.or_more(self.last.more_than(&self.first));
        }
        Some(count)
    }

    fn judge(&self, count: &Count) -> Verdict {
        let exceeded = |limit, most| Verdict::Exceeded(SandboxError::Limit { limit, most });
        if count.is_too_deep || count.new.files > self.most.files {
            exceeded(Limit::Files, self.most.files)
        } else if count.new.bytes > self.most.bytes {
            exceeded(Limit::Disk, self.disk_mb)
        } else {
            Verdict::Within
        }
    }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
