//! How fast a plugin is read. Beyond that its pipes fill up, so that it waits and not the gateway.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How much of a stream is read in a second.
pub(super) struct Pace {
    lines: usize,
    bytes: usize,
    since: Instant,
    read_lines: usize,
    read_bytes: usize,
}

impl Pace {
    /// So many lines and bytes in a second.
    pub(super) fn new(lines: usize, bytes: usize) -> Self {
        Self { lines, bytes, since: Instant::now(), read_lines: 0, read_bytes: 0 }
    }

    /// Returns when the next line may be read.
    pub(super) async fn keep(&mut self) {
        let end = self.since + Duration::from_secs(1);
        if Instant::now() < end {
            if self.read_lines < self.lines && self.read_bytes < self.bytes {
                return;
            }
            sleep_until(end).await;
        }
        (self.since, self.read_lines, self.read_bytes) = (Instant::now(), 0, 0);
    }

    /// Counts a line that was read.
    pub(super) fn count(&mut self, bytes: usize) {
        self.read_lines += 1;
        self.read_bytes = self.read_bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_more_waits_for_the_next_second() {
        for (mut pace, bytes) in [(Pace::new(10, 1000), 1), (Pace::new(1000, 10), 1)] {
            let began = Instant::now();
            let mut at = Vec::new();
            for _ in 0..21 {
                pace.keep().await;
                pace.count(bytes);
                at.push(began.elapsed().as_secs());
            }
            assert_eq!((at[9], at[10], at[19], at[20]), (0, 1, 1, 2));
        }
    }
}
