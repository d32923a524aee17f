//! When the folders are counted again, if nothing makes it urgent.

use std::time::{Duration, Instant};

use super::losses::Amount;

/// Until a limit is near, counting takes one part in so many of the time.
const SHARE: u32 = 20;
/// But it is not put off for longer than this, or so many times what it takes.
const LONGEST: (Duration, u32) = (Duration::from_millis(200), 8);
/// While nothing changes, it is put off for as long as this.
const CALM: Duration = Duration::from_secs(30);

/// The time between two counts.
#[derive(Debug)]
pub(super) struct Rest {
    begun: Instant,
    /// If something changes.
    short: Duration,
    /// If nothing does.
    long: Duration,
    /// By the last count.
    found: Option<Amount>,
}

impl Rest {
    /// None before the first count.
    pub(super) fn none() -> Self {
        let (short, long) = (Duration::ZERO, Duration::ZERO);
        Self { begun: Instant::now(), short, long, found: None }
    }

    /// One that does not end while a test runs.
    #[cfg(test)]
    pub(super) fn endless() -> Self {
        let (short, long) = (Duration::MAX, Duration::MAX);
        Self { short, long, ..Self::none() }
    }

    /// Whether it is time to count.
    pub(super) fn is_over(&self, has_changed: bool) -> bool {
        self.begun.elapsed() >= if has_changed { self.short } else { self.long }
    }

    /// After a count. Others may free space meanwhile, so the file systems alone do not tell when a
    /// limit is near. Where nothing has changed and the same is found again, the next can wait twice
    /// as long.
    pub(super) fn begin(
        &mut self,
        took: Duration,
        found: Amount,
        is_near: bool,
        has_changed: bool,
    ) {
        let share = took.saturating_mul(SHARE).min(LONGEST.0.max(took.saturating_mul(LONGEST.1)));
        self.short = if is_near { took } else { share };
        let is_calm = !has_changed && self.found == Some(found);
        let twice = self.long.saturating_mul(2).min(CALM);
        self.long = if is_calm { twice.max(self.short) } else { self.short };
        self.found = Some(found);
        self.begun = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(5);

    /// After counts that have found these, with changes before them or not.
    fn after(counts: &[(u64, bool)]) -> Rest {
        let mut rest = Rest::none();
        for (files, has_changed) in counts {
            rest.begin(TOOK, Amount { files: *files, bytes: 0 }, false, *has_changed);
        }
        rest
    }

    #[test]
    fn counts_that_agree_come_less_often() {
        let usual = TOOK * SHARE;
        assert_eq!(after(&[(1, false)]).long, usual);
        assert_eq!(after(&[(1, false), (1, false)]).long, usual * 2);
        assert_eq!(after(&[(1, false); 4]).long, usual * 8);
        assert_eq!(after(&[(1, false); 100]).long, CALM);
        assert_eq!(after(&[(1, false); 100]).short, usual, "a change does not wait so long");
    }

    #[test]
    fn whatever_happens_ends_the_calm() {
        for last in [(2, false), (1, true)] {
            let counts = [(1, false), (1, false), last];
            assert_eq!(after(&counts).long, TOOK * SHARE, "{last:?}");
        }
    }

    #[test]
    fn near_a_limit_half_of_the_time_is_for_counting() {
        let mut rest = Rest::none();
        rest.begin(TOOK, Amount::default(), true, true);
        assert_eq!((rest.short, rest.long), (TOOK, TOOK));
    }

    #[test]
    fn what_takes_long_is_not_done_more_often_in_calm() {
        let mut rest = Rest::none();
        let took = Duration::from_secs(10);
        for _ in 0..3 {
            rest.begin(took, Amount::default(), false, false);
        }
        assert_eq!(rest.long, took * LONGEST.1);
    }
}
