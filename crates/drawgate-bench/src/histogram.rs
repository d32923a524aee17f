//! A histogram of durations with logarithmic buckets.
//!
//! Recording costs a few instructions and no allocation. Every power of two is cut into
//! 128 equal buckets, so a quantile is never off by more than 0.8 %.

use std::time::Duration;

/// Every power of two is cut into two to the power of this many buckets.
const STEP_BITS: u32 = 7;
/// Enough buckets for every value that fits in 64 bits.
const BUCKETS: usize = ((64 - STEP_BITS as usize) + 1) << STEP_BITS;

/// Counts of durations, in nanoseconds.
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    /// An empty histogram.
    pub(crate) fn new() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max: 0 }
    }

    /// Counts one duration.
    pub(crate) fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get_mut(index(nanos)) {
            *bucket += 1;
        }
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    /// Adds everything that `other` has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// How many durations were counted.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The longest duration, exactly.
    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The duration that `per_mille` of a thousand counted ones do not exceed; zero when empty.
    pub(crate) fn quantile(&self, per_mille: u64) -> Duration {
        let rank = (self.count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket;
            if seen >= rank {
                return Duration::from_nanos(upper_bound(index).min(self.max));
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a value. The smallest values have one each.
fn index(nanos: u64) -> usize {
    let shift = (64 - nanos.leading_zeros()).saturating_sub(STEP_BITS + 1);
    let row = u64::from(shift) << STEP_BITS;
    usize::try_from(row + (nanos >> shift)).unwrap_or(usize::MAX)
}

/// The largest value that falls into a bucket.
fn upper_bound(index: usize) -> u64 {
    let index = index as u64;
    let shift = (index >> STEP_BITS).saturating_sub(1);
    let step = index - (shift << STEP_BITS);
    (((u128::from(step) + 1) << shift) - 1).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap_or_overlap() {
        for value in (0..4096).chain([u64::MAX >> 1, u64::MAX - 1, u64::MAX]) {
            let bucket = index(value);
            assert!(bucket < BUCKETS, "{value} has no bucket");
            assert!(value <= upper_bound(bucket), "{value} is above its bucket");
            assert!(bucket == 0 || value > upper_bound(bucket - 1), "{value} is below its bucket");
        }
    }

    #[test]
    fn quantiles_are_within_one_step_of_the_exact_ones() {
        let mut histogram = Histogram::new();
        let mut exact: Vec<u64> = (0..10_000_u64).map(|n| n * n % 7_919 * 131 + 40).collect();
        for nanos in &exact {
            histogram.record(Duration::from_nanos(*nanos));
        }
        exact.sort_unstable();
        for (per_mille, place) in [(500, 4_999), (990, 9_899), (1000, 9_999)] {
            let found = u64::try_from(histogram.quantile(per_mille).as_nanos()).unwrap();
            let wanted = exact[place];
            assert!(found >= wanted, "{found} < {wanted}");
            assert!(found - wanted <= wanted >> STEP_BITS, "{found} is too far above {wanted}");
        }
        assert_eq!(histogram.max(), Duration::from_nanos(*exact.last().unwrap()));
    }

    #[test]
    fn merging_equals_recording_into_one() {
        let (mut left, mut right, mut whole) =
            (Histogram::new(), Histogram::new(), Histogram::new());
        for nanos in 1..2_000_u64 {
            let half = if nanos % 3 == 0 { &mut left } else { &mut right };
            half.record(Duration::from_nanos(nanos * 17));
            whole.record(Duration::from_nanos(nanos * 17));
        }
        left.merge(&right);
        assert_eq!(left.count(), whole.count());
        assert_eq!(left.quantile(500), whole.quantile(500));
        assert_eq!(left.max(), whole.max());
    }

    #[test]
    fn an_empty_histogram_has_zero_everywhere() {
        assert_eq!(Histogram::new().quantile(990), Duration::ZERO);
    }
}
