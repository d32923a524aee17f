//! The events on the stream of one request, in order, for one reader at a time.
//!
//! On a stream that can be taken up again every event has an id and stays, so that a reader can begin
//! after any of them. On any other an event is gone when it has been read.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use crate::surface::mcp::wire::sse;

/// Reports and log messages that are held; of more, the oldest go.
const MAX_OPTIONAL: usize = 512;
/// How many bytes they may have in all.
const MAX_OPTIONAL_BYTES: usize = 256 * 1024;
/// The number of the event that comes first, if any does that says nothing.
const PRIMING: u64 = 1;
/// How often a silent stream shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The events of one stream.
pub(crate) struct EventBuffer {
    /// What the ids of its events begin with, if it can be taken up again.
    stream: Option<u64>,
    inner: Mutex<Inner>,
    changed: Notify,
}

struct Inner {
    events: VecDeque<Event>,
    last: u64,
    is_over: bool,
    /// Counts readers; the newest is the one that reads.
    readers: u64,
    /// Since when there is no reader.
    unread_since: Option<Instant>,
}

struct Event {
    number: u64,
    bytes: Bytes,
    /// A client that is too slow may miss it.
    is_optional: bool,
}

impl EventBuffer {
    /// A stream; with a number it can be taken up again.
    pub(crate) fn new(stream: Option<u64>) -> Self {
        let inner = Inner {
            events: VecDeque::new(),
            last: PRIMING,
            is_over: false,
            readers: 0,
            unread_since: Some(Instant::now()),
        };
        Self { stream, inner: Mutex::new(inner), changed: Notify::new() }
    }

    /// Whether it can be taken up again.
    pub(crate) fn is_resumable(&self) -> bool {
        self.stream.is_some()
    }

    /// Begins with an event that says nothing but its id, so that even a stream that breaks off before
    /// anything was said can be taken up again.
    pub(crate) fn prime(&self) {
        if let Some(stream) = self.stream {
            let bytes = sse::priming(&id(stream, PRIMING));
            let event = Event { number: PRIMING, bytes, is_optional: false };
            self.inner.lock().events.push_front(event);
        }
    }

    /// Adds a message that must not get lost.
    pub(crate) fn push_required(&self, message: &[u8]) {
        self.push(message, false);
    }

    /// Adds a message that a slow client may miss, unless it is the last of its kind.
    pub(crate) fn push_optional(&self, message: &[u8]) {
        self.push(message, true);
    }

    /// Adds the last message.
    pub(crate) fn conclude(&self, message: &[u8]) {
        self.push(message, false);
        self.inner.lock().is_over = true;
        self.changed.notify_waiters();
    }

    fn push(&self, message: &[u8], is_optional: bool) {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let number = inner.last;
        let bytes = match self.stream {
            Some(stream) => sse::event_with_id(&id(stream, number), message),
            None => sse::event(message),
        };
        inner.events.push_back(Event { number, bytes, is_optional });
        if is_optional {
            inner.drop_excess();
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Waits until there is an event.
    pub(crate) async fn wait_for_event(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.inner.lock().events.is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Removes and returns all events that were not read.
    pub(crate) fn take(&self) -> Vec<u8> {
        let events = std::mem::take(&mut self.inner.lock().events);
        events.iter().flat_map(|event| event.bytes.iter().copied()).collect()
    }

    /// How many bytes are held.
    pub(crate) fn size(&self) -> usize {
        self.inner.lock().events.iter().map(|event| event.bytes.len()).sum()
    }

    /// Reads what comes after an event. A reader that has not noticed that its connection is gone ends.
    pub(crate) fn read_after(self: &Arc<Self>, event: u64) -> Reader {
        let mut inner = self.inner.lock();
        inner.readers += 1;
        inner.unread_since = None;
        let own = inner.readers;
        drop(inner);
        self.changed.notify_waiters();
        Reader { buffer: Arc::clone(self), own, after: event, on_drop: None }
    }

    /// Waits until there was no reader for so long.
    pub(crate) async fn abandoned(&self, limit: Duration) {
        loop {
            let changed = self.changed.notified();
            let unread_since = self.inner.lock().unread_since;
            match unread_since {
                None => changed.await,
                Some(since) if since.elapsed() >= limit => return,
                // A reader may have come meanwhile, so this is checked again.
                Some(since) => drop(timeout_at(since + limit, changed).await),
            }
        }
    }
}

impl Inner {
    fn drop_excess(&mut self) {
        loop {
            let optional = || self.events.iter().filter(|event| event.is_optional);
            let bytes: usize = optional().map(|event| event.bytes.len()).sum();
            let oldest = self.events.iter().position(|event| event.is_optional);
            match oldest {
                Some(oldest) if optional().count() > MAX_OPTIONAL || bytes > MAX_OPTIONAL_BYTES => {
                    self.events.remove(oldest);
                }
                _ => return,
            }
        }
    }
}

/// Reads a stream, until another reader does.
pub(crate) struct Reader {
    buffer: Arc<EventBuffer>,
    own: u64,
    after: u64,
    on_drop: Option<tokio_util::sync::DropGuard>,
}

impl Reader {
    /// Dropping it, as a lost client does, ends the work.
    pub(crate) fn or_else(mut self, guard: tokio_util::sync::DropGuard) -> Self {
        self.on_drop = Some(guard);
        self
    }

    /// The events as a stream.
    pub(crate) fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        stream::unfold(self, |mut reader| async move {
            let event = reader.next().await?;
            Some((Ok(event), reader))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let changed = self.buffer.changed.notified();
            {
                let mut inner = self.buffer.inner.lock();
                if inner.readers != self.own {
                    return None;
                }
                let next = inner.events.partition_point(|event| event.number <= self.after);
                if let Some(event) = inner.events.get(next) {
                    self.after = event.number;
                    let bytes = event.bytes.clone();
                    if !self.buffer.is_resumable() {
                        inner.events.pop_front();
                    }
                    return Some(bytes);
                }
                if inner.is_over {
                    return None;
                }
            }
            if timeout(KEEP_ALIVE, changed).await.is_err() {
                return Some(sse::keep_alive());
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut inner = self.buffer.inner.lock();
        if inner.readers == self.own {
            inner.unread_since = Some(Instant::now());
        }
        drop(inner);
        self.buffer.changed.notify_waiters();
    }
}

fn id(stream: u64, event: u64) -> String {
    format!("{stream}-{event}")
}

/// The stream and the event of an id.
pub(crate) fn parse_id(id: &str) -> Option<(u64, u64)> {
    let (stream, event) = id.split_once('-')?;
    Some((stream.parse().ok()?, event.parse().ok()?))
}

#[cfg(test)]
#[path = "event_buffer_tests.rs"]
mod tests;
