//! What a call says while it runs: to the client that still waits, and to the task that it becomes.

use std::sync::{Arc, OnceLock, Weak};

use drawgate_core::source::ProgressSink;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{Inner, Tasks};

/// Ends the call if the client leaves before it has become a task.
pub(super) struct Left {
    pub(super) cancel: CancellationToken,
    pub(super) armed: bool,
}

impl Left {
    pub(super) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        if self.armed {
            self.cancel.cancel();
        }
    }
}

/// Notes by what a call can be taken up again.
#[derive(Default)]
pub(super) struct Handles {
    pub(super) tasks: Weak<Inner>,
    pub(super) task: OnceLock<String>,
    pub(super) given: Mutex<Option<String>>,
    pub(super) arrived: tokio::sync::Notify,
}

impl ProgressSink for Handles {
    fn report(&self, _progress: Map<String, Value>) {}

    fn handle(&self, handle: &str) {
        *self.given.lock() = Some(handle.to_owned());
        self.arrived.notify_one();
        if let (Some(id), Some(inner)) = (self.task.get(), self.tasks.upgrade()) {
            tokio::spawn(Tasks(inner).note_handle(id.clone(), handle.to_owned()));
        }
    }
}

/// Reports to the client while it waits, and handles to the task.
pub(super) struct Both {
    pub(super) shown: Option<Arc<dyn ProgressSink>>,
    pub(super) handles: Arc<Handles>,
}

impl ProgressSink for Both {
    fn report(&self, progress: Map<String, Value>) {
        if let Some(shown) = &self.shown {
            shown.report(progress);
        }
    }

    fn log(&self, message: Map<String, Value>) {
        if let Some(shown) = &self.shown {
            shown.log(message);
        }
    }

    fn handle(&self, handle: &str) {
        self.handles.handle(handle);
    }
}
