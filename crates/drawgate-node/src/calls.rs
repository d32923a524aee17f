//! Calls of JavaScript tools that wait for their answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use drawgate_core::source::ProgressSink;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

/// The calls that wait. What comes for any other is dropped: an answer counts once, and in time.
#[derive(Default)]
pub(crate) struct ToolCalls {
    next: AtomicU32,
    waiting: Mutex<HashMap<u32, Waiting>>,
}

struct Waiting {
    answer: oneshot::Sender<String>,
    progress: Option<Arc<dyn ProgressSink>>,
}

impl ToolCalls {
    /// Begins to wait: the call's number, and where its answer comes.
    pub(crate) fn begin(
        &self,
        progress: Option<Arc<dyn ProgressSink>>,
    ) -> (u32, oneshot::Receiver<String>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().insert(id, Waiting { answer, progress });
        (id, answered)
    }

    /// Stops to wait. Whether the answer had not come.
    pub(crate) fn end(&self, id: u32) -> bool {
        self.waiting.lock().remove(&id).is_some()
    }

    /// What JavaScript answers.
    pub(crate) fn answer(&self, id: u32, text: String) {
        let waiting = self.waiting.lock().remove(&id);
        if let Some(Waiting { answer, .. }) = waiting {
            // Nobody waits any more: too late.
            let _late = answer.send(text);
        }
    }

    /// How far JavaScript is.
    pub(crate) fn progress(&self, id: u32, report: Map<String, Value>) {
        let sink = self.waiting.lock().get(&id).and_then(|waiting| waiting.progress.clone());
        if let Some(sink) = sink {
            sink.report(report);
        }
    }

    /// JavaScript has ended.
    pub(crate) fn end_all(&self) {
        self.waiting.lock().clear();
    }
}
