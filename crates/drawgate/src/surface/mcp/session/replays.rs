//! The streams of a session that can be taken up again: those under way, and for a while those whose
//! answer has been said. Bounded in time, for each session and for all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::event_buffer::EventBuffer;

/// Bytes that are kept of the answers of one session, and of all.
const MAX_EACH: usize = 8 * 1024 * 1024;
const MAX_ALL: usize = 64 * 1024 * 1024;
/// Answers of one session that are kept.
const MAX_STREAMS: usize = 256;

/// Bytes that are kept of all sessions' answers.
pub(crate) type Total = Arc<AtomicUsize>;

/// The streams of one session.
pub(crate) struct Replays {
    time: Duration,
    numbers: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    streams: BTreeMap<u64, StoredStream>,
    bytes: usize,
    finished: usize,
    total: Total,
}

struct StoredStream {
    buffer: Arc<EventBuffer>,
    /// When its answer was said, and how much it is.
    finished: Option<(Instant, usize)>,
}

impl Replays {
    /// None yet. Nothing can be taken up again where there is no time for it.
    pub(crate) fn new(time: Duration, total: Total) -> Self {
        let inner = Inner { streams: BTreeMap::new(), bytes: 0, finished: 0, total };
        Self { time, numbers: AtomicU64::new(1), inner: Mutex::new(inner) }
    }

    /// How long a client may be away.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// A number for a stream, if it can be taken up again.
    pub(crate) fn number(&self) -> Option<u64> {
        (!self.time.is_zero()).then(|| self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    /// Enters a stream.
    pub(crate) fn begin(&self, number: u64, buffer: &Arc<EventBuffer>) {
        let stream = StoredStream { buffer: Arc::clone(buffer), finished: None };
        self.inner.lock().streams.insert(number, stream);
    }

    /// A stream's answer has been said. It is kept, if there is room for it.
    pub(crate) fn finish(&self, number: u64) {
        let mut inner = self.inner.lock();
        inner.prune(self.time);
        // The session may have ended.
        let Some(stream) = inner.streams.get_mut(&number) else { return };
        let size = stream.buffer.size();
        stream.finished = Some((Instant::now(), size));
        inner.finished += 1;
        inner.bytes += size;
        let total = inner.total.fetch_add(size, Ordering::Relaxed) + size;
        if total > MAX_ALL {
            inner.remove(number);
        }
        while inner.bytes > MAX_EACH || inner.finished > MAX_STREAMS {
            let oldest = inner.streams.iter().find(|(_, stream)| stream.finished.is_some());
            let Some((number, _)) = oldest else { break };
            let number = *number;
            inner.remove(number);
        }
    }

    /// A stream that can be taken up.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<EventBuffer>> {
        let mut inner = self.inner.lock();
        inner.prune(self.time);
        inner.streams.get(&number).map(|stream| Arc::clone(&stream.buffer))
    }

    /// Forgets what has been kept for long enough.
    pub(crate) fn prune(&self) {
        self.inner.lock().prune(self.time);
    }

    /// Forgets all; the session has ended.
    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock();
        let all: Vec<u64> = inner.streams.keys().copied().collect();
        for number in all {
            inner.remove(number);
        }
    }
}

impl Inner {
    fn prune(&mut self, time: Duration) {
        let is_old = |stream: &StoredStream| {
            stream.finished.is_some_and(|(since, _)| since.elapsed() >= time)
        };
        let old: Vec<u64> =
            self.streams.iter().filter(|(_, stream)| is_old(stream)).map(|(id, _)| *id).collect();
        for number in old {
            self.remove(number);
        }
    }

    fn remove(&mut self, number: u64) {
        if let Some(StoredStream { finished: Some((_, size)), .. }) = self.streams.remove(&number) {
            self.bytes -= size;
            self.finished -= 1;
            self.total.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

impl Drop for Replays {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_mins(1);

    fn add_stream(replays: &Replays, bytes: usize) -> u64 {
        let number = replays.number().unwrap();
        let buffer = Arc::new(EventBuffer::new(Some(number)));
        replays.begin(number, &buffer);
        buffer.conclude(&vec![b'x'; bytes]);
        replays.finish(number);
        number
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_kept_for_a_while_within_bounds() {
        let total = Total::default();
        let one = Replays::new(TIME, Arc::clone(&total));
        let first = add_stream(&one, 1000);
        assert!(one.find(first).is_some());
        let larger = [add_stream(&one, MAX_EACH / 2), add_stream(&one, MAX_EACH / 2)];
        assert!(one.find(first).is_none() && one.find(larger[1]).is_some(), "the oldest goes");
        assert!(one.find(add_stream(&one, MAX_EACH)).is_none(), "more than there is room for");
        let small: Vec<u64> = (0..=MAX_STREAMS).map(|_| add_stream(&one, 1)).collect();
        assert!(one.find(small[0]).is_none() && one.find(small[MAX_STREAMS]).is_some());
        tokio::time::advance(TIME).await;
        assert!(one.find(small[MAX_STREAMS]).is_none());
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn all_sessions_share_what_there_is() {
        let total = Total::default();
        let sessions: Vec<Replays> =
            (0..20).map(|_| Replays::new(TIME, Arc::clone(&total))).collect();
        let kept = sessions.iter().filter(|one| one.find(add_stream(one, MAX_EACH / 2)).is_some());
        assert_eq!(kept.count(), 15, "the ids take room too");
        assert!(total.load(Ordering::Relaxed) <= MAX_ALL);
        drop(sessions);
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn what_is_under_way_stays_and_nothing_does_without_time() {
        let replays = Replays::new(TIME, Total::default());
        let number = replays.number().unwrap();
        replays.begin(number, &Arc::new(EventBuffer::new(Some(number))));
        assert!(replays.find(number).is_some());
        replays.clear();
        assert!(replays.find(number).is_none());
        replays.finish(number);
        assert_eq!(Replays::new(Duration::ZERO, Total::default()).number(), None);
    }
}
