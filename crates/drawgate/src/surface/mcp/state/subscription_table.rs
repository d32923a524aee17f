//! The subscriptions of all listeners, by resource, bounded for each principal and for all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drawgate_core::model::{Caller, Principal, SourceId};
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::surface::mcp::session::subscribed::Resource;

/// Resources with listeners, in all.
const MAX_ALL: usize = 16 * 1024;
/// Subscriptions of one principal, so that it can't use up the room of all.
const MAX_SHARE: usize = MAX_ALL / 4;
/// Reports that wait for a slow stream; more are dropped.
const MAX_WAITING: usize = 256;

/// The subscriptions of all listeners.
pub(crate) struct SubscriptionTable {
    kept: Mutex<BTreeMap<Resource, Arc<Listeners>>>,
    /// Sources whose reports are being passed on.
    heard: Mutex<BTreeSet<SourceId>>,
    shares: Arc<Shares>,
    updates: broadcast::Sender<Arc<Resource>>,
}

/// The listeners of one resource. The lock is held while the source is asked, so that its answers
/// to one and to the other can't cross.
pub(crate) type Listeners = tokio::sync::Mutex<Vec<Listener>>;

/// One listener of a resource.
pub(crate) struct Listener {
    pub(crate) caller: Caller,
    _share: Share,
}

impl Listener {
    pub(crate) fn new(caller: Caller, share: Share) -> Self {
        Self { caller, _share: share }
    }
}

/// How many subscriptions each principal has.
type Shares = Mutex<BTreeMap<Principal, usize>>;

/// One subscription of a principal, until this is dropped.
pub(crate) struct Share {
    shares: Arc<Shares>,
    principal: Principal,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.shares.lock();
        if let Some(own) = shares.get_mut(&self.principal) {
            *own -= 1;
            if *own == 0 {
                shares.remove(&self.principal);
            }
        }
    }
}

impl Default for SubscriptionTable {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            heard: Mutex::default(),
            shares: Arc::default(),
            updates: broadcast::Sender::new(MAX_WAITING),
        }
    }
}

impl SubscriptionTable {
    /// Reports a change to all streams. It is dropped where no stream is open.
    pub(crate) fn report(&self, changed: Resource) {
        let _ = self.updates.send(Arc::new(changed));
    }

    /// Notes that the reports of a source are passed on from now on; `false` if they are already.
    pub(crate) fn begin_to_hear(&self, source: &SourceId) -> bool {
        self.heard.lock().insert(source.clone())
    }

    /// Resources as they change.
    pub(crate) fn updates(&self) -> broadcast::Receiver<Arc<Resource>> {
        self.updates.subscribe()
    }

    pub(crate) fn share(&self, principal: &Principal) -> Option<Share> {
        let mut shares = self.shares.lock();
        let own = shares.get(principal).copied().unwrap_or_default();
        if own >= MAX_SHARE {
            return None;
        }
        shares.insert(principal.clone(), own + 1);
        Some(Share { shares: Arc::clone(&self.shares), principal: principal.clone() })
    }

    pub(crate) fn listeners(&self, resource: &Resource) -> Option<Arc<Listeners>> {
        let mut kept = self.kept.lock();
        if let Some(listeners) = kept.get(resource) {
            return Some(Arc::clone(listeners));
        }
        if kept.len() >= MAX_ALL {
            return None;
        }
        Some(Arc::clone(kept.entry(resource.clone()).or_default()))
    }

    /// Removes a resource without listeners.
    pub(crate) fn tidy(&self, resource: &Resource) {
        let mut kept = self.kept.lock();
        // Others take their part under this lock, so that one means only the table itself.
        let unused = kept.get(resource).is_some_and(|listeners| {
            Arc::strong_count(listeners) == 1
                && listeners.try_lock().is_ok_and(|listeners| listeners.is_empty())
        });
        if unused {
            kept.remove(resource);
        }
    }

    /// Whether a resource of this source has listeners; if not, its reports are no longer followed.
    pub(crate) fn is_heard(&self, source: &SourceId) -> bool {
        let mut heard = self.heard.lock();
        let any = self.kept.lock().keys().any(|resource| resource.source == *source);
        if !any {
            heard.remove(source);
        }
        any
    }

    pub(crate) fn of_source(&self, source: &SourceId) -> Vec<(Resource, Arc<Listeners>)> {
        let kept = self.kept.lock();
        let own = kept.iter().filter(|(resource, _)| resource.source == *source);
        own.map(|(resource, listeners)| (resource.clone(), Arc::clone(listeners))).collect()
    }
}

/// Who is left of a client's listeners after one of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Remaining {
    /// It was not there.
    Absent,
    /// Others of the same client listen.
    One,
    Last,
}

pub(crate) fn leave(held: &mut Vec<Listener>, caller: &Caller) -> Remaining {
    let is_own = |listener: &Listener| is_one_client(&listener.caller, caller);
    let Some(place) = held.iter().position(is_own) else { return Remaining::Absent };
    held.swap_remove(place);
    if held.iter().any(is_own) { Remaining::One } else { Remaining::Last }
}

/// Sources tell clients apart by who they are and by their session; the grants that a caller carries
/// are others with each of its tokens.
pub(crate) fn is_one_client(one: &Caller, other: &Caller) -> bool {
    one.principal == other.principal && one.session == other.session
}

#[cfg(test)]
#[path = "subscription_table_tests.rs"]
mod tests;
