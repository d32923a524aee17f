//! What is remembered of a plugin while the gateway runs, whichever host it has: the conversations that it was
//! told of, and the calls of its tools. It may act in these and in no others.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use drawgate_core::canonical::sha256_hex;
use drawgate_core::model::{Caller, Principal, Surface};
use drawgate_core::source::{CallContext, SourceError};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::storage::StoredKeys;
use crate::plugin::CallMeta;
use crate::runs::session::STEP_KEY;

/// Conversations that are remembered; the oldest go first.
const MAX_THREADS: usize = 4096;
/// Calls that are remembered; the oldest go first.
const MAX_CALLS: usize = 256;
/// How long after its call a caller that is no run can be delegated for.
const CALL_KEPT: Duration = Duration::from_mins(10);
/// Runs that a plugin may wait for at once. This also ends calls that lead back to themselves.
const MAX_INVOKES: usize = 8;
/// Announcements within a time, so that plugins that answer each other come to rest.
const MAX_BROADCASTS: usize = 60;
const BROADCAST_TIME: Duration = Duration::from_mins(1);
/// Hexadecimal digits of the id of a caller's conversation.
const CALLER_DIGITS: usize = 24;

tokio::task_local! {
    /// The call that this task performs, where the plugin is in this process.
    static CALLING: u64;
}

/// Numbers of calls, over all plugins.
static NEXT_CALL: AtomicU64 = AtomicU64::new(0);

/// What is remembered of a plugin.
pub(crate) struct Known {
    threads: Mutex<Threads>,
    calls: Mutex<VecDeque<Called>>,
    broadcasts: Mutex<VecDeque<Instant>>,
    /// Runs that it may wait for.
    pub(crate) invokes: Semaphore,
    /// One change of what it stores at a time.
    pub(crate) storing: tokio::sync::Mutex<Option<StoredKeys>>,
}

#[derive(Default)]
struct Threads {
    known: BTreeSet<String>,
    order: VecDeque<String>,
}

/// A call of one of its tools.
#[derive(Clone)]
pub(crate) struct Called {
    id: u64,
    pub(crate) caller: Caller,
    pub(crate) step: Option<u32>,
    thread: String,
    /// When it ended; nothing while it is under way.
    ended: Option<Instant>,
    /// Whether something was delegated in its name.
    used: bool,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            threads: Mutex::default(),
            calls: Mutex::default(),
            broadcasts: Mutex::default(),
            invokes: Semaphore::new(MAX_INVOKES),
            storing: tokio::sync::Mutex::default(),
        }
    }
}

impl Known {
    /// The plugin is told of a conversation.
    pub(crate) fn learn(&self, thread: &str) {
        let mut threads = self.threads.lock();
        if !threads.known.insert(thread.to_owned()) {
            return;
        }
        threads.order.push_back(thread.to_owned());
        if threads.order.len() > MAX_THREADS
            && let Some(oldest) = threads.order.pop_front()
        {
            threads.known.remove(&oldest);
        }
    }

    /// Whether the plugin was told of a conversation.
    pub(crate) fn knows(&self, thread: &str) -> bool {
        self.threads.lock().known.contains(thread)
    }

    /// Whether the plugin may announce something now.
    pub(crate) fn may_broadcast(&self) -> bool {
        let mut past = self.broadcasts.lock();
        while past.front().is_some_and(|at| at.elapsed() > BROADCAST_TIME) {
            past.pop_front();
        }
        let may = past.len() < MAX_BROADCASTS;
        if may {
            past.push_back(Instant::now());
        }
        may
    }

    /// A call of one of its tools begins; it is under way until the guard is dropped.
    pub(crate) fn begin(
        self: &Arc<Self>,
        cx: &CallContext,
    ) -> Result<(CallMeta, UnderWay), SourceError> {
        let (thread_id, task_id) = match &cx.lineage {
            Some(run) => (run.thread.to_string(), run.task.as_ref().map(ToString::to_string)),
            None => (thread_of_caller(&cx.affinity), None),
        };
        self.learn(&thread_id);
        let principal = Principal::new(cx.caller());
        let caller = Caller {
            principal: principal.map_err(|error| SourceError::Protocol(error.to_string()))?,
            session: None,
            surface: Surface::RUN,
            carried: Arc::clone(&cx.carried),
            lineage: cx.lineage.clone(),
        };
        // Of a caller that is no run the member would be its own words.
        let step = cx.lineage.as_ref().and_then(|_| cx.meta.get(STEP_KEY)?.as_u64());
        let step = step.and_then(|step| u32::try_from(step).ok());
        let mut calls = self.calls.lock();
        let id = NEXT_CALL.fetch_add(1, Ordering::Relaxed);
        let thread = thread_id.clone();
        calls.push_back(Called { id, caller, step, thread, ended: None, used: false });
        let excess = calls.len().saturating_sub(MAX_CALLS);
        calls.drain(..excess);
        Ok((CallMeta { thread_id, task_id }, UnderWay { known: Arc::clone(self), id }))
    }

    /// The call in whose name the plugin delegates from a conversation: the one that this task performs;
    /// else one that is under way, for which nothing was delegated yet; else the last one. Nothing if none of
    /// its tools was called from there lately.
    pub(crate) fn call_from(&self, thread: &str) -> Option<Called> {
        let mut calls = self.calls.lock();
        let counts = |call: &Called| {
            let is_recent = call.ended.is_none_or(|ended| ended.elapsed() < CALL_KEPT);
            call.thread == thread && (is_recent || call.caller.lineage.is_some())
        };
        let own = CALLING.try_with(|id| *id).ok();
        let own = calls.iter().position(|call| counts(call) && Some(call.id) == own);
        let fresh =
            calls.iter().position(|call| counts(call) && call.ended.is_none() && !call.used);
        let at = own.or(fresh).or_else(|| calls.iter().rposition(counts))?;
        let call = calls.get_mut(at)?;
        call.used = true;
        Some(call.clone())
    }
}

/// A call that is under way.
pub(crate) struct UnderWay {
    known: Arc<Known>,
    id: u64,
}

impl UnderWay {
    /// Performs the call.
    pub(crate) async fn perform<T>(&self, work: impl Future<Output = T>) -> T {
        CALLING.scope(self.id, work).await
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut calls = self.known.calls.lock();
        if let Some(call) = calls.iter_mut().find(|call| call.id == self.id) {
            call.ended = Some(Instant::now());
        }
    }
}

/// The conversation of a caller that is no run: the same for all calls of one client, and another one for
/// any other client.
fn thread_of_caller(affinity: &str) -> String {
    let digits: String = sha256_hex(affinity.as_bytes()).chars().take(CALLER_DIGITS).collect();
    format!("caller-{digits}")
}
