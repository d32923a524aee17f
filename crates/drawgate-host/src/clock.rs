//! The machine's clock and its randomness, behind the gate's traits.

#![expect(clippy::disallowed_methods, reason = "this is the one place that reads the system clock")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use drawgate_core::canonical;
use drawgate_core::clock::{Clock, Ids};

/// The system clock, which never goes back: when it is set back, its highest value repeats.
#[derive(Debug, Default)]
pub struct SystemClock {
    highest: AtomicU64,
}

impl SystemClock {
    /// A clock that starts with the present time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn observe(&self, now: u64) -> u64 {
        self.highest.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.observe(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
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
    fn a_clock_set_back_repeats_its_highest_value() {
        let clock = SystemClock::new();
        let readings: Vec<u64> = [10, 30, 20, 31].map(|now| clock.observe(now)).to_vec();
        assert_eq!(readings, [10, 30, 30, 31]);
        assert!(clock.now_ms() > 1_700_000_000_000);
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
