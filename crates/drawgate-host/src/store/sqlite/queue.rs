//! Group commit without a hand-over. Whoever appends and finds nobody committing commits everything
//! that waits, on its own thread: a commit costs less than waking another thread. The others wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use drawgate_core::audit::EventDraft;
use drawgate_core::store::{AuditHealth, StoreError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::commit::Writer;
use super::connection::{Durability, unavailable};
use super::wal::WalThread;

/// Most events in one transaction.
const MAX_BATCH: usize = 512;
/// How often a leader lets others append before it commits, as long as more of them do.
const MAX_YIELDS: usize = 4;
/// One commit in so many tries whether others would share it, where the last was not shared.
const TRIAL: usize = 8;
/// Most appends that may wait; beyond it the disk is so slow that refusing is kinder.
const MAX_QUEUED: usize = 65_536;

/// What appends and the leader share.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    pub(super) writer: Arc<Mutex<Writer>>,
    pub(super) head: AtomicU64,
    /// Commits in a row that were not shared.
    lone: AtomicUsize,
    /// Whether the last commit failed.
    is_failing: AtomicBool,
    durability: Durability,
    wal: WalThread,
}

type Answer = oneshot::Sender<Result<u64, StoreError>>;

#[derive(Default)]
struct Waiting {
    drafts: VecDeque<Arc<EventDraft>>,
    answers: VecDeque<Answer>,
    is_led: bool,
    is_closed: bool,
}

/// Whether the leader has work left.
#[derive(PartialEq, Eq)]
enum Turn {
    More,
    Done,
}

impl Queue {
    pub(super) fn new(writer: Arc<Mutex<Writer>>, wal: WalThread) -> Arc<Self> {
        let (head, durability) = {
            let writer = writer.lock();
            (writer.chain.sequence(), writer.durability)
        };
        Arc::new(Self {
            waiting: Mutex::default(),
            writer,
            head: head.into(),
            lone: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
            durability,
            wal,
        })
    }

    /// Appends an event; done when it is committed. It is committed also if nobody waits for that.
    pub(super) async fn append(
        self: &Arc<Self>,
        draft: Arc<EventDraft>,
    ) -> Result<u64, StoreError> {
        let (answer, committed) = oneshot::channel();
        if self.enqueue(draft, answer)? {
            self.start().await;
        }
        committed.await.unwrap_or_else(|_| Err(unavailable(OPERATION, &"the writer has stopped")))
    }

    pub(super) fn queued(&self) -> usize {
        self.waiting.lock().drafts.len()
    }

    pub(super) fn health(&self) -> AuditHealth {
        let is_failing = self.is_failing.load(Ordering::Relaxed);
        if is_failing { AuditHealth::Failed } else { AuditHealth::Ok }
    }

    /// Lets no further append in.
    pub(super) fn close(&self) {
        self.waiting.lock().is_closed = true;
    }

    /// Ends the thread that belongs to the log.
    pub(super) fn stop(&self) {
        self.wal.stop();
    }

    /// Whether the caller has become the leader.
    fn enqueue(&self, draft: Arc<EventDraft>, answer: Answer) -> Result<bool, StoreError> {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return Err(unavailable(OPERATION, &"the log is closed"));
        }
        if waiting.drafts.len() >= MAX_QUEUED {
            return Err(unavailable(OPERATION, &"too many events wait to be written"));
        }
        waiting.drafts.push_back(draft);
        waiting.answers.push_back(answer);
        Ok(!std::mem::replace(&mut waiting.is_led, true))
    }

    async fn start(self: &Arc<Self>) {
        match self.durability {
            Durability::Process => {
                let successor = Successor(self);
                self.gather().await;
                std::mem::forget(successor);
                if self.lead() == Turn::More {
                    self.hand_over();
                }
            }
            // A sync takes milliseconds, which must not hold up other calls.
            Durability::Power => {
                let queue = Arc::clone(self);
                drop(tokio::task::spawn_blocking(move || while queue.lead() == Turn::More {}));
            }
        }
    }

    /// Lets whatever is ready to run on this thread append first and share the commit. Where the last
    /// ones were not shared, only a trial does: a lone caller is not made to wait for nobody.
    async fn gather(&self) {
        if !self.lone.load(Ordering::Relaxed).is_multiple_of(TRIAL) {
            return;
        }
        let mut queued = self.queued();
        for _ in 0..MAX_YIELDS {
            tokio::task::yield_now().await;
            let now = self.queued();
            if now == queued {
                return;
            }
            queued = now;
        }
    }

    /// Leaves the leadership to a task, so that this caller gets its answer; without a runtime to
    /// run one, leads to the end.
    fn hand_over(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            while self.lead() == Turn::More {}
            return;
        };
        let queue = Arc::clone(self);
        drop(runtime.spawn(async move {
            loop {
                queue.gather().await;
                if queue.lead() == Turn::Done {
                    return;
                }
            }
        }));
    }

    /// Commits one batch. The leadership ends when nobody waits after it.
    fn lead(&self) -> Turn {
        let guard = Leadership(self);
        let (drafts, answers) = self.take();
        self.commit(&drafts, answers);
        std::mem::forget(guard);
        let mut waiting = self.waiting.lock();
        waiting.is_led = !waiting.drafts.is_empty();
        if waiting.is_led { Turn::More } else { Turn::Done }
    }

    fn take(&self) -> (Vec<Arc<EventDraft>>, Vec<Answer>) {
        let mut waiting = self.waiting.lock();
        let count = waiting.drafts.len().min(MAX_BATCH);
        (waiting.drafts.drain(..count).collect(), waiting.answers.drain(..count).collect())
    }

    fn commit(&self, drafts: &[Arc<EventDraft>], answers: Vec<Answer>) {
        let (result, head, pages) = {
            let mut writer = self.writer.lock();
            let result = writer.commit(drafts);
            (result, writer.chain.sequence(), std::mem::take(&mut writer.pages))
        };
        self.head.store(head, Ordering::Release);
        self.is_failing.store(result.is_err(), Ordering::Relaxed);
        let lone = if drafts.len() > 1 { 0 } else { self.lone.load(Ordering::Relaxed) + 1 };
        self.lone.store(lone, Ordering::Relaxed);
        self.wal.written(pages);
        for (place, answer) in (0..).zip(answers) {
            // A caller that has gone away needs no answer.
            drop(answer.send(result.clone().map(|first| first + place)));
        }
    }
}

/// Finds a new leader if this one's future is dropped before it has led.
struct Successor<'a>(&'a Arc<Queue>);

impl Drop for Successor<'_> {
    fn drop(&mut self) {
        self.0.hand_over();
    }
}

/// Ends the leadership if committing panics: those who wait get an error instead of waiting for ever.
struct Leadership<'a>(&'a Queue);

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        waiting.is_led = false;
        waiting.drafts.clear();
        waiting.answers.clear();
    }
}

const OPERATION: &str = "append to the audit log";
