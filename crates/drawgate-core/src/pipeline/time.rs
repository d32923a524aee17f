//! How long a call may take, and what is said when it took longer.

use std::time::Duration;

use super::{Refusal, refuse};
use crate::deadline::Deadline;
use crate::model::ErrorCode;
use crate::registry::Entry;

/// The time that a call has.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimit {
    /// Without an answer or a report of progress.
    pub(super) patience: Duration,
    /// In all.
    in_all: Duration,
    longest: Longest,
}

/// What bounds the time in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Longest {
    /// What the caller asked for.
    Asked,
    /// What no call may exceed.
    Call,
    /// What no task may exceed.
    Task,
}

impl TimeLimit {
    /// A caller may only shorten the time.
    pub(super) fn new(own: Duration, most: (Duration, Longest), asked: Option<Duration>) -> Self {
        let (in_all, longest) = match asked {
            Some(asked) if asked < most.0 => (asked, Longest::Asked),
            _ => most,
        };
        Self { patience: own.min(in_all), in_all, longest }
    }

    pub(super) fn begin(self) -> Deadline {
        Deadline::new(self.patience, self.in_all)
    }

    /// The answer when the time is over: which limit it was, and how to raise it.
    pub(super) fn refusal(self, entry: &Entry, deadline: &Deadline) -> Refusal {
        let in_all = deadline.at() >= deadline.latest();
        let time = shown(if in_all { self.in_all } else { self.patience });
        let advice = match (in_all, self.longest) {
            (true, Longest::Asked) => "the time that the caller gave it",
            (true, Longest::Call) => {
                "which no call may exceed; an operator can raise `max_timeout_seconds` in `[limits]`"
            }
            (true, Longest::Task) => {
                "which no task may exceed; an operator can raise `max_task_seconds` in `[limits]`"
            }
            (false, _) => {
                "nor did it report progress; an operator can raise `timeout_seconds` of its server \
                 or in `[limits]`"
            }
        };
        let mut text = format!("`{}` did not answer within {time}, {advice}", entry.id);
        if let Some(left) = entry.source.after_timeout() {
            text.push_str("; ");
            text.push_str(left);
        }
        refuse(ErrorCode::Timeout, text)
    }
}

fn shown(time: Duration) -> String {
    if time.subsec_millis() == 0 && time >= Duration::from_secs(1) {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}
