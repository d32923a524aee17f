//! Requests that wait for their answers.

use std::collections::BTreeMap;

use drawgate_core::source::SourceError;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::link::{Delivery, Outcome};

/// All requests of a connection, until it is over.
#[derive(Default)]
pub(super) struct Pending(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    waiting: BTreeMap<u64, Waiting>,
    over: Option<String>,
}

struct Waiting {
    answer: oneshot::Sender<Outcome>,
    written: bool,
}

impl Pending {
    /// Enters a request before it is sent.
    pub(super) fn enter(&self, id: u64) -> Result<oneshot::Receiver<Outcome>, SourceError> {
        let mut inner = self.0.lock();
        if let Some(reason) = &inner.over {
            return Err(SourceError::unreachable(reason.clone()));
        }
        let (answer, receiver) = oneshot::channel();
        inner.waiting.insert(id, Waiting { answer, written: false });
        Ok(receiver)
    }

    /// Notes that a request is about to be written; `false` if it has been given up.
    pub(super) fn start_writing(&self, id: u64) -> bool {
        self.0.lock().waiting.get_mut(&id).map(|waiting| waiting.written = true).is_some()
    }

    /// Removes a request; `true` if it was still waiting and the server has seen some of it.
    pub(super) fn give_up(&self, id: u64) -> bool {
        self.0.lock().waiting.remove(&id).is_some_and(|waiting| waiting.written)
    }

    pub(super) fn answer(&self, id: u64, outcome: Outcome) -> Delivery {
        let Some(waiting) = self.0.lock().waiting.remove(&id) else { return Delivery::Unknown };
        // It fails when the caller has just gone, which is the caller's right.
        let _gone = waiting.answer.send(outcome);
        Delivery::Delivered
    }

    /// Ends every request, and refuses new ones.
    pub(super) fn close(&self, reason: &str) {
        let waiting = {
            let mut inner = self.0.lock();
            inner.over.get_or_insert_with(|| reason.to_owned());
            std::mem::take(&mut inner.waiting)
        };
        for waiting in waiting.into_values() {
            let error = if waiting.written {
                SourceError::lost(reason)
            } else {
                SourceError::unreachable(reason)
            };
            let _gone = waiting.answer.send(Err(error));
        }
    }

    /// Ends every request that the server has seen, with the same error.
    pub(super) fn fail_written(&self, error: &SourceError) {
        let mut inner = self.0.lock();
        let all = std::mem::take(&mut inner.waiting);
        for (id, waiting) in all {
            if waiting.written {
                let _gone = waiting.answer.send(Err(error.clone()));
            } else {
                inner.waiting.insert(id, waiting);
            }
        }
    }
}
