//! How much the gate takes on: calls at once, in all and for one caller, and the size of arguments. Too
//! much is refused at once, never queued.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Map, Value};

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

    /// Takes a slot, which is given back when it is dropped.
    pub(crate) fn enter(
        self: &Arc<Self>,
        caller: &Principal,
        max_all: usize,
        max_own: usize,
    ) -> Result<Slot, Refusal> {
        let all = self.all.fetch_add(1, Ordering::Relaxed);
        let own = {
            let mut callers = self.callers.lock();
            let own = callers.entry(caller.clone()).or_default();
            *own += 1;
            *own
        };
        let slot = Slot { load: Arc::clone(self), caller: caller.clone() };
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
        Ok(slot)
    }
}

/// Refuses arguments of more bytes, as compact JSON. They are counted, not written out.
pub(crate) fn check_size(arguments: &Map<String, Value>, max: u64) -> Result<(), Refusal> {
    serde_json::to_writer(Remaining(max), arguments).map_err(|_| {
        let message = format!("the arguments are larger than {max} bytes");
        refuse(ErrorCode::InvalidArguments, message)
    })
}

/// A writer that takes so many bytes and keeps none.
struct Remaining(u64);

impl io::Write for Remaining {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.0.checked_sub(bytes.len() as u64);
        self.0 = left.ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A call's slot among those under way.
pub(crate) struct Slot {
    load: Arc<Load>,
    caller: Principal,
}

impl Drop for Slot {
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
