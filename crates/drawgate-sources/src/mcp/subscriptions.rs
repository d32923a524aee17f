//! Which resources are watched, and by whom. One server tells the gateway; the gateway tells all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drawgate_core::source::SourceError;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Resources of one server that are watched at a time.
const MAX_URIS: usize = 1_000;
/// Clients that may watch the same one.
const MAX_WATCHERS: usize = 10_000;

/// The resources, each with the clients that watch it.
pub(super) struct Subscriptions {
    watched: Mutex<BTreeMap<String, BTreeSet<Arc<str>>>>,
    /// Counts changes of the set.
    version: watch::Sender<u64>,
    /// The versions that the server was last asked for and last agreed to.
    asked: watch::Sender<u64>,
    agreed: watch::Sender<u64>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        let counter = || watch::Sender::new(0);
        Self { watched: Mutex::default(), version: counter(), asked: counter(), agreed: counter() }
    }
}

/// Whether the server has to hear of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Yes,
    No,
}

impl Subscriptions {
    pub(super) fn add(&self, uri: &str, client: &Arc<str>) -> Result<Changed, SourceError> {
        let mut watched = self.watched.lock();
        if let Some(clients) = watched.get_mut(uri) {
            if clients.len() >= MAX_WATCHERS && !clients.contains(client) {
                return Err(too_many(MAX_WATCHERS, "clients watch this resource"));
            }
            clients.insert(Arc::clone(client));
            return Ok(Changed::No);
        }
        if watched.len() >= MAX_URIS {
            return Err(too_many(MAX_URIS, "resources of this server are watched"));
        }
        watched.insert(uri.to_owned(), BTreeSet::from([Arc::clone(client)]));
        drop(watched);
        self.version.send_modify(|version| *version += 1);
        Ok(Changed::Yes)
    }

    pub(super) fn remove(&self, uri: &str, client: &Arc<str>) -> Changed {
        let mut watched = self.watched.lock();
        if let Some(clients) = watched.get_mut(uri) {
            clients.remove(client);
            if !clients.is_empty() {
                return Changed::No;
            }
            watched.remove(uri);
            drop(watched);
            self.version.send_modify(|version| *version += 1);
        }
        Changed::Yes
    }

    pub(super) fn uris(&self) -> Vec<String> {
        self.watched.lock().keys().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.watched.lock().is_empty()
    }

    /// The watched resources that a report about this one may concern.
    pub(super) fn above(&self, uri: &str) -> Vec<String> {
        let watched = self.watched.lock();
        watched.keys().filter(|watched| uri.starts_with(watched.as_str())).cloned().collect()
    }

    /// Follows changes of the set, beginning with the present one.
    pub(super) fn follow(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The present version; what the server is asked for from now on is at least as new.
    pub(super) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// The server is being asked for the set of this version.
    pub(super) fn asking(&self, version: u64) {
        self.asked.send_replace(version);
    }

    /// The server has agreed to what it was last asked for.
    pub(super) fn acknowledged(&self) {
        let asked = *self.asked.borrow();
        self.agreed.send_modify(|agreed| *agreed = asked.max(*agreed));
    }

    /// Waits until the server has agreed to a set of this version or a later one. The caller bounds
    /// its time.
    pub(super) async fn agreed(&self, version: u64) {
        // The sender lives as long as `self`.
        let mut agreed = self.agreed.subscribe();
        let _agreed = agreed.wait_for(|agreed| *agreed >= version).await;
    }
}

fn too_many(limit: usize, what: &str) -> SourceError {
    SourceError::Failed { message: format!("already {limit} {what}"), details: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_hears_of_the_first_and_the_last_watcher_only() {
        let subscriptions = Subscriptions::default();
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        assert_eq!(subscriptions.add("a", &ann).unwrap(), Changed::Yes);
        assert_eq!(subscriptions.add("a", &ann).unwrap(), Changed::No);
        assert_eq!(subscriptions.add("a", &bob).unwrap(), Changed::No);
        assert_eq!(subscriptions.remove("a", &ann), Changed::No);
        assert_eq!(subscriptions.remove("a", &ann), Changed::No, "bob still watches");
        assert_eq!(subscriptions.remove("a", &bob), Changed::Yes);
        assert!(subscriptions.is_empty());
        assert_eq!(subscriptions.version(), 2);
    }

    #[test]
    fn the_set_is_bounded() {
        let subscriptions = Subscriptions::default();
        let ann: Arc<str> = "ann".into();
        for index in 0..MAX_URIS {
            subscriptions.add(&index.to_string(), &ann).unwrap();
        }
        assert!(subscriptions.add("one more", &ann).is_err());
        assert_eq!(subscriptions.add("0", &"bob".into()).unwrap(), Changed::No);
    }

    #[tokio::test]
    async fn agreement_counts_for_what_was_asked() {
        let subscriptions = Subscriptions::default();
        subscriptions.add("a", &"ann".into()).unwrap();
        let version = subscriptions.version();
        subscriptions.acknowledged();
        let waiting = subscriptions.agreed(version);
        tokio::pin!(waiting);
        assert!(futures_poll(&mut waiting).await.is_none(), "nothing was asked yet");
        subscriptions.asking(version);
        subscriptions.acknowledged();
        waiting.await;
    }

    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = std::future::ready(()) => None,
        }
    }
}
