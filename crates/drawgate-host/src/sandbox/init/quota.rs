//! What the program adds to the folders that it may write.
//!
//! No file system counts that for a folder. So the file systems say how much it may be at most (what
//! was counted last, and what they have lost since), and the folders' files that are newer than the
//! program say how much it is. As long as the first is within the limits, counting can wait.
//!
//! What remains: others who free as much between the same two looks hide a loss, until the next count
//! that comes by time, or for good if the program has ended by then. More names for one file take
//! neither a file nor, as a rule, space; they too are counted by time only.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::count::Count;
use super::losses::{Amount, Free, Losses};
use super::sweep::Folder;
use crate::sandbox::ResourceLimits;
use crate::sandbox::error::{Limit, SandboxError};

const MIB: u64 = 1024 * 1024;
/// Until a limit is near, counting takes one part in so many of the time.
const SHARE: u32 = 20;
/// But it is not put off for longer than this, or so many times what it takes.
const LONGEST: (Duration, u32) = (Duration::from_millis(200), 8);

/// The box that is counted.
pub(super) trait Counted {
    /// Whether there is something more urgent to do than to count.
    fn is_called(&self) -> bool;
    /// Stops its processes, so that they can neither outrun the counting nor hide from it.
    fn pause(&self);
    /// Lets them go on.
    fn resume(&self);
    /// What is free where its folders are.
    fn free(&self, folders: &[Folder]) -> Free {
        Free::of(folders)
    }
    /// What they hold open on these file systems that has no name any more.
    fn unlinked(&self, devices: &BTreeSet<u64>) -> Amount;
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
    losses: Losses,
    /// By the last count that can be relied on.
    counted: Amount,
    /// Whether that could not look everywhere.
    is_partial: bool,
    quiet: u32,
    next_count: Instant,
    /// Whether the last count was above half of a limit.
    is_near: bool,
}

impl Quota {
    /// Begins now.
    pub(super) fn new(limits: &ResourceLimits, folders: &[Folder]) -> Self {
        Self {
            most: Amount { files: limits.files, bytes: limits.disk_mb.saturating_mul(MIB) },
            disk_mb: limits.disk_mb,
            // The kernel gives this folder the time at which it is looked at.
            started: std::fs::metadata("/proc/self").map_or(0, |now| now.ctime()),
            losses: Losses::new(Free::of(folders)),
            counted: Amount::default(),
            is_partial: false,
            quiet: 0,
            next_count: Instant::now(),
            is_near: false,
        }
    }

    /// How long until the next look: longer while nothing happens, shorter where a limit may be
    /// exceeded by then.
    pub(super) fn pause(&self, tick: Duration) -> Duration {
        let longest = tick.saturating_mul(1 + self.quiet.min(40) / 10);
        self.losses.pause(self.most.minus(self.at_most()), longest)
    }

    /// Looks while the program runs. Counting stops when there is something more urgent to do.
    pub(super) fn look(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        let has_changed = self.losses.look(program.free(folders));
        self.quiet = if has_changed { 0 } else { self.quiet.saturating_add(1) };
        if self.could_be_exceeded() {
            return self.count_paused(folders, program);
        }
        let is_due = has_changed || self.losses.is_silent();
        if !is_due || Instant::now() < self.next_count {
            return Verdict::Within;
        }
        if self.is_near {
            return self.count_paused(folders, program);
        }
        self.count_running(folders, program)
    }

    /// Looks once more when nobody is left: a program that was too fast to be stopped has still
    /// exceeded its limit.
    pub(super) fn last_look(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        self.losses.look(program.free(folders));
        if self.could_be_exceeded() || self.losses.is_silent() {
            return self.count_still(folders, program);
        }
        Verdict::Within
    }

    /// What the program has added at most.
    fn at_most(&self) -> Amount {
        self.counted.plus(self.losses.since)
    }

    fn could_be_exceeded(&self) -> bool {
        self.at_most().is_above(self.most)
            || (self.is_partial && self.losses.grown().is_above(self.most))
    }

    /// Counts what runs on: enough to find an excess. But files can move meanwhile from where it was
    /// not yet to where it was already, so it does not prove that there is none.
    fn count_running(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        let begun = Instant::now();
        let count = Count::new(self.started, self.most).walked(folders, &mut || {
            self.losses.look(program.free(folders));
            program.is_called() || self.could_be_exceeded()
        });
        let Some(mut count) = count else {
            if program.is_called() {
                return Verdict::Interrupted;
            }
            return self.count_paused(folders, program);
        };
        count.new = count.new.plus(self.unlinked(program));
        self.counted = self.counted.or_more(count.new.minus(self.losses.since));
        self.put_off(begun.elapsed(), count.new);
        self.judge(&count)
    }

    fn count_paused(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        program.pause();
        let verdict = self.count_still(folders, program);
        if !matches!(verdict, Verdict::Exceeded(_)) {
            program.resume();
        }
        verdict
    }

    /// Counts while nothing moves. What is lost from here on comes on top of it.
    fn count_still(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        let begun = Instant::now();
        let known = self.losses.since;
        let count = Count::new(self.started, self.most);
        let Some(mut count) = count.walked(folders, &mut || program.is_called()) else {
            return Verdict::Interrupted;
        };
        count.new = count.new.plus(self.unlinked(program));
        self.counted = count.new;
        self.is_partial = count.is_partial;
        self.losses.since = self.losses.since.minus(known);
        self.put_off(begun.elapsed(), count.new);
        self.judge(&count)
    }

    fn unlinked(&self, program: &dyn Counted) -> Amount {
        program.unlinked(&self.losses.devices().collect())
    }

    fn judge(&self, count: &Count) -> Verdict {
        let grown = self.losses.grown();
        let hides = |grown: u64, most: u64| count.is_partial && grown > most;
        let limit = |limit, most| Verdict::Exceeded(SandboxError::Limit { limit, most });
        if count.is_too_deep
            || count.new.files > self.most.files
            || hides(grown.files, self.most.files)
        {
            return limit(Limit::Files, self.most.files);
        }
        if count.new.bytes > self.most.bytes || hides(grown.bytes, self.most.bytes) {
            return limit(Limit::Disk, self.disk_mb);
        }
        Verdict::Within
    }

    /// Until the next count by time. Others may free space meanwhile, so the file systems alone do not
    /// tell when a limit is near.
    fn put_off(&mut self, took: Duration, counted: Amount) {
        self.is_near = counted.files > self.most.files / 2 || counted.bytes > self.most.bytes / 2;
        let rest = if self.is_near {
            took
        } else {
            took.saturating_mul(SHARE).min(LONGEST.0.max(took.saturating_mul(LONGEST.1)))
        };
        self.next_count = Instant::now() + rest;
    }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
