//! Calls that wait for answers of their callers. Each is found by a secret, served by a task of its
//! own, and dropped when its caller does not come back in time.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use drawgate_core::source::SourceError;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Calls of one server that may wait.
const MAX_CALLS: usize = 256;
/// Calls of one client among them.
const MAX_OF_CLIENT: usize = 64;
/// How long a person may take; as long as the gate keeps the state that leads here.
const PATIENCE: Duration = Duration::from_mins(15);

/// A call that can wait.
pub(super) trait WhileWaiting: Send + 'static {
    /// Runs for as long as the call waits, and never returns. It may be dropped at any time.
    fn while_waiting(&mut self) -> impl Future<Output = ()> + Send;
}

/// All calls of a server that wait. Dropping it gives them up.
pub(super) struct WaitingCalls<T>(Arc<Calls<T>>);

struct Calls<T>(Mutex<BTreeMap<String, Entry<T>>>);

struct Entry<T> {
    client: Arc<str>,
    back: CancellationToken,
    task: AbortOnDropHandle<Option<T>>,
}

impl<T: WhileWaiting> WaitingCalls<T> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Calls(Mutex::default())))
    }

    /// Keeps a call of a client until it is taken back by the same `state`.
    pub(super) fn insert(
        &self,
        state: String,
        client: &Arc<str>,
        call: T,
    ) -> Result<(), SourceError> {
        let mut calls = self.0.0.lock();
        let own = calls.values().filter(|entry| entry.client == *client).count();
        if calls.len() >= MAX_CALLS || own >= MAX_OF_CLIENT {
            return Err(SourceError::Failed {
                message: "too many calls wait for answers; answer or cancel some first".to_owned(),
                details: None,
            });
        }
        let back = CancellationToken::new();
        let end = Instant::now() + PATIENCE;
        let task = look_after(Arc::downgrade(&self.0), state.clone(), call, back.clone(), end);
        let task = AbortOnDropHandle::new(tokio::spawn(task));
        calls.insert(state, Entry { client: Arc::clone(client), back, task });
        Ok(())
    }

    /// Takes a call back, for the client that it belongs to.
    pub(super) async fn take(&self, state: &str, client: &Arc<str>) -> Option<T> {
        let entry = {
            let mut calls = self.0.0.lock();
            calls.get(state).filter(|entry| entry.client == *client)?;
            calls.remove(state)?
        };
        entry.back.cancel();
        entry.task.await.ok().flatten()
    }

    /// Gives a call up.
    pub(super) fn abandon(&self, state: &str) {
        let entry = self.0.0.lock().remove(state);
        drop(entry);
    }

    /// Gives all calls up.
    pub(super) fn clear(&self) {
        let calls = std::mem::take(&mut *self.0.0.lock());
        drop(calls);
    }
}

/// Until the call is taken back, or has waited too long.
async fn look_after<T: WhileWaiting>(
    calls: Weak<Calls<T>>,
    state: String,
    mut call: T,
    back: CancellationToken,
    end: Instant,
) -> Option<T> {
    tokio::select! {
        biased;
        () = back.cancelled() => return Some(call),
        () = sleep_until(end) => {}
        () = call.while_waiting() => {}
    }
    drop(call);
    if let Some(calls) = calls.upgrade() {
        let entry = calls.0.lock().remove(&state);
        drop(entry);
    }
    None
}

#[cfg(test)]
#[path = "waiting_calls_tests.rs"]
mod tests;
