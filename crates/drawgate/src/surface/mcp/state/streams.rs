//! The streams of changes that are open: bounded for each principal and for all, and closed together.

use std::collections::HashMap;
use std::sync::Arc;

use drawgate_core::model::Principal;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Streams open at once; more are refused. Each holds a connection, and this is less than half of
/// those that are taken by default: listeners must not shut callers out.
const MAX_STREAMS: usize = 2_000;
/// Of these, one principal's.
const MAX_STREAMS_EACH: usize = 256;

/// The streams that are open.
#[derive(Default)]
pub(crate) struct Streams {
    open: Arc<Mutex<HashMap<Principal, usize>>>,
    closed: CancellationToken,
}

impl Streams {
    /// Ends all of them.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Cancelled when the gateway ends.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Takes a place for a stream, if there is one.
    pub(crate) fn enter(&self, principal: &Principal) -> Option<OpenStream> {
        let mut open = self.open.lock();
        let own = open.get(principal).copied().unwrap_or_default();
        if own >= MAX_STREAMS_EACH || open.values().sum::<usize>() >= MAX_STREAMS {
            return None;
        }
        open.insert(principal.clone(), own + 1);
        Some(OpenStream { open: Arc::clone(&self.open), principal: principal.clone() })
    }
}

/// An open stream, until this is dropped.
pub(crate) struct OpenStream {
    open: Arc<Mutex<HashMap<Principal, usize>>>,
    principal: Principal,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(own) = open.get_mut(&self.principal) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_bounded_for_each_and_for_all() {
        let streams = Streams::default();
        let principal = |number: usize| Principal::new(&format!("a{number}")).unwrap();
        let fill = |principal: &Principal| -> Vec<OpenStream> {
            std::iter::from_fn(|| streams.enter(principal)).collect()
        };
        let mut first = fill(&principal(0));
        assert_eq!(first.len(), MAX_STREAMS_EACH);
        first.pop();
        assert!(streams.enter(&principal(0)).is_some());
        let all: Vec<OpenStream> = (1..20).flat_map(|number| fill(&principal(number))).collect();
        assert_eq!(first.len() + all.len(), MAX_STREAMS);
        drop((first, all));
        assert!(streams.open.lock().is_empty());
    }
}
