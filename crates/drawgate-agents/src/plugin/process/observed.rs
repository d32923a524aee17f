//! Hooks that only tell: they wait in a queue, so that no run waits for a plugin that is slow.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::plugin::HookEvent;

/// The events that wait for a plugin.
pub(super) struct Observed {
    shared: Arc<Shared>,
    queue: mpsc::Sender<HookEvent>,
}

impl Observed {
    pub(super) fn new(shared: &Arc<Shared>, stop: CancellationToken) -> Self {
        let (queue, events) = mpsc::channel(shared.limits.queue);
        tokio::spawn(tell(Arc::clone(shared), events, stop));
        Self { shared: Arc::clone(shared), queue }
    }

    /// Queues an event; with a full queue it is counted and left out.
    pub(super) fn push(&self, event: HookEvent) {
        if self.queue.try_send(event).is_err() {
            self.shared.dropped_hook("too many wait");
        }
    }
}

async fn tell(shared: Arc<Shared>, mut events: mpsc::Receiver<HookEvent>, stop: CancellationToken) {
    let work = async {
        while let Some(event) = events.recv().await {
            match timeout(shared.limits.observe, shared.tell(&event)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => shared.dropped_hook(&error.to_string()),
                Err(_) => shared.dropped_hook("it did not answer in time"),
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = stop.cancelled() => {}
    }
}
