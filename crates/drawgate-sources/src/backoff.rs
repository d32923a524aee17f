//! How long to wait before the next attempt: the one policy of every retry.

use std::time::Duration;

/// A connection that lasted this long is taken for healthy, and the waits begin anew.
const HEALTHY: Duration = Duration::from_mins(1);

/// Waits that double from the first to the longest.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    /// How many waits there have been.
    attempts: u32,
}

impl Backoff {
    /// Connections to servers: at most eight starts in the first minute, and one a minute later.
    pub(crate) const CONNECTION: Self =
        Self::new(Duration::from_millis(500), Duration::from_mins(1));

    /// Waits between these two.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, attempts: 0 }
    }

    /// The same with another longest wait.
    pub(crate) const fn up_to(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// The next wait. `jitter`, any number, stretches it by up to a quarter, so that what failed
    /// together does not come back together.
    pub fn next(&mut self, jitter: u32) -> Duration {
        let wait = self.wait(self.attempts);
        self.attempts = self.attempts.saturating_add(1);
        stretched(wait, jitter)
    }

    /// The wait after so many others, without jitter.
    pub(crate) fn wait(&self, attempts: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(attempts)).min(self.longest)
    }

    /// The longest wait.
    pub(crate) const fn longest(&self) -> Duration {
        self.longest
    }

    /// Whether the longest wait has been reached.
    pub(crate) fn is_spent(&self) -> bool {
        self.wait(self.attempts) >= self.longest
    }

    /// After a connection of this length.
    pub(crate) fn after(&mut self, lasted: Duration) {
        if lasted >= HEALTHY {
            self.reset();
        }
    }

    /// The waits begin anew.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// A wait that is longer by up to a quarter.
pub(crate) fn stretched(wait: Duration, jitter: u32) -> Duration {
    wait + wait * (jitter % 256) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute() {
        let mut backoff = Backoff::CONNECTION;
        let waits: Vec<u128> = (0..9).map(|_| backoff.next(0).as_millis()).collect();
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(backoff.next(255).as_millis(), 74_941);
    }

    #[test]
    fn eight_starts_at_most_in_the_first_minute() {
        let mut backoff = Backoff::CONNECTION;
        let (mut elapsed, mut starts) = (Duration::ZERO, 0);
        while elapsed < Duration::from_mins(1) {
            starts += 1;
            elapsed += backoff.next(0);
        }
        assert!(starts <= 8, "{starts}");
    }

    #[test]
    fn health_starts_anew_and_a_short_life_does_not() {
        let mut backoff = Backoff::CONNECTION;
        backoff.next(0);
        backoff.after(Duration::from_secs(59));
        assert_eq!(backoff.next(0).as_millis(), 1_000);
        backoff.after(HEALTHY);
        assert_eq!(backoff.next(0).as_millis(), 500);
    }
}
