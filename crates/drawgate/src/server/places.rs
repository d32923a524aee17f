//! Who has a place among the connections.
//!
//! When all places are taken, one more connection gets the place of the one that is missed least: of a
//! stranger rather than of a caller who has shown a token, of one without a request rather than of one
//! with, and among these of the one that has been idle for longest. So those who connect and say nothing
//! can't keep callers out. A caller whose request is under way keeps its place.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The places.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    by_number: BTreeMap<u64, Holder>,
    /// Numbers connections, and tells which of two was idle earlier.
    next: u64,
}

#[derive(Debug)]
struct Holder {
    /// Whether it has shown a token that counts.
    is_caller: bool,
    requests: usize,
    /// When its last request ended, by count.
    idle_since: u64,
    leave: CancellationToken,
}

/// A connection's place; free when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    /// Cancelled when the place is given to another.
    pub(super) leave: CancellationToken,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A place for a new connection; none if all others are busy with callers' requests.
    pub(super) fn take(self: &Arc<Self>) -> Option<Arc<Place>> {
        let mut taken = self.taken.lock();
        if taken.by_number.len() >= self.most {
            let least = taken.missed_least()?;
            let holder = taken.by_number.remove(&least)?;
            holder.leave.cancel();
        }
        let (number, leave) = (taken.tick(), CancellationToken::new());
        let holder =
            Holder { is_caller: false, requests: 0, idle_since: number, leave: leave.clone() };
        taken.by_number.insert(number, holder);
        Some(Arc::new(Place { places: Arc::clone(self), number, leave }))
    }
}

impl Taken {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn missed_least(&self) -> Option<u64> {
        let may_go = |holder: &Holder| !holder.is_caller || holder.requests == 0;
        let rank = |holder: &Holder| (holder.is_caller, holder.requests > 0, holder.idle_since);
        let holders = self.by_number.iter().filter(|(_, holder)| may_go(holder));
        holders.min_by_key(|(_, holder)| rank(holder)).map(|(number, _)| *number)
    }
}

impl Place {
    /// Notes that it is the place of a caller who has shown a token, or of a peer that has limits of its
    /// own.
    pub(super) fn is_callers(&self) {
        self.change(|holder, _| holder.is_caller = true);
    }

    /// Notes a request, until what is returned is dropped.
    pub(super) fn request(self: &Arc<Self>) -> Request {
        self.change(|holder, _| holder.requests += 1);
        Request(Arc::clone(self))
    }

    fn change(&self, change: impl FnOnce(&mut Holder, u64)) {
        let mut taken = self.places.taken.lock();
        let now = taken.tick();
        if let Some(holder) = taken.by_number.get_mut(&self.number) {
            change(holder, now);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().by_number.remove(&self.number);
    }
}

/// A request that is under way, until its answer is sent.
#[derive(Debug)]
pub(super) struct Request(Arc<Place>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.change(|holder, now| {
            holder.requests = holder.requests.saturating_sub(1);
            holder.idle_since = now;
        });
    }
}

/// The body of an answer, whose request is under way as long as it lasts.
pub(super) struct Answering {
    pub(super) body: Body,
    pub(super) _request: Request,
}

impl hyper::body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
