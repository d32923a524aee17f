//! The slot for one pack on a connection: where answers go, and what keeps the connection open.

use std::sync::Arc;

use drawgate_sources::pack::{Ending, PackConnection};
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The slot for a pack on one connection.
#[derive(Default)]
pub struct PackSlot {
    state: Mutex<State>,
    taken: TaskTracker,
}

#[derive(Default)]
enum State {
    #[default]
    Free,
    /// A manifest is being checked.
    Reserved,
    Taken(Arc<PackConnection>),
}

impl PackSlot {
    /// The pack connection that answers on this connection belong to.
    #[must_use]
    pub fn connection(&self) -> Option<Arc<PackConnection>> {
        match &*self.state.lock() {
            State::Taken(connection) => Some(Arc::clone(connection)),
            State::Free | State::Reserved => None,
        }
    }

    /// Reserves the slot, unless a pack has it or is about to.
    #[must_use]
    pub fn reserve(self: &Arc<Self>) -> Option<SlotReservation> {
        let mut state = self.state.lock();
        let is_free = match &*state {
            State::Free => true,
            State::Reserved => false,
            State::Taken(connection) => connection.ending().is_some(),
        };
        is_free.then(|| {
            *state = State::Reserved;
            SlotReservation(Arc::clone(self))
        })
    }

    /// Waits, once the gateway stops, until no pack holds the connection open.
    pub async fn released(&self) {
        self.taken.close();
        self.taken.wait().await;
    }

    /// Whether a pack is registered on the connection.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.connection().is_some_and(|connection| connection.ending().is_none())
    }

    /// Ends the pack's connection, because the connection below it has ended.
    pub fn close(&self) {
        if let Some(connection) = self.connection() {
            connection.end(Ending::Gone);
        }
    }
}

/// A reserved slot; free again if it is dropped without being taken.
pub struct SlotReservation(Arc<PackSlot>);

impl SlotReservation {
    /// Takes the slot. The returned token keeps the connection open while the gateway stops.
    pub(super) fn take(self, connection: &Arc<PackConnection>) -> TaskTrackerToken {
        *self.0.state.lock() = State::Taken(Arc::clone(connection));
        self.0.taken.token()
    }
}

impl Drop for SlotReservation {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if matches!(*state, State::Reserved) {
            *state = State::Free;
        }
    }
}
