//! The resources of whose changes one listener wants to hear.

use std::collections::BTreeMap;

use drawgate_core::model::SourceId;
use parking_lot::Mutex;

/// Resources that one listener may subscribe to.
pub(crate) const MAX_EACH: usize = 256;
/// Longest URI that is kept.
const MAX_URI: usize = 4096;

/// One resource, by its source's own name for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Resource {
    pub(crate) source: SourceId,
    pub(crate) own: String,
}

/// The subscriptions of one listener, by the URIs that it used.
#[derive(Default)]
pub(crate) struct Subscriptions(Mutex<State>);

#[derive(Default)]
struct State {
    resources: BTreeMap<String, Resource>,
    watched: bool,
    ended: bool,
}

/// The outcome of adding a subscription.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    New,
    Already,
    Full,
}

impl Subscriptions {
    pub(crate) fn reserve(&self, asked: &str, resource: &Resource) -> Reservation {
        let mut state = self.0.lock();
        if state.resources.contains_key(asked) {
            return Reservation::Already;
        }
        if state.ended || state.resources.len() >= MAX_EACH || asked.len() > MAX_URI {
            return Reservation::Full;
        }
        state.resources.insert(asked.to_owned(), resource.clone());
        Reservation::New
    }

    pub(crate) fn take(&self, asked: &str) -> Option<Resource> {
        self.0.lock().resources.remove(asked)
    }

    pub(crate) fn has(&self, asked: &str) -> bool {
        self.0.lock().resources.contains_key(asked)
    }

    pub(crate) fn end(&self) -> Vec<Resource> {
        let mut state = self.0.lock();
        state.ended = true;
        std::mem::take(&mut state.resources).into_values().collect()
    }

    /// Whether this is the first that asks.
    pub(crate) fn watch(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().watched, true)
    }

    /// What this listener calls a resource that has changed; `None` if it did not ask.
    pub(crate) fn name(&self, changed: &Resource) -> Option<String> {
        let state = self.0.lock();
        let mut of_source =
            state.resources.iter().filter(|(_, resource)| resource.source == changed.source);
        of_source.find_map(|(asked, resource)| renamed(asked, &resource.own, &changed.own))
    }
}

/// The changed URI in the listener's terms, if it is the one subscribed to or lies below it.
fn renamed(asked: &str, own: &str, changed: &str) -> Option<String> {
    let below = changed.strip_prefix(own)?;
    let is_part = below.is_empty() || own.ends_with('/') || below.starts_with(['/', '?', '#']);
    is_part.then(|| format!("{asked}{below}"))
}

#[cfg(test)]
#[path = "subscribed_tests.rs"]
mod tests;
