//! What all processes of the box use together, where no control group counts it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::fs::statvfs;

use super::activity::Activity;
use super::inner::REAP;
use super::{sockets, sys};
use crate::sandbox::ResourceLimits;
use crate::sandbox::error::{Limit, SandboxError};

/// How often it is counted: a program can't take much more than its limit in that time.
const COUNT: Duration = Duration::from_millis(50);
/// How often it is counted although no process has run: what waits in sockets comes from outside.
const COUNT_ANYWAY: Duration = Duration::from_secs(1);
/// Folders in memory.
const IN_MEMORY: [&str; 2] = ["/tmp", "/dev/shm"];
const MIB: u64 = 1024 * 1024;

/// A counter of memory.
pub(super) struct Usage {
    most_mib: u64,
    counted: bool,
    page: u64,
    /// What was last seen, in bytes, with shared pages counted for each process.
    seen: u64,
    told: Told,
    activity: Activity,
    count_anyway: Instant,
}

/// What the gateway was told, so that it is told again only when it matters.
#[derive(Default)]
pub(crate) struct Told(u64);

/// A change in MiB that matters.
const STEP: u64 = 16;

impl Told {
    /// Whether this differs enough from what was told before; then it is what was told.
    pub(crate) fn is_news(&mut self, mib: u64) -> bool {
        let is_news = self.0.abs_diff(mib) >= STEP;
        if is_news {
            self.0 = mib;
        }
        is_news
    }
}

impl Usage {
    pub(super) fn new(limits: &ResourceLimits, counted: bool) -> Self {
        Self {
            most_mib: limits.memory_mb,
            counted,
            page: sys::page_size(),
            seen: 0,
            told: Told::default(),
            activity: Activity::default(),
            count_anyway: Instant::now(),
        }
    }

    /// How long until the next count.
    pub(super) const fn pause(&self) -> Duration {
        if self.counted { COUNT } else { REAP }
    }

    /// Counts. What can't be counted is taken as too much: a program must not gain by hiding.
    pub(super) fn exceeded(&mut self) -> Option<SandboxError> {
        if !self.counted || self.is_idle() {
            return None;
        }
        let most = self.most_mib.saturating_mul(MIB);
        let loose = sockets::waiting(most);
        let is_over = |total: u64| total.saturating_add(loose) > most;
        let resident = self.total(Self::resident);
        self.seen = resident.unwrap_or_default().saturating_add(loose);
        let exceeded = resident.is_none_or(is_over)
            // Shared pages are counted once for each process there; exactly, only if it matters.
            && self.total(Self::proportional).is_none_or(is_over);
        exceeded.then_some(SandboxError::Limit { limit: Limit::Memory, most: self.most_mib })
    }

    /// Whether nothing can have been taken since the last count: a box that waits costs next to nothing.
    fn is_idle(&mut self) -> bool {
        let now = Instant::now();
        if !self.activity.look() && now < self.count_anyway {
            return true;
        }
        self.count_anyway = now + COUNT_ANYWAY;
        false
    }

    /// What to tell the gateway after a count, in MiB, if it has not been told the like.
    pub(super) fn news(&mut self) -> Option<u64> {
        if !self.counted || !self.told.is_news(self.seen / MIB) {
            return None;
        }
        let exact = self.total(Self::proportional).unwrap_or(self.seen);
        Some(exact.min(self.seen) / MIB)
    }

    fn total(&self, count: impl Fn(&Self, &str) -> Option<u64>) -> Option<u64> {
        let mut total: u64 = 0;
        for path in IN_MEMORY {
            let found = statvfs(path).ok()?;
            let used = found.f_blocks.saturating_sub(found.f_bfree);
            total = total.saturating_add(used.saturating_mul(found.f_frsize));
        }
        for entry in fs::read_dir("/proc").ok()? {
            let name = entry.ok()?.file_name();
            let Some(pid) =
                name.to_str().filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
            else {
                continue;
            };
            // It may have ended meanwhile; then it uses nothing.
            total = total.saturating_add(count(self, pid).unwrap_or_default());
        }
        Some(total)
    }

    fn resident(&self, pid: &str) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
        Some(pages.saturating_mul(self.page))
    }

    /// Its share of shared pages; all of them if it can't be looked into.
    fn proportional(&self, pid: &str) -> Option<u64> {
        let share = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok().and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        });
        share.map(|kib| kib.saturating_mul(1024)).or_else(|| self.resident(pid))
    }
}
