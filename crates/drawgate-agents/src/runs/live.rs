//! A run that is at work, in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::{Caller, Lineage, Surface};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::feed::{Feed, Happened, RunEvent};
use super::record::{End, InboxMessage, RunRecord, Step};
use crate::model::Message;

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It has not begun.
    Queued,
    /// A model is asked.
    Thinking,
    /// Tools are called.
    Acting,
    /// A person is asked about a call.
    Asking,
    /// Agents that it started, or delegated work, are awaited.
    Waiting,
    /// The store could not be written; it goes on when it is resumed, or with the next start.
    Suspended,
    /// It is over.
    Ended,
}

impl Phase {
    /// Its name in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Thinking => "thinking",
            Self::Acting => "acting",
            Self::Asking => "asking",
            Self::Waiting => "waiting",
            Self::Suspended => "suspended",
            Self::Ended => "ended",
        }
    }
}

/// Messages on their way to a run.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    messages: VecDeque<InboxMessage>,
    /// The run has said its last word.
    closed: bool,
}

impl Inbox {
    /// How many messages wait.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Adds a message; `false` if the run takes none any more.
    pub(crate) fn push(&mut self, message: InboxMessage) -> bool {
        if !self.closed {
            self.messages.push_back(message);
        }
        !self.closed
    }

    /// The message that comes next.
    pub(crate) fn first(&self) -> Option<InboxMessage> {
        self.messages.front().cloned()
    }

    /// Takes out the message that came next: it is a step now.
    pub(crate) fn take_first(&mut self) {
        self.messages.pop_front();
    }

    /// Takes no more messages, unless some wait; `false` then.
    pub(crate) fn close(&mut self) -> bool {
        self.closed = self.messages.is_empty();
        self.closed
    }
}

/// A run at work.
pub(crate) struct Live {
    pub(crate) id: Arc<str>,
    pub(crate) record: Mutex<RunRecord>,
    pub(crate) lineage: Arc<Lineage>,
    /// Its id and those of the runs above it, up to the root.
    pub(crate) path: Vec<Arc<str>>,
    pub(crate) cancel: CancellationToken,
    /// Why it was cancelled, if it was by itself.
    pub(crate) cancel_reason: Mutex<Option<String>>,
    pub(crate) steps: Mutex<Vec<Step>>,
    pub(crate) inbox: Mutex<Inbox>,
    /// Told when the inbox or what the run waits for has changed.
    pub(crate) arrived: Notify,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) time: Arc<RunTime>,
    pub(crate) feed: Arc<Feed>,
    /// The conversation of earlier runs in its thread.
    pub(crate) history: Vec<Message>,
}

impl Live {
    /// The run as a caller of the gate.
    pub(crate) fn caller(&self) -> Caller {
        let record = self.record.lock();
        Caller {
            principal: record.principal.clone(),
            session: None,
            surface: Surface::RUN,
            carried: record.carried.iter().cloned().map(Arc::new).collect(),
            lineage: Some(Arc::clone(&self.lineage)),
        }
    }

    /// The runs above it, up to the root.
    pub(crate) fn above(&self) -> &[Arc<str>] {
        self.path.get(1..).unwrap_or_default()
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.record.lock().end.clone()
    }

    pub(crate) fn set_phase(&self, phase: Phase, now: u64) {
        let changed = self.phase.send_if_modified(|current| {
            let is_other = *current != phase && *current != Phase::Ended;
            if is_other {
                *current = phase;
            }
            is_other
        });
        if changed && phase != Phase::Ended {
            self.tell(now, Happened::Phase { phase });
        }
    }

    /// Tells those who watch.
    pub(crate) fn tell(&self, now: u64, body: Happened) {
        self.feed.add(RunEvent {
            seq: 0,
            at: now,
            run: self.id.to_string(),
            profile: self.lineage.profile.to_string(),
            depth: self.lineage.depth,
            body,
        });
    }

    /// Waits until the run has ended.
    pub(crate) async fn ended(&self) -> Option<End> {
        let mut phase = self.phase.subscribe();
        // The sender is in `self`, so the channel can't close.
        let _ = phase.wait_for(|phase| *phase == Phase::Ended).await;
        self.end()
    }
}

/// The time of a run. It stands still while a person is asked.
#[derive(Debug)]
pub(crate) struct RunTime {
    limit: Option<Duration>,
    state: Mutex<TimeState>,
    changed: Notify,
}

#[derive(Debug)]
struct TimeState {
    began: Instant,
    /// Used and waited before this process began.
    before: Duration,
    waited_before: Duration,
    /// Waited for a person since then.
    waited: Duration,
    /// Calls that wait for a person, and since when any does.
    waiting: usize,
    since: Instant,
}

impl RunTime {
    pub(crate) fn new(limit: Option<Duration>, before: Duration, waited_before: Duration) -> Self {
        let now = Instant::now();
        let waited = Duration::ZERO;
        let state = TimeState { began: now, before, waited_before, waited, waiting: 0, since: now };
        Self { limit, state: Mutex::new(state), changed: Notify::new() }
    }

    /// A person is asked from now on; the time goes on when the guard is dropped.
    pub(crate) fn pause(self: &Arc<Self>) -> Pause {
        let mut state = self.state.lock();
        if state.waiting == 0 {
            state.since = Instant::now();
        }
        state.waiting += 1;
        drop(state);
        self.changed.notify_waiters();
        Pause(Arc::clone(self))
    }

    /// How long people were waited for, in all.
    pub(crate) fn waited(&self) -> Duration {
        let state = self.state.lock();
        state.waited_before + state.waited
    }

    /// Whether a person is asked.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().waiting > 0
    }

    /// Waits until the time is over.
    pub(crate) async fn passed(&self) {
        let Some(limit) = self.limit else { return std::future::pending().await };
        loop {
            let changed = self.changed.notified();
            let left = self.left(limit);
            match left {
                Some(left) if left.is_zero() => return,
                Some(left) => {
                    let _ = tokio::time::timeout(left, changed).await;
                }
                None => changed.await,
            }
        }
    }

    /// The time left; nothing while it stands still.
    fn left(&self, limit: Duration) -> Option<Duration> {
        let state = self.state.lock();
        if state.waiting > 0 {
            return None;
        }
        let used = state.before + state.began.elapsed().saturating_sub(state.waited);
        Some(limit.saturating_sub(used))
    }
}

/// While it lives, a run's time stands still.
pub(crate) struct Pause(Arc<RunTime>);

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.waiting = state.waiting.saturating_sub(1);
        if state.waiting == 0 {
            let waited = state.since.elapsed();
            state.waited += waited;
        }
        drop(state);
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_stands_still_while_a_person_is_asked() {
        let limit = Duration::from_secs(10);
        let time = Arc::new(RunTime::new(Some(limit), Duration::from_secs(2), Duration::ZERO));
        let began = Instant::now();
        let waiter = tokio::spawn({
            let time = Arc::clone(&time);
            async move {
                time.passed().await;
                Instant::now()
            }
        });
        tokio::time::advance(Duration::from_secs(3)).await;
        let pause = time.pause();
        let second = time.pause();
        tokio::time::advance(Duration::from_secs(100)).await;
        drop(pause);
        tokio::time::advance(Duration::from_secs(100)).await;
        drop(second);
        assert_eq!(time.waited(), Duration::from_secs(200));
        let passed = waiter.await.unwrap() - began;
        assert_eq!(passed.as_secs(), 208, "two seconds were used before, and 200 don't count");
    }
}
