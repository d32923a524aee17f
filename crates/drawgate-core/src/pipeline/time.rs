//! How long a call may take, and what is said when it took longer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

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
        let asked = asked.filter(|asked| *asked < most.0);
        let (in_all, longest) = asked.map_or(most, |asked| (asked, Longest::Asked));
        Self { patience: own.min(in_all), in_all, longest }
    }

    /// When the time is over that the caller asked for, if it did, for a call that begins now. It goes on while a
    /// person is asked.
    pub(super) fn asked_until(self) -> Option<Instant> {
        (self.longest == Longest::Asked).then(|| Instant::now() + self.in_all)
    }

    /// The time of the tool itself, which begins now.
    pub(super) fn begin(self, asked_until: Option<Instant>) -> Deadline {
        let left = asked_until.map(|end| end.saturating_duration_since(Instant::now()));
        let in_all = left.unwrap_or(self.in_all);
        Deadline::new(self.patience.min(in_all), in_all)
    }

    /// The refusal of a call whose own time ended before a person had decided.
    pub(super) fn too_late(self, refusal: Refusal) -> Refusal {
        let time = shown(self.in_all);
        let message = format!("the call had {time}, which the caller gave it: {}", refusal.message);
        Refusal { code: ErrorCode::Timeout, message, ..refusal }
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

/// The time of a call whose tool has answered.
pub(super) struct CallTime {
    pub(super) limit: TimeLimit,
    pub(super) deadline: Deadline,
}

impl CallTime {
    /// Ends when the time is over or the caller has given up. It costs nothing unless it is waited for.
    pub(super) fn late<'a>(&self, entry: &Arc<Entry>, cancel: &'a CancellationToken) -> Late<'a> {
        Late::Unasked(Some((self.limit, self.deadline.clone(), Arc::clone(entry), cancel)))
    }
}

/// What [`CallTime::late`] returns.
pub(super) enum Late<'a> {
    Unasked(Option<(TimeLimit, Deadline, Arc<Entry>, &'a CancellationToken)>),
    Waiting(Pin<Box<dyn Future<Output = Refusal> + Send + 'a>>),
}

impl Future for Late<'_> {
    type Output = Refusal;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Refusal> {
        let late = self.get_mut();
        if let Late::Unasked(parts) = late {
            let Some((limit, deadline, entry, cancel)) = parts.take() else { return Poll::Pending };
            *late = Late::Waiting(Box::pin(async move {
                tokio::select! {
                    () = cancel.cancelled() => {
                        let message = "the caller cancelled the call after the tool had answered";
                        refuse(ErrorCode::Cancelled, message)
                    }
                    () = deadline.passed() => limit.refusal(&entry, &deadline),
                }
            }));
        }
        match late {
            Late::Waiting(end) => end.as_mut().poll(context),
            Late::Unasked(_) => Poll::Pending,
        }
    }
}

fn shown(time: Duration) -> String {
    if time.subsec_millis() == 0 && time >= Duration::from_secs(1) {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}
