//! When the answer to a call must be there: a time without any progress, and a time in all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The time that a call has. Each report of progress begins it anew, as far as the longest time in all.
/// Clones are the same call's.
#[derive(Debug, Clone)]
pub struct Deadline {
    patience: Duration,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    latest: Instant,
    /// The beginning of the call, or the last report.
    since: Mutex<Instant>,
}

/// The time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed;

impl Deadline {
    /// No clock reaches further than this without overflow.
    const LONGEST: Duration = Duration::from_hours(365 * 24);
    /// A timer that is so late was not looked at: the program was stopped, or the machine slept.
    const OVERSLEPT: Duration = Duration::from_secs(1);
    /// The time for what came while the program stood still.
    const GRACE: Duration = Duration::from_secs(1);

    /// Begins now.
    #[must_use]
    pub fn new(patience: Duration, in_all: Duration) -> Self {
        let now = now();
        let latest = now + in_all.min(Self::LONGEST);
        Self {
            patience: patience.min(Self::LONGEST),
            shared: Arc::new(Shared { latest, since: Mutex::new(now) }),
        }
    }

    /// The same for a part of the call that has less patience.
    #[must_use]
    pub fn within(&self, patience: Duration) -> Self {
        Self { patience: patience.min(self.patience), shared: Arc::clone(&self.shared) }
    }

    /// When the time is over, unless there is progress.
    #[must_use]
    pub fn at(&self) -> Instant {
        (*self.shared.since.lock() + self.patience).min(self.shared.latest)
    }

    /// When the time is over, whatever progress there is.
    #[must_use]
    pub fn latest(&self) -> Instant {
        self.shared.latest
    }

    /// There is progress.
    pub fn extend(&self) {
        *self.shared.since.lock() = now();
    }

    /// Returns when the time is over.
    pub async fn passed(&self) {
        let mut at = self.at().max(now());
        loop {
            tokio::time::sleep_until(at.into()).await;
            let (later, now) = (self.at(), now());
            at = match now.saturating_duration_since(at) {
                _ if later > at => later,
                // The program stood still: what came meanwhile is read before it is called late.
                overslept if overslept > Self::OVERSLEPT => now + Self::GRACE,
                _ => return,
            };
        }
    }

    /// Waits for something within the time.
    pub async fn bound<T>(&self, work: impl Future<Output = T>) -> Result<T, Passed> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.passed() => Err(Passed),
        }
    }
}

/// A time that no progress extends.
impl From<Instant> for Deadline {
    fn from(latest: Instant) -> Self {
        let patience = Self::LONGEST;
        Self { patience, shared: Arc::new(Shared { latest, since: Mutex::new(now()) }) }
    }
}

/// The runtime's clock, which tests can stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn progress_begins_the_time_anew_up_to_the_longest() {
        let deadline = Deadline::new(10 * SECOND, 25 * SECOND);
        let (part, began) = (deadline.within(4 * SECOND), now());
        assert_eq!(part.at() - began, 4 * SECOND);
        for reported in [3, 6, 15, 24] {
            advance((began + reported * SECOND) - now()).await;
            deadline.extend();
            let until = |patience: u32| (reported + patience).min(25) * SECOND;
            assert_eq!(deadline.at() - began, until(10));
            assert_eq!(part.at() - began, until(4));
        }
        assert_eq!(deadline.bound(std::future::pending::<()>()).await, Err(Passed));
        assert_eq!((now() - began).as_secs(), 25);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_follows_reports_that_come_meanwhile() {
        let deadline = Deadline::new(10 * SECOND, 60 * SECOND);
        let work = async {
            for _ in 0..4 {
                tokio::time::sleep(9 * SECOND).await;
                deadline.extend();
            }
        };
        assert_eq!(deadline.bound(work).await, Ok(()));
        assert!(timeout(9 * SECOND, deadline.passed()).await.is_err());
        assert!(timeout(2 * SECOND, deadline.passed()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_while_the_program_stood_still_is_not_late() {
        let deadline = Deadline::new(10 * SECOND, 60 * SECOND);
        let (send, answer) = tokio::sync::oneshot::channel();
        let mut bound = std::pin::pin!(deadline.bound(answer));
        assert!(timeout(SECOND, &mut bound).await.is_err());
        advance(20 * SECOND).await;
        // Whatever reads the answer has its turn after the timer.
        let read = async {
            tokio::task::yield_now().await;
            send.send(7).unwrap();
        };
        assert_eq!(tokio::join!(bound, read).0, Ok(Ok(7)));
        let began = now();
        assert_eq!(deadline.bound(std::future::pending::<()>()).await, Err(Passed));
        assert_eq!(now(), began, "who begins to wait when it is over does not wait");
    }

    #[tokio::test]
    async fn the_longest_times_do_not_overflow() {
        let deadline = Deadline::new(Duration::MAX, Duration::MAX);
        assert!(deadline.at() > now());
        assert_eq!(deadline.bound(async { 1 }).await, Ok(1));
    }
}
