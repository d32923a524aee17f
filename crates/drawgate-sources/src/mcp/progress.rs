//! Progress reports and log messages on their way to a caller, a few at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_core::source::ProgressSink;
use serde_json::{Map, Value};

/// How many reports, and how many log messages, may come in one burst.
const BURST: u32 = 100;
/// How long until another one is let through: ten in a second.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// How many log messages wait; of more, the newest are kept.
const MAX_MESSAGES: usize = 20;

/// Passes reports and messages on. Of those that come too fast the last are held back for a while, so
/// that how it ended is never lost.
pub(super) struct Progress {
    sink: Arc<dyn ProgressSink>,
    reports: Bucket,
    messages: Bucket,
    /// The newest report. Unlike a message, one makes the one before it worthless.
    report: Option<Map<String, Value>>,
    waiting: VecDeque<Map<String, Value>>,
    left_out: u64,
}

/// Lets a burst through, then a steady trickle.
struct Bucket {
    left: u32,
    since: Instant,
}

impl Progress {
    pub(super) fn new(sink: Arc<dyn ProgressSink>, now: Instant) -> Self {
        let bucket = || Bucket { left: BURST, since: now };
        Self {
            sink,
            reports: bucket(),
            messages: bucket(),
            report: None,
            waiting: VecDeque::new(),
            left_out: 0,
        }
    }

    pub(super) fn report(&mut self, report: Map<String, Value>, now: Instant) {
        self.report = Some(report);
        self.pass(now);
    }

    pub(super) fn log(&mut self, message: Map<String, Value>, now: Instant) {
        if self.waiting.len() == MAX_MESSAGES {
            self.waiting.pop_front();
            self.left_out += 1;
        }
        self.waiting.push_back(message);
        self.pass(now);
    }

    /// Passes on what was held back, as far as it is time.
    pub(super) fn pass(&mut self, now: Instant) {
        if self.report.is_some()
            && self.reports.take(now)
            && let Some(report) = self.report.take()
        {
            self.sink.report(report);
        }
        while !self.waiting.is_empty() && self.messages.take(now) {
            self.pass_message();
        }
    }

    /// Whether something is held back.
    pub(super) fn is_holding(&self) -> bool {
        self.report.is_some() || !self.waiting.is_empty()
    }

    fn pass_message(&mut self) {
        if self.left_out > 0 {
            let lost = format!("{} messages came too fast and were left out", self.left_out);
            self.left_out = 0;
            let note = [("level", "notice"), ("logger", "drawgate"), ("data", lost.as_str())];
            self.sink
                .log(note.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect());
        }
        if let Some(message) = self.waiting.pop_front() {
            self.sink.log(message);
        }
    }
}

/// Nothing more comes, so that the last must go now.
impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            self.sink.report(report);
        }
        while !self.waiting.is_empty() {
            self.pass_message();
        }
    }
}

impl Bucket {
    fn take(&mut self, now: Instant) -> bool {
        let earned = now.duration_since(self.since).as_millis() / INTERVAL.as_millis();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(BURST);
            self.left = self.left.saturating_add(earned).min(BURST);
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
    struct Heard {
        reports: Mutex<Vec<Value>>,
        messages: Mutex<Vec<Value>>,
    }

    impl ProgressSink for Heard {
        fn report(&self, report: Map<String, Value>) {
            self.reports.lock().push(report["progress"].clone());
        }

        fn log(&self, message: Map<String, Value>) {
            self.messages.lock().push(message["data"].clone());
        }
    }

    fn map(key: &str, value: u64) -> Map<String, Value> {
        Map::from_iter([(key.to_owned(), json!(value))])
    }

    fn fresh() -> (Arc<Heard>, Progress, Instant) {
        let (heard, start) = (Arc::new(Heard::default()), Instant::now());
        (heard.clone(), Progress::new(heard, start), start)
    }

    #[test]
    fn a_flood_is_thinned_to_ten_in_a_second_and_its_last_report_comes() {
        let (heard, mut progress, start) = fresh();
        for index in 0..100_000 {
            progress.report(map("progress", index), start + Duration::from_micros(index * 10));
        }
        let passed = heard.reports.lock().len();
        assert!((100..=110).contains(&passed), "{passed} in one second, the burst included");
        assert!(progress.is_holding());
        drop(progress);
        assert_eq!(heard.reports.lock().last(), Some(&json!(99_999)));
    }

    #[test]
    fn what_is_held_back_is_passed_on_when_it_is_time() {
        let (heard, mut progress, start) = fresh();
        for index in 0..150 {
            progress.report(map("progress", index), start);
        }
        assert_eq!(heard.reports.lock().last(), Some(&json!(99)));
        progress.pass(start + INTERVAL / 2);
        assert!(progress.is_holding());
        progress.pass(start + INTERVAL);
        assert_eq!(heard.reports.lock().last(), Some(&json!(149)));
        assert!(!progress.is_holding());
        drop(progress);
        assert_eq!(heard.reports.lock().len(), 101, "each comes once");
    }

    #[test]
    fn log_messages_keep_their_order_and_say_how_many_are_missing() {
        let (heard, mut progress, start) = fresh();
        for index in 0..1000 {
            progress.log(map("data", index), start);
        }
        assert_eq!(heard.messages.lock().len(), 100);
        progress.report(map("progress", 1), start);
        assert_eq!(heard.reports.lock().len(), 1, "reports have a bucket of their own");
        drop(progress);
        let messages = heard.messages.lock().clone();
        assert_eq!(messages[100], json!("880 messages came too fast and were left out"));
        assert_eq!(messages[101..], (980..1000).map(|index| json!(index)).collect::<Vec<_>>());
    }
}
