//! How long to wait before the next attempt.

use std::time::Duration;

/// The first wait.
const FIRST: Duration = Duration::from_millis(500);
/// The longest wait.
pub(super) const LONGEST: Duration = Duration::from_mins(1);
/// A connection that lasted this long is taken for healthy, and the waits begin anew.
pub(super) const HEALTHY: Duration = Duration::from_mins(1);

/// Doubling waits: at most eight starts in the first minute, and one a minute later.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { next: FIRST, longest: LONGEST }
    }

    /// The same with another longest wait.
    pub(super) fn up_to(longest: Duration) -> Self {
        Self { next: FIRST.min(longest), longest }
    }

    /// The next wait. `jitter`, any number, stretches it by up to a quarter, so that servers that
    /// failed together do not come back together.
    pub(super) fn next(&mut self, jitter: u32) -> Duration {
        let wait = self.next;
        self.next = (self.next * 2).min(self.longest);
        wait + wait * (jitter % 256) / 1024
    }

    /// Whether the longest wait has been reached.
    pub(super) fn is_spent(&self) -> bool {
        self.next >= self.longest
    }

    /// After a connection of this length.
    pub(super) fn after(&mut self, lasted: Duration) {
        if lasted >= HEALTHY {
            self.reset();
        }
    }

    /// The waits begin anew.
    pub(super) fn reset(&mut self) {
        *self = Self::up_to(self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..9).map(|_| backoff.next(0).as_millis()).collect();
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(backoff.next(255).as_millis(), 74_941);
    }

    #[test]
    fn eight_starts_at_most_in_the_first_minute() {
        let mut backoff = Backoff::new();
        let (mut elapsed, mut starts) = (Duration::ZERO, 0);
        while elapsed < Duration::from_mins(1) {
            starts += 1;
            elapsed += backoff.next(0);
        }
        assert!(starts <= 8, "{starts}");
    }

    #[test]
    fn health_starts_anew_and_a_short_life_does_not() {
        let mut backoff = Backoff::new();
        backoff.next(0);
        backoff.after(Duration::from_secs(59));
        assert_eq!(backoff.next(0).as_millis(), 1_000);
        backoff.after(HEALTHY);
        assert_eq!(backoff.next(0).as_millis(), 500);
    }
}
