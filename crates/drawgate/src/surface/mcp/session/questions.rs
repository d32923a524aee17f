//! The questions that a session's client was asked and has not answered.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::surface::mcp::wire::message::RequestId;

/// Open questions of one session; more count as not answered.
const MAX_OPEN: usize = 64;

/// The open questions of a session, by the ids of our requests.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<String, oneshot::Sender<Option<Value>>>>);

impl Questions {
    /// Takes the client's answer; one that no call waits for is dropped.
    pub(crate) fn answered(&self, id: &RequestId, result: Option<Value>) {
        let RequestId::Text(id) = id else { return };
        let waiting = self.0.lock().remove(id);
        if let Some(waiting) = waiting {
            // The call may have been given up a moment ago.
            let _ = waiting.send(result);
        }
    }

    pub(crate) fn open(self: &Arc<Self>, id: String) -> Option<Question> {
        let mut open = self.0.lock();
        if open.len() >= MAX_OPEN {
            return None;
        }
        let (answer, received) = oneshot::channel();
        open.insert(id.clone(), answer);
        Some(Question { all: Arc::clone(self), id, received })
    }
}

/// An open question, until this is dropped.
pub(crate) struct Question {
    all: Arc<Questions>,
    pub(crate) id: String,
    pub(crate) received: oneshot::Receiver<Option<Value>>,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.id);
    }
}

#[cfg(test)]
#[path = "questions_tests.rs"]
mod tests;
