//! A pack's place on its connection: where answers go, and what keeps the connection open.

use std::sync::Arc;

use drawgate_sources::pack::{Ending, PackConnection};
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// One connection's pack, if there is one.
#[derive(Default)]
pub struct Seat {
    state: Mutex<State>,
    taken: TaskTracker,
}

#[derive(Default)]
enum State {
    #[default]
    Free,
    /// A manifest is being judged.
    Claimed,
    Taken(Arc<PackConnection>),
}

impl Seat {
    /// The line that answers on this connection belong to.
    #[must_use]
    pub fn line(&self) -> Option<Arc<PackConnection>> {
        match &*self.state.lock() {
            State::Taken(line) => Some(Arc::clone(line)),
            State::Free | State::Claimed => None,
        }
    }

    /// Claims the seat, unless a pack has it or is about to.
    #[must_use]
    pub fn claim(self: &Arc<Self>) -> Option<Claim> {
        let mut state = self.state.lock();
        let is_free = match &*state {
            State::Free => true,
            State::Claimed => false,
            State::Taken(line) => line.ending().is_some(),
        };
        is_free.then(|| {
            *state = State::Claimed;
            Claim(Arc::clone(self))
        })
    }

    /// Waits, once the gateway stops, until nothing holds the connection.
    pub async fn vacated(&self) {
        self.taken.close();
        self.taken.wait().await;
    }

    /// Whether a pack is registered on the connection.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.line().is_some_and(|line| line.ending().is_none())
    }

    /// The connection is over.
    pub fn leave(&self) {
        if let Some(line) = self.line() {
            line.end(Ending::Gone);
        }
    }
}

/// A seat for whoever is being judged; free again if nothing comes of it.
pub struct Claim(Arc<Seat>);

impl Claim {
    /// Takes the seat. What is returned keeps the connection open while the gateway stops.
    pub(super) fn take(self, line: &Arc<PackConnection>) -> TaskTrackerToken {
        *self.0.state.lock() = State::Taken(Arc::clone(line));
        self.0.taken.token()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if matches!(*state, State::Claimed) {
            *state = State::Free;
        }
    }
}
