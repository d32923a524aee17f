//! The machine's clock and its randomness, behind the gate's traits.

#![expect(clippy::disallowed_methods, reason = "this is the one place that reads the system clock")]

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use drawgate_core::canonical;
use drawgate_core::clock::{Clock, Ids};
use rustix::time::{ClockId, clock_gettime};

const NANOS_PER_MS: i64 = 1_000_000;

/// The system's clock, which never goes back. Where it is set forward, this one follows; where it is set
/// back, this one goes on with the time since the machine was started, in which the machine's sleep counts.
#[derive(Debug)]
pub struct SystemClock {
    /// What is to be added to the time since the machine was started, in nanoseconds. It only grows.
    offset: AtomicI64,
    /// How far the system's clock was behind at the last reading, in nanoseconds.
    behind: AtomicI64,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { offset: AtomicI64::new(i64::MIN), behind: AtomicI64::new(0) }
    }
}

impl SystemClock {
    /// A clock that starts with the present time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The time, if the system's clock and the time since the start of the machine are these.
    fn observe(&self, wall: i64, since_boot: i64) -> u64 {
        let seen = wall.saturating_sub(since_boot);
        let offset = self.offset.fetch_max(seen, Ordering::Relaxed).max(seen);
        self.behind.store(offset.saturating_sub(seen), Ordering::Relaxed);
        milliseconds(since_boot.saturating_add(offset))
    }

    fn resume_at(&self, newest_ms: u64, since_boot: i64) {
        let newest = i64::try_from(newest_ms).unwrap_or(i64::MAX).saturating_mul(NANOS_PER_MS);
        self.offset.fetch_max(newest.saturating_sub(since_boot), Ordering::Relaxed);
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        // In this order: what a pause between the two takes makes the offset smaller, which does nothing.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX);
        self.observe(wall, since_boot())
    }

    fn resume(&self, newest_ms: u64) {
        self.resume_at(newest_ms, since_boot());
    }

    fn behind_ms(&self) -> u64 {
        milliseconds(self.behind.load(Ordering::Relaxed))
    }
}

fn milliseconds(nanos: i64) -> u64 {
    u64::try_from(nanos / NANOS_PER_MS).unwrap_or_default()
}

/// Nanoseconds since the machine was started.
fn since_boot() -> i64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.saturating_mul(1000 * NANOS_PER_MS).saturating_add(time.tv_nsec)
}

/// Ids of this installation: a random prefix for each start of the program, and a counter.
#[derive(Debug)]
pub struct SystemIds {
    boot: u64,
    next: AtomicU64,
}

/// The operating system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no random bytes: {0}")]
pub struct NoRandomness(getrandom::Error);

impl SystemIds {
    /// Draws the prefix.
    pub fn new() -> Result<Self, NoRandomness> {
        let boot = getrandom::u64().map_err(NoRandomness)?;
        Ok(Self { boot, next: AtomicU64::new(1) })
    }
}

impl Ids for SystemIds {
    fn unique(&self) -> String {
        let number = canonical::hex(&self.next.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        // Eight digits last for long; after that it has sixteen.
        let number = number.strip_prefix("00000000").unwrap_or(&number);
        [&canonical::hex(&self.boot.to_be_bytes()), number].concat()
    }

    fn secret(&self) -> String {
        let mut bytes = [0_u8; 32];
        // A guessable token is worse than none, so nothing else may stand in for the system's
        // randomness. `new` has proven that it works; the kernel does not take it away again.
        while getrandom::fill(&mut bytes).is_err() {
            std::thread::yield_now();
        }
        hex::encode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_when_the_clock_is_set_back() {
        let rows: [(&str, i64, i64, u64, u64); 7] = [
            // The system's clock, the time since boot, the time, how far the system's clock is behind.
            ("at first", 1000, 100, 1000, 0),
            ("time passes", 1010, 110, 1010, 0),
            ("set forward", 5000, 120, 5000, 0),
            ("set back again", 1030, 130, 5010, 3980),
            ("time passes there", 1040, 140, 5020, 3980),
            ("set back further", 50, 150, 5030, 4980),
            ("a pause between the readings", 60, 170, 5050, 4990),
        ];
        let clock = SystemClock::new();
        for (what, wall, since_boot, now, behind) in rows {
            let read = clock.observe(wall * NANOS_PER_MS, since_boot * NANOS_PER_MS);
            assert_eq!((read, clock.behind_ms()), (now, behind), "{what}");
        }
    }

    #[test]
    fn a_later_process_goes_on_from_the_newest_time() {
        let clock = SystemClock::new();
        clock.resume_at(9000, 100 * NANOS_PER_MS);
        assert_eq!(clock.observe(1010 * NANOS_PER_MS, 110 * NANOS_PER_MS), 9010);
        // An older one changes nothing.
        clock.resume_at(200, 120 * NANOS_PER_MS);
        assert_eq!(clock.observe(1030 * NANOS_PER_MS, 130 * NANOS_PER_MS), 9030);
    }

    #[test]
    fn the_clock_is_that_of_the_system() {
        let clock = SystemClock::new();
        let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let (before, now, after) = (wall(), u128::from(clock.now_ms()), wall());
        assert!((before..=after).contains(&now), "{before} {now} {after}");
    }

    #[test]
    fn ids_differ_and_secrets_are_long() {
        let ids = SystemIds::new().unwrap();
        let other = SystemIds::new().unwrap();
        assert_ne!(ids.unique(), ids.unique());
        assert_ne!(ids.unique(), other.unique());
        assert_eq!(ids.secret().len(), 64);
        assert_ne!(ids.secret(), ids.secret());
    }
}
