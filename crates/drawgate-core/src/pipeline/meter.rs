//! What is counted about a tool. Handles are made once, at registration: labels are a bounded set.

use std::time::Duration;

use metrics::{Counter, Histogram};

use crate::model::{Ending, ErrorCode, ToolId};

/// Counters and a histogram of one tool.
pub struct Meter {
    succeeded: Counter,
    asked: Counter,
    failed: [Counter; ErrorCode::ALL.len()],
    seconds: Histogram,
}

impl Meter {
    pub(crate) fn new(id: &ToolId) -> Self {
        let labels = |code: &'static str| {
            [
                metrics::Label::new("tool", id.as_str().to_owned()),
                metrics::Label::new("source", id.source().as_str().to_owned()),
                metrics::Label::from_static_parts("code", code),
            ]
        };
        let counter = |code| metrics::counter!("drawgate_calls_total", labels(code).to_vec());
        Self {
            succeeded: counter(Ending::Done.as_str()),
            asked: counter(Ending::Asked.as_str()),
            failed: ErrorCode::ALL.map(|code| counter(code.as_str())),
            seconds: metrics::histogram!("drawgate_call_seconds", "source" => id.source().as_str().to_owned()),
        }
    }

    pub(crate) fn record(&self, ending: Ending, took: Duration) {
        match ending {
            Ending::Done => self.succeeded.increment(1),
            Ending::Asked => self.asked.increment(1),
            Ending::Failed(code) => {
                let place = ErrorCode::ALL.iter().position(|other| *other == code);
                if let Some(counter) = place.and_then(|place| self.failed.get(place)) {
                    counter.increment(1);
                }
            }
        }
        self.seconds.record(took);
    }
}
