//! How much runs at once: in all, and for one caller. Too much is refused at once, never queued.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Refusal, refuse};
use crate::model::{ErrorCode, Principal};

/// Counts calls under way.
#[derive(Default)]
pub(crate) struct Load {
    all: AtomicUsize,
    callers: Mutex<HashMap<Principal, usize>>,
}

impl Load {
    /// Calls under way.
    pub(crate) fn now(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Takes a place, which is given back when it is dropped.
    pub(crate) fn enter(
        self: &Arc<Self>,
        caller: &Principal,
        max_all: usize,
        max_own: usize,
    ) -> Result<Place, Refusal> {
        let all = self.all.fetch_add(1, Ordering::Relaxed);
        let own = {
            let mut callers = self.callers.lock();
            let own = callers.entry(caller.clone()).or_default();
            *own += 1;
            *own
        };
        let place = Place { load: Arc::clone(self), caller: caller.clone() };
        if all >= max_all {
            return Err(refuse(
                ErrorCode::RateLimited,
                format!("{max_all} calls are under way; try again later"),
            ));
        }
        if own > max_own {
            let message = format!("{max_own} of your calls are under way; wait for some to end");
            return Err(refuse(ErrorCode::RateLimited, message));
        }
        Ok(place)
    }
}

/// A call's place among those under way.
pub(crate) struct Place {
    load: Arc<Load>,
    caller: Principal,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.load.all.fetch_sub(1, Ordering::Relaxed);
        let mut callers = self.load.callers.lock();
        if let Some(own) = callers.get_mut(&self.caller) {
            *own -= 1;
            if *own == 0 {
                callers.remove(&self.caller);
            }
        }
    }
}
