//! What is counted about a tool. A series begins with the first call that it counts: a list of what never happened
//! would be most of the metrics. Labels are a bounded set.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram, Label};

use crate::model::{Ending, ErrorCode, ToolId};

/// Counters and a histogram of one tool.
pub struct Meter {
    id: ToolId,
    succeeded: OnceLock<Counter>,
    asked: OnceLock<Counter>,
    failed: [OnceLock<Counter>; ErrorCode::ALL.len()],
    seconds: OnceLock<Histogram>,
}

impl Meter {
    pub(crate) fn new(id: &ToolId) -> Self {
        Self {
            id: id.clone(),
            succeeded: OnceLock::new(),
            asked: OnceLock::new(),
            failed: ErrorCode::ALL.map(|_| OnceLock::new()),
            seconds: OnceLock::new(),
        }
    }

    pub(crate) fn record(&self, ending: Ending, took: Duration) {
        let counter = match ending {
            Ending::Done => Some(&self.succeeded),
            Ending::Asked => Some(&self.asked),
            Ending::Failed(code) => {
                let place = ErrorCode::ALL.iter().position(|other| *other == code);
                place.and_then(|place| self.failed.get(place))
            }
        };
        if let Some(counter) = counter {
            counter.get_or_init(|| self.counter(ending)).increment(1);
        }
        self.seconds.get_or_init(|| self.histogram()).record(took);
    }

    fn counter(&self, ending: Ending) -> Counter {
        let labels = vec![
            Label::new("tool", self.id.as_str().to_owned()),
            Label::new("source", self.id.source().as_str().to_owned()),
            Label::from_static_parts("code", ending.as_str()),
        ];
        metrics::counter!("drawgate_calls_total", labels)
    }

    fn histogram(&self) -> Histogram {
        let source = self.id.source().as_str().to_owned();
        metrics::histogram!("drawgate_call_seconds", "source" => source)
    }
}
