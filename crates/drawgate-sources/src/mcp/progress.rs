//! Progress reports on their way to a caller, a few at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_core::source::ProgressSink;
use serde_json::{Map, Value};

/// How many reports may come in one burst.
const BURST: u32 = 10;
/// How long until another one is let through: ten in a second.
const INTERVAL: Duration = Duration::from_millis(100);

/// Passes reports on, and drops those that come too fast.
pub(super) struct Progress {
    sink: Arc<dyn ProgressSink>,
    left: u32,
    since: Instant,
}

impl Progress {
    pub(super) fn new(sink: Arc<dyn ProgressSink>, now: Instant) -> Self {
        Self { sink, left: BURST, since: now }
    }

    pub(super) fn report(&mut self, report: Map<String, Value>, now: Instant) {
        let earned = now.duration_since(self.since).as_millis() / INTERVAL.as_millis();
        if earned > 0 {
            self.left = self.left.saturating_add(u32::try_from(earned).unwrap_or(BURST)).min(BURST);
            self.since = now;
        }
        if self.left > 0 {
            self.left -= 1;
            self.sink.report(report);
        }
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
}
