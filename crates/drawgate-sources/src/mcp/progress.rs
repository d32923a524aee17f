//! Progress reports and log messages on their way to a caller, a few at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_core::source::ProgressSink;
use serde_json::{Map, Value};

/// How many reports may come in one burst.
const REPORTS: u32 = 10;
/// How many log messages; unlike a report, one does not make the one before it worthless.
const MESSAGES: u32 = 100;
/// How long until another one is let through: ten in a second.
const INTERVAL: Duration = Duration::from_millis(100);

/// Passes reports and messages on, and drops those that come too fast.
pub(super) struct Progress {
    sink: Arc<dyn ProgressSink>,
    reports: Bucket,
    messages: Bucket,
}

/// Lets a burst through, then a steady trickle.
struct Bucket {
    burst: u32,
    left: u32,
    since: Instant,
}

impl Progress {
    pub(super) fn new(sink: Arc<dyn ProgressSink>, now: Instant) -> Self {
        let bucket = |burst| Bucket { burst, left: burst, since: now };
        Self { sink, reports: bucket(REPORTS), messages: bucket(MESSAGES) }
    }

    pub(super) fn report(&mut self, report: Map<String, Value>, now: Instant) {
        if self.reports.take(now) {
            self.sink.report(report);
        }
    }

    pub(super) fn log(&mut self, message: Map<String, Value>, now: Instant) {
        if self.messages.take(now) {
            self.sink.log(message);
        }
    }
}

impl Bucket {
    fn take(&mut self, now: Instant) -> bool {
        let earned = now.duration_since(self.since).as_millis() / INTERVAL.as_millis();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(self.burst);
            self.left = self.left.saturating_add(earned).min(self.burst);
            self.since = now;
        }
        let passes = self.left > 0;
        self.left = self.left.saturating_sub(1);
        passes
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Count(Mutex<usize>);

    impl ProgressSink for Count {
        fn report(&self, _: Map<String, Value>) {
            *self.0.lock() += 1;
        }

        fn log(&self, _: Map<String, Value>) {
            *self.0.lock() += 1;
        }
    }

    #[test]
    fn a_flood_is_thinned_to_ten_in_a_second() {
        let (count, start) = (Arc::new(Count::default()), Instant::now());
        let mut progress = Progress::new(count.clone(), start);
        let report = || Map::from_iter([("progress".to_owned(), json!(1))]);
        for index in 0..100_000_u64 {
            progress.report(report(), start + Duration::from_micros(index * 10));
        }
        let passed = *count.0.lock();
        assert!((15..=20).contains(&passed), "{passed} in one second, the burst included");
    }

    #[test]
    fn log_messages_are_thinned_by_themselves() {
        let (count, start) = (Arc::new(Count::default()), Instant::now());
        let mut progress = Progress::new(count.clone(), start);
        for _ in 0..1000 {
            progress.log(Map::new(), start);
        }
        assert_eq!(*count.0.lock(), MESSAGES as usize);
        progress.report(Map::new(), start);
        assert_eq!(*count.0.lock(), MESSAGES as usize + 1);
    }
}
