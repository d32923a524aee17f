//! How long to wait before the next attempt.
//!
//! Full jitter: a random time up to a limit that doubles, so that a thousand packs that lost the same
//! gateway do not all come back at the same moment.

use std::time::Duration;

/// How a client comes back after it has lost the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    stable: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(250),
            cap: Duration::from_secs(30),
            stable: Duration::from_secs(30),
        }
    }
}

impl Backoff {
    /// Waits at most `base` before the first new attempt and at most twice as long before each
    /// further one, but never longer than `cap`.
    #[must_use]
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, stable: cap }
    }

    /// Begins anew with the short waits once a connection has lasted this long.
    #[must_use]
    pub const fn stable_after(mut self, stable: Duration) -> Self {
        self.stable = stable;
        self
    }

    /// A time between nothing and the limit of this attempt, as `random` says.
    fn delay(&self, failures: u32, random: u64) -> Duration {
        let limit =
            self.base.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(self.cap);
        let limit = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX - 1);
        Duration::from_micros(random % (limit + 1))
    }
}

/// The attempts of one client.
pub(crate) struct Attempts {
    backoff: Backoff,
    failures: u32,
    random: fn() -> u64,
}

impl Attempts {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, failures: 0, random: system_random }
    }

    /// A connection was there for this long.
    pub(crate) fn lasted(&mut self, time: Duration) {
        if time >= self.backoff.stable {
            self.failures = 0;
        }
    }

    /// How long to wait now.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let delay = self.backoff.delay(self.failures, (self.random)());
        self.failures = self.failures.saturating_add(1);
        delay
    }
}

/// Without random numbers from the system all wait for the whole time, which is safe too.
fn system_random() -> u64 {
    getrandom::u64().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(random: fn() -> u64) -> Attempts {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2))
            .stable_after(Duration::from_secs(10));
        Attempts { backoff, failures: 0, random }
    }

    /// One more than the limit of an attempt divides the random number; these are just below it.
    fn waits(random: fn() -> u64, count: usize) -> Vec<u128> {
        let mut attempts = attempts(random);
        (0..count).map(|_| attempts.next_delay().as_micros()).collect()
    }

    #[test]
    fn the_wait_is_random_below_a_limit_that_doubles_up_to_the_cap() {
        assert_eq!(waits(|| 0, 3), [0, 0, 0]);
        assert_eq!(waits(|| 100_000, 3), [100_000, 100_000, 100_000]);
        assert_eq!(waits(|| 100_001, 3), [0, 100_001, 100_001]);
        assert_eq!(
            waits(|| 2_000_000, 7),
            [
                2_000_000 % 100_001,
                2_000_000 % 200_001,
                2_000_000 % 400_001,
                2_000_000 % 800_001,
                2_000_000 % 1_600_001,
                2_000_000,
                2_000_000
            ],
        );
        assert_eq!(waits(|| 2_000_001, 7).last(), Some(&0));
        assert!(waits(|| u64::MAX, 80).iter().all(|wait| *wait <= 2_000_000));
    }

    #[test]
    fn only_a_lasting_connection_makes_the_waits_short_again() {
        let mut attempts = attempts(|| 2_000_000);
        for _ in 0..5 {
            attempts.next_delay();
        }
        attempts.lasted(Duration::from_secs(9));
        assert_eq!(attempts.next_delay(), Duration::from_secs(2));
        attempts.lasted(Duration::from_secs(10));
        assert_eq!(attempts.next_delay(), Duration::from_micros(2_000_000 % 100_001));
    }
}
