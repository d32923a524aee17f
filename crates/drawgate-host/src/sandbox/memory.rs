//! The memory of all boxes together.
//!
//! Each box has a limit of its own, but many boxes within theirs can still use up the machine. So each
//! tells how much it uses, and when the sum is too much, the largest is stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::error::SandboxError;

/// What all boxes use. Cheap to clone; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct TotalMemory(Arc<Mutex<Total>>);

#[derive(Debug)]
struct Total {
    most_mib: u64,
    boxes: BTreeMap<u64, Used>,
    next: u64,
}

#[derive(Debug, Default)]
struct Used {
    mib: u64,
    /// The limit for which it was stopped.
    stopped_at: Option<u64>,
    stop: CancellationToken,
}

/// One box's part; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    total: TotalMemory,
    number: u64,
    /// Cancelled when the box must be stopped for the sake of all.
    pub(crate) stop: CancellationToken,
}

impl Default for TotalMemory {
    fn default() -> Self {
        let total = Total { most_mib: half_of_machine(), boxes: BTreeMap::new(), next: 0 };
        Self(Arc::new(Mutex::new(total)))
    }
}

impl TotalMemory {
    /// Sets the limit; `None` is half of the machine's memory.
    pub(crate) fn limit(&self, most_mib: Option<u64>) {
        self.0.lock().most_mib = most_mib.unwrap_or_else(half_of_machine);
    }

    pub(crate) fn enter(&self) -> MemoryShare {
        let mut total = self.0.lock();
        total.next += 1;
        let (number, used) = (total.next, Used::default());
        let stop = used.stop.clone();
        total.boxes.insert(number, used);
        MemoryShare { total: self.clone(), number, stop }
    }
}

impl MemoryShare {
    /// Notes what the box uses now, and has the largest stopped if all together use too much. What is
    /// being stopped counts no more.
    pub(crate) fn uses(&self, mib: u64) {
        let mut total = self.total.0.lock();
        let most = total.most_mib;
        if let Some(own) = total.boxes.get_mut(&self.number) {
            own.mib = mib;
        }
        let running = || |used: &&mut Used| used.stopped_at.is_none();
        let sum = total.boxes.values_mut().filter(running()).map(|used| used.mib).sum::<u64>();
        let largest = total.boxes.values_mut().filter(running()).max_by_key(|used| used.mib);
        if let Some(largest) = largest.filter(|_| sum > most) {
            largest.stopped_at = Some(most);
            largest.stop.cancel();
        }
    }

    /// Why the box was stopped, if it was for the sake of all.
    pub(crate) fn failure(&self) -> Option<SandboxError> {
        let total = self.total.0.lock();
        let most = total.boxes.get(&self.number)?.stopped_at?;
        Some(SandboxError::TotalMemory { most })
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.total.0.lock().boxes.remove(&self.number);
    }
}

fn half_of_machine() -> u64 {
    let found = rustix::system::sysinfo();
    let bytes = found.totalram.saturating_mul(u64::from(found.mem_unit));
    bytes / 2 / (1024 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_stopped_when_all_together_use_too_much() {
        let total = TotalMemory::default();
        total.limit(Some(100));
        let all = [total.enter(), total.enter(), total.enter()];
        let steps = [
            (0, 20, [false, false, false], "little"),
            (1, 60, [false, false, false], "more"),
            (2, 20, [false, false, false], "exactly the limit"),
            (0, 30, [false, true, false], "the largest is not the one that grew"),
            (2, 70, [false, true, false], "what is being stopped counts no more"),
            (2, 71, [false, true, true], "too much again"),
        ];
        for (at, mib, stopped, why) in steps {
            all[at].uses(mib);
            assert_eq!(all.each_ref().map(|share| share.stop.is_cancelled()), stopped, "{why}");
            assert_eq!(all.each_ref().map(|share| share.failure().is_some()), stopped, "{why}");
        }
        let [small, large, other] = all;
        assert_eq!(large.failure(), Some(SandboxError::TotalMemory { most: 100 }));
        drop((large, other));
        small.uses(100);
        assert!(!small.stop.is_cancelled(), "shares are given back");
    }
}
