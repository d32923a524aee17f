//! A bounded number of connections.
//!
//! When all slots are taken, a new connection evicts another: one without a valid token before one of a
//! caller, one without a request before one with, and among equals the one that has been idle for
//! longest. So connections that send nothing can't keep callers out. A caller with a request under way
//! is never evicted.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The fewest open files with which a gateway serves: what it needs itself, and some connections, servers
/// and calls beside that.
pub(super) const MIN_OPEN_FILES: u64 = 128;
/// What the gateway itself needs: its databases, its log, the fork server, the listeners, timers.
const OWN_FILES: u64 = 64;
/// Of the other files, connections of callers get one in so many, and connections to the control socket.
/// A call may need a connection to its server, and servers and boxes need files too.
const SHARE: u64 = 2;
const CONTROL_SHARE: u64 = 4;
/// Most connections to the control socket, where the files do not limit them.
const MAX_CONTROL: u64 = 4096;

/// How many connections of callers fit into a limit of open files.
pub(super) fn possible(open_files: Option<u64>) -> usize {
    open_files.map_or(usize::MAX, |most| part(most, SHARE))
}

/// How many connections to the control socket do.
pub(super) fn possible_for_control(open_files: Option<u64>) -> usize {
    part(open_files.unwrap_or(u64::MAX), CONTROL_SHARE)
        .min(usize::try_from(MAX_CONTROL).unwrap_or(usize::MAX))
}

fn part(open_files: u64, share: u64) -> usize {
    let part = open_files.saturating_sub(OWN_FILES) / share;
    usize::try_from(part).unwrap_or(usize::MAX).max(1)
}

/// The slots for connections.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    most: usize,
    table: Mutex<SlotTable>,
}

#[derive(Debug, Default)]
struct SlotTable {
    by_number: BTreeMap<u64, Occupant>,
    /// Numbers connections, and tells which of two was idle earlier.
    next: u64,
}

#[derive(Debug)]
struct Occupant {
    /// Whether it has sent a valid token.
    is_caller: bool,
    requests: usize,
    /// When its last request ended, by count.
    idle_since: u64,
    evicted: CancellationToken,
}

/// The slot of one connection; free when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    number: u64,
    /// Cancelled when the slot is given to another connection.
    pub(super) evicted: CancellationToken,
}

impl ConnectionSlots {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, table: Mutex::default() })
    }

    /// Takes a slot for a new connection; none if all others have callers' requests under way.
    pub(super) fn take(self: &Arc<Self>) -> Option<Arc<ConnectionSlot>> {
        let mut table = self.table.lock();
        if table.by_number.len() >= self.most {
            let least = table.pick_evicted()?;
            let occupant = table.by_number.remove(&least)?;
            occupant.evicted.cancel();
        }
        let (number, evicted) = (table.tick(), CancellationToken::new());
        let occupant = Occupant {
            is_caller: false,
            requests: 0,
            idle_since: number,
            evicted: evicted.clone(),
        };
        table.by_number.insert(number, occupant);
        Some(Arc::new(ConnectionSlot { slots: Arc::clone(self), number, evicted }))
    }
}

impl SlotTable {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn pick_evicted(&self) -> Option<u64> {
        let may_go = |occupant: &Occupant| !occupant.is_caller || occupant.requests == 0;
        let rank =
            |occupant: &Occupant| (occupant.is_caller, occupant.requests > 0, occupant.idle_since);
        let occupants = self.by_number.iter().filter(|(_, occupant)| may_go(occupant));
        occupants.min_by_key(|(_, occupant)| rank(occupant)).map(|(number, _)| *number)
    }
}

impl ConnectionSlot {
    /// Marks the connection as one of a caller with a valid token, or of a gRPC peer, which has limits
    /// of its own.
    pub(super) fn mark_as_caller(&self) {
        self.change(|occupant, _| occupant.is_caller = true);
    }

    /// Counts a request until the returned guard is dropped.
    pub(super) fn request(self: &Arc<Self>) -> ActiveRequest {
        self.change(|occupant, _| occupant.requests += 1);
        ActiveRequest(Arc::clone(self))
    }

    fn change(&self, change: impl FnOnce(&mut Occupant, u64)) {
        let mut table = self.slots.table.lock();
        let now = table.tick();
        if let Some(occupant) = table.by_number.get_mut(&self.number) {
            change(occupant, now);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.table.lock().by_number.remove(&self.number);
    }
}

/// A request that is under way, until its answer is sent.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<ConnectionSlot>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.change(|occupant, now| {
            occupant.requests = occupant.requests.saturating_sub(1);
            occupant.idle_since = now;
        });
    }
}

/// The body of an answer, whose request is under way as long as it lasts.
pub(super) struct ResponseBody {
    pub(super) body: Body,
    pub(super) _request: ActiveRequest,
}

impl hyper::body::Body for ResponseBody {
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
#[path = "slots_tests.rs"]
mod tests;
