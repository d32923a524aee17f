//! News of resources on their way to the gate: each resource once in an interval, and not too many.
//!
//! A server may report as fast as it likes. What comes too fast waits, and the last report of a
//! resource is never lost.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use drawgate_core::source::SourceEvent;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_secs(1);
/// Reports in one interval.
const MAX_EACH: usize = 50;
/// Reports that wait, each by its own URI; of more, only the watched resource that they are about.
const MAX_WAITING: usize = 1_000;
/// Events that may wait for a listener; one that is slower misses some.
const EVENTS: usize = 256;

/// The reports of one source.
#[derive(Clone)]
pub(super) struct Updates(Arc<Inner>);

struct Inner {
    events: broadcast::Sender<SourceEvent>,
    queue: Mutex<Queue>,
}

/// What was reported in this interval, and what waits for the next.
#[derive(Default)]
struct Queue {
    began: Option<Instant>,
    passed: BTreeSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
    waiting: BTreeSet<Arc<str>>,
}

impl Updates {
    pub(super) fn new() -> Self {
        let events = broadcast::Sender::new(EVENTS);
        Self(Arc::new(Inner { events, queue: Mutex::default() }))
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<SourceEvent> {
        self.0.events.subscribe()
    }

    /// Passes a report on, now or soon. `watched` are the resources that it is about.
    pub(super) fn report(&self, uri: String, watched: Vec<String>) {
        let mut queue = self.0.queue.lock();
        let was_idle = queue.order.is_empty();
        let now = queue.report(uri.into(), watched, Instant::now());
        let next = queue.began.filter(|_| was_idle && !queue.order.is_empty());
        drop(queue);
        if let Some(uri) = now {
            self.0.send(&uri);
        }
        if let Some(began) = next {
            tokio::spawn(deliver(Arc::downgrade(&self.0), began + INTERVAL));
        }
    }
}

impl Inner {
    fn send(&self, uri: &str) {
        // It fails when there is no listener.
        let _unheard = self.events.send(SourceEvent::ResourceUpdated { uri: uri.to_owned() });
    }
}

/// Sends what waits, interval by interval, until nothing does.
async fn deliver(updates: Weak<Inner>, mut at: Instant) {
    loop {
        tokio::time::sleep_until(at).await;
        let Some(updates) = updates.upgrade() else { return };
        let (due, more) = {
            let mut queue = updates.queue.lock();
            (queue.due(at), !queue.order.is_empty())
        };
        for uri in &due {
            updates.send(uri);
        }
        if !more {
            return;
        }
        at += INTERVAL;
    }
}

impl Queue {
    /// The report itself, if it may pass at once.
    fn report(&mut self, uri: Arc<str>, watched: Vec<String>, now: Instant) -> Option<Arc<str>> {
        if self.order.is_empty() && self.began.is_none_or(|began| now >= began + INTERVAL) {
            self.began = Some(now);
            self.passed.clear();
        }
        if self.order.is_empty() && self.passed.len() < MAX_EACH && !self.passed.contains(&uri) {
            self.passed.insert(Arc::clone(&uri));
            return Some(uri);
        }
        if self.order.len() < MAX_WAITING || self.waiting.contains(&uri) {
            self.wait(uri);
        } else {
            for resource in watched {
                self.wait(resource.into());
            }
        }
        None
    }

    fn wait(&mut self, uri: Arc<str>) {
        if self.waiting.insert(Arc::clone(&uri)) {
            self.order.push_back(uri);
        }
    }

    /// A new interval begins: those that have waited for longest.
    fn due(&mut self, now: Instant) -> Vec<Arc<str>> {
        let count = self.order.len().min(MAX_EACH);
        let due: Vec<Arc<str>> = self.order.drain(..count).collect();
        for uri in &due {
            self.waiting.remove(uri);
        }
        self.began = Some(now);
        self.passed = due.iter().cloned().collect();
        due
    }
}

#[cfg(test)]
#[path = "updates_tests.rs"]
mod tests;
