//! How fast messages are read that no request waits for. A peer that sends without end waits in its own
//! pipe or connection, and takes a bounded part of the processor.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// What a message counts, and a line that is only kept or passed over.
const MESSAGE: Duration = Duration::from_millis(1);
const LINE: Duration = Duration::from_micros(100);
/// How many bytes count as much as a message.
const BYTES: usize = 64 * 1024;
/// How much may come at once. A peer that has sent more is not read until half of it is over, so that
/// reading it needs few wake-ups.
const BURST: Duration = Duration::from_secs(1);

/// The pace of one peer.
#[derive(Debug)]
pub struct Pace {
    paid_until: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        Self { paid_until: Instant::now() }
    }
}

impl Pace {
    /// Counts a message of so many bytes, and waits if there were too many of late.
    pub async fn message(&mut self, bytes: usize) {
        self.spend(MESSAGE + for_bytes(bytes)).await;
    }

    /// Counts lines of so many bytes together, and waits likewise.
    pub async fn lines(&mut self, count: usize, bytes: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.spend(LINE.saturating_mul(count) + for_bytes(bytes)).await;
    }

    async fn spend(&mut self, time: Duration) {
        let now = Instant::now();
        self.paid_until = self.paid_until.max(now) + time;
        let ahead = self.paid_until.saturating_duration_since(now);
        if ahead > BURST {
            // On the heap: it is rare, and readers are parts of the futures of calls.
            Box::pin(sleep(ahead.saturating_sub(BURST / 2))).await;
        }
    }
}

fn for_bytes(bytes: usize) -> Duration {
    MESSAGE.saturating_mul(u32::try_from(bytes / BYTES).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long so many messages take.
    async fn time_of(messages: usize, bytes: usize) -> Duration {
        let (begun, mut pace) = (Instant::now(), Pace::default());
        for _ in 0..messages {
            pace.message(bytes).await;
        }
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_read_at_once_and_a_flood_at_a_bounded_pace() {
        assert_eq!(time_of(1000, 100).await, Duration::ZERO);
        let flood = time_of(10_000, 100).await;
        assert!(flood >= Duration::from_secs(9), "{flood:?}");
        let large = time_of(40, 16 * 1024 * 1024).await;
        assert!(large >= Duration::from_secs(9), "{large:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_was_silent_may_send_a_burst_again() {
        let mut pace = Pace::default();
        for _ in 0..5000 {
            pace.message(0).await;
        }
        sleep(BURST).await;
        let begun = Instant::now();
        for _ in 0..1000 {
            pace.message(0).await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
