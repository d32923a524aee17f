//! Receives what a call reports while it runs, for the client that waits and for the task.

use std::sync::{Arc, OnceLock, Weak};

use drawgate_core::source::ProgressSink;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{Inner, Tasks};

/// Cancels the call if the client leaves before the call has become a task.
pub(super) struct CancelOnDrop {
    pub(super) cancel: CancellationToken,
    pub(super) armed: bool,
}

impl CancelOnDrop {
    pub(super) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.armed {
            self.cancel.cancel();
        }
    }
}

/// Stores the handles by which a call can be resumed.
#[derive(Default)]
pub(super) struct ResumeHandles {
    pub(super) tasks: Weak<Inner>,
    pub(super) task: OnceLock<String>,
    pub(super) given: Mutex<Option<String>>,
    pub(super) arrived: tokio::sync::Notify,
}

impl ProgressSink for ResumeHandles {
    fn report(&self, _progress: Map<String, Value>) {}

    fn handle(&self, handle: &str) {
        *self.given.lock() = Some(handle.to_owned());
        self.arrived.notify_one();
        if let (Some(id), Some(inner)) = (self.task.get(), self.tasks.upgrade()) {
            tokio::spawn(Tasks(inner).store_handle(id.clone(), handle.to_owned()));
        }
    }
}

/// Passes progress to the waiting client, and handles to the task.
pub(super) struct TaskProgress {
    pub(super) shown: Option<Arc<dyn ProgressSink>>,
    pub(super) handles: Arc<ResumeHandles>,
}

impl ProgressSink for TaskProgress {
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
