//! What the program adds to the folders that it may write.
//!
//! No file system counts that for a folder. So the file systems say how much it may be at most (what
//! was counted last, and what they have lost since), and the folders' files that are newer than the
//! program say how much it is. As long as the first is within the limits, counting can wait.
//!
//! What remains: others who free as much between the same two looks hide a loss, until the next count
//! that comes by time, or for good if the program has ended by then. More names for one file take
//! neither a file nor, as a rule, space; they too are counted by time only. So are all files where the
//! file system has no number of them, and where nothing else changes, that comes seldom.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use super::count::{Count, Scope};
use super::losses::{Amount, Losses, Silence, Used};
use super::rest::Rest;
use super::sweep::Folder;
use crate::sandbox::ResourceLimits;
use crate::sandbox::error::{Limit, SandboxError};

const MIB: u64 = 1024 * 1024;

/// The box that is counted.
pub(super) trait Counted {
    /// Whether there is something more urgent to do than to count.
    fn is_called(&self) -> bool;
    /// Stops its processes, so that they can neither outrun the counting nor hide from it.
    fn pause(&self);
    /// Lets them go on.
    fn resume(&self);
    /// What is used where its folders are.
    fn used(&self, folders: &[Folder]) -> Used {
        Used::of(folders)
    }
    /// What they hold open on these file systems that has no name any more; `None` if something more
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
    losses: Losses,
    /// By the last count that can be relied on.
    counted: Amount,
    /// Whether that could not look everywhere.
    is_partial: bool,
    quiet: u32,
    /// Whether the file systems have changed since the last count.
    has_changed: bool,
    rest: Rest,
    /// Until when the program runs on, since it was others who used so much.
    spared: Instant,
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
            losses: Losses::new(Used::of(folders)),
            counted: Amount::default(),
            is_partial: false,
            quiet: 0,
            has_changed: false,
            rest: Rest::none(),
            spared: Instant::now(),
            is_near: false,
        }
    }

    /// One that allows nothing, and knows of something.
    #[cfg(test)]
    pub(super) fn in_doubt(folders: &[Folder]) -> Self {
        let limits = ResourceLimits { disk_mb: 0, files: 0, ..ResourceLimits::default() };
        let mut quota = Self::new(&limits, folders);
        quota.losses.since = Amount { files: 1, bytes: 1 };
        quota
    }

    /// How long until the next look: longer while nothing happens, shorter where a limit may be
    /// exceeded by then.
    pub(super) fn pause(&self, tick: Duration) -> Duration {
        let longest = tick.saturating_mul(1 + self.quiet.min(40) / 10);
        self.losses.pause(self.most.minus(self.at_most()), longest)
    }

    /// Looks while the program runs. Counting stops when there is something more urgent to do.
    pub(super) fn look(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        let has_changed = self.look_at_losses(folders, program);
        self.quiet = if has_changed { 0 } else { self.quiet.saturating_add(1) };
        if self.must_be_counted() {
            return self.count_paused(folders, program);
        }
        let is_due = self.has_changed || self.losses.silence() != Silence::default();
        if !is_due || !self.rest.is_over(self.has_changed) {
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
        self.look_at_losses(folders, program);
        if self.could_be_exceeded() || self.losses.silence() != Silence::default() {
            return self.count_still(folders, program, self.least_scope());
        }
        Verdict::Within
    }

    /// Whether they have changed.
    fn look_at_losses(&mut self, folders: &[Folder], program: &dyn Counted) -> bool {
        let has_changed = self.losses.look(program.used(folders));
        self.has_changed |= has_changed;
        has_changed
    }

    /// What the program has added at most.
    fn at_most(&self) -> Amount {
        self.counted.plus(self.losses.since)
    }

    fn could_be_exceeded(&self) -> bool {
        self.at_most().is_above(self.most)
            || (self.is_partial && self.losses.grown().is_above(self.most))
    }

    /// Whether that can't wait. A program that is spared could add a whole limit at most.
    fn must_be_counted(&self) -> bool {
        let is_spared = Instant::now() < self.spared && !self.losses.since.is_above(self.most);
        self.could_be_exceeded() && !is_spared
    }

    /// Where only the number of files is unknown, only files need to be found.
    fn least_scope(&self) -> Scope {
        let only_files = Silence { files: true, bytes: false };
        let is_enough = self.losses.silence() == only_files && !self.could_be_exceeded();
        if is_enough { Scope::Additions } else { Scope::All }
    }

    /// But where something has changed, others may have hidden what the program has added.
    fn scope(&self) -> Scope {
        if self.has_changed { Scope::All } else { self.least_scope() }
    }

    /// Counts what runs on: enough to find an excess. But files can move meanwhile from where it was
    /// not yet to where it was already, so it does not prove that there is none.
    fn count_running(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        let begun = Instant::now();
        let scope = self.scope();
        let had_changed = std::mem::take(&mut self.has_changed);
        let count = Count::new(self.started, self.most, scope).walked(folders, &mut || {
            self.look_at_losses(folders, program);
            program.is_called() || self.must_be_counted()
        });
        let Some(count) = count.and_then(|count| self.whole(count, scope, program)) else {
            self.has_changed = true;
            if program.is_called() {
                return Verdict::Interrupted;
            }
            return self.count_paused(folders, program);
        };
        self.counted = self.counted.or_more(count.new.minus(self.losses.since));
        self.put_off(begun.elapsed(), count.new, had_changed);
        self.judge(&count)
    }

    fn count_paused(&mut self, folders: &[Folder], program: &dyn Counted) -> Verdict {
        program.pause();
        let verdict = self.count_still(folders, program, self.scope());
        if !matches!(verdict, Verdict::Exceeded(_)) {
            program.resume();
        }
        verdict
    }

    /// Counts while nothing moves. What is lost from here on comes on top of it.
    fn count_still(&mut self, folders: &[Folder], program: &dyn Counted, scope: Scope) -> Verdict {
        let begun = Instant::now();
        let count = Count::new(self.started, self.most, scope);
        let count = count.walked(folders, &mut || program.is_called());
        let Some(count) = count.and_then(|count| self.whole(count, scope, program)) else {
            return Verdict::Interrupted;
        };
        let known = match scope {
            Scope::All => self.losses.since,
            Scope::Additions => Amount { bytes: 0, ..self.losses.since },
        };
        let took = begun.elapsed();
        if self.were_others(known, count.new) {
            self.spared = Instant::now() + took;
        }
        self.counted = count.new;
        self.is_partial = count.is_partial;
        self.losses.since = self.losses.since.minus(known);
        let had_changed = std::mem::take(&mut self.has_changed);
        self.put_off(took, count.new, had_changed);
        self.judge(&count)
    }

    /// With what no walk finds; `None` if something more urgent has come.
    fn whole(&self, mut count: Count, scope: Scope, program: &dyn Counted) -> Option<Count> {
        count.new = count.new.plus(program.unlinked(&self.losses.devices().collect())?);
        if scope == Scope::Additions {
            count.new.bytes = count.new.bytes.max(self.counted.bytes);
        }
        Some(count)
    }

    /// Whether the program could have exceeded a limit by what is known to be lost, but has not added
    /// so much of it.
    fn were_others(&self, known: Amount, counted: Amount) -> bool {
        let at_most = self.counted.plus(known);
        let was_it = |at_most: u64, most: u64, counted: u64| at_most > most && counted >= at_most;
        at_most.is_above(self.most)
            && !was_it(at_most.files, self.most.files, counted.files)
            && !was_it(at_most.bytes, self.most.bytes, counted.bytes)
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

    fn put_off(&mut self, took: Duration, counted: Amount, had_changed: bool) {
        self.is_near = counted.files > self.most.files / 2 || counted.bytes > self.most.bytes / 2;
        self.rest.begin(took, counted, self.is_near, had_changed);
    }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
