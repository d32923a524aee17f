//! The clients that have shown that they follow tasks.

use std::collections::VecDeque;

use drawgate_core::model::Principal;
use parking_lot::Mutex;

/// Clients that are remembered as followers of tasks; calls of the others are waited for.
const MAX_FOLLOWERS: usize = 1024;

/// The clients that have shown that they follow tasks, the latest first: whose they are, and what they call
/// themselves.
#[derive(Default)]
pub(crate) struct Followers(Mutex<VecDeque<(Principal, String)>>);

impl Followers {
    pub(crate) fn note(&self, follower: (Principal, String)) {
        let mut known = self.0.lock();
        if !known.contains(&follower) {
            known.push_front(follower);
            known.truncate(MAX_FOLLOWERS);
        }
    }

    pub(crate) fn knows(&self, follower: &(Principal, String)) -> bool {
        self.0.lock().contains(follower)
    }
}
