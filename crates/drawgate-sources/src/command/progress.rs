//! Reports the output of a long run to the caller, line by line, as progress.
//!
//! Only whole lines are reported, so that no secret is split and passes the mask in pieces.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::registry::visible_text;
use drawgate_core::source::ProgressSink;
use serde_json::Map;
use tokio::time::Instant;

use crate::excerpt::masked;

/// Shorter runs report nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two reports.
const INTERVAL: Duration = Duration::from_millis(250);
/// Longer lines are left out.
const MAX_LINE: usize = 2000;
/// Bytes of lines in one report; of more, the newest are reported.
const MAX_REPORT: usize = 2000;
/// Shorter lines of a secret are no secrets by themselves.
const MIN_FRAGMENT: usize = 8;

/// Reports new lines from time to time.
pub(super) struct OutputProgress {
    sink: Option<Arc<dyn ProgressSink>>,
    /// Secrets, and the lines of those that have several.
    secrets: Vec<String>,
    fresh: VecDeque<String>,
    fresh_bytes: usize,
    lines: u64,
    due: Instant,
}

/// The line that one stream is in the middle of.
#[derive(Default)]
pub(super) struct PartialLine {
    bytes: Vec<u8>,
    is_long: bool,
}

impl OutputProgress {
    pub(super) fn new(sink: Option<Arc<dyn ProgressSink>>, known: &[String]) -> Self {
        let fragments = known.iter().flat_map(|secret| secret.lines()).map(str::trim);
        let fragments = fragments.filter(|line| line.len() >= MIN_FRAGMENT).map(str::to_owned);
        Self {
            sink,
            secrets: known.iter().cloned().chain(fragments).collect(),
            fresh: VecDeque::new(),
            fresh_bytes: 0,
            lines: 0,
            due: Instant::now() + PATIENCE,
        }
    }

    /// Takes what a stream brought.
    pub(super) fn take(&mut self, bytes: &[u8], line: &mut PartialLine) {
        if self.sink.is_none() {
            return;
        }
        // A progress bar returns to the beginning of its line instead of beginning another.
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            line.push(part);
            if part.ends_with(b"\n") || part.ends_with(b"\r") {
                self.add(&std::mem::take(line));
            }
        }
    }

    /// When the next report is due, if there is anything to report.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.fresh.is_empty()).then_some(self.due)
    }

    /// Reports what is new.
    pub(super) fn send(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        self.fresh_bytes = 0;
        self.due = Instant::now() + INTERVAL;
        let shown: Vec<String> = fresh
            .iter()
            .map(|line| visible_text(&masked(line, &self.secrets)).into_owned())
            .collect();
        if let Some(sink) = &self.sink {
            sink.report(Map::from_iter([
                ("progress".to_owned(), self.lines.into()),
                ("message".to_owned(), shown.join("\n").into()),
            ]));
        }
    }

    fn add(&mut self, line: &PartialLine) {
        if line.is_long || line.bytes.trim_ascii().is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(line.bytes.trim_ascii_end()).into_owned();
        self.lines += 1;
        self.fresh_bytes += text.len();
        self.fresh.push_back(text);
        while self.fresh_bytes > MAX_REPORT {
            let Some(oldest) = self.fresh.pop_front() else { break };
            self.fresh_bytes -= oldest.len();
        }
    }
}

impl PartialLine {
    fn push(&mut self, bytes: &[u8]) {
        self.is_long |= self.bytes.len() + bytes.len() > MAX_LINE;
        if self.is_long {
            self.bytes.clear();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use serde_json::Value;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<Map<String, Value>>>);

    impl ProgressSink for Heard {
        fn report(&self, progress: Map<String, Value>) {
            self.0.lock().push(progress);
        }
    }

    fn told(chunks: &[&str], known: &[&str]) -> Option<String> {
        let heard = Arc::new(Heard::default());
        let known: Vec<String> = known.iter().map(|known| (*known).to_owned()).collect();
        let mut report = OutputProgress::new(Some(heard.clone()), &known);
        let mut line = PartialLine::default();
        for chunk in chunks {
            report.take(chunk.as_bytes(), &mut line);
        }
        report.due()?;
        report.send();
        assert_eq!(report.due(), None, "nothing is told twice");
        let reports = heard.0.lock();
        Some(reports[0]["message"].as_str().unwrap().to_owned())
    }

    #[test]
    fn whole_lines_are_told_and_nothing_else() {
        assert_eq!(told(&["one\ntw", "o\r\n\nthr"], &[]).as_deref(), Some("one\ntwo"));
        assert_eq!(told(&["no line end"], &[]), None);
        assert_eq!(told(&["10%\r20%\r"], &[]).as_deref(), Some("10%\n20%"));
        assert_eq!(told(&["\u{1b}[31mred\n"], &[]).as_deref(), Some("\\u{1b}[31mred"));
        let long = "x".repeat(MAX_LINE);
        assert_eq!(told(&[&long, "x\nshort\n"], &[]).as_deref(), Some("short"));
    }

    #[test]
    fn of_too_much_the_newest_is_told() {
        let flood = "line\n".repeat(10_000) + "last\n";
        let told = told(&[&flood], &[]).unwrap();
        assert!(told.ends_with("last") && told.len() < 2 * MAX_REPORT, "{}", told.len());
    }

    #[test]
    fn a_secret_of_several_lines_is_masked_line_by_line() {
        let told = told(&["key: first-line\n", "second-line\n"], &["first-line\nsecond-line\nx"]);
        assert_eq!(told.as_deref(), Some("key: ****\n****"));
    }
}
