//! What the connections of a source share: where announcements of the server go, what callers are
//! subscribed to, and what the server may ask of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drawgate_core::model::Client;
use drawgate_core::source::SourceEvent;
use parking_lot::RwLock;
use tokio::sync::broadcast;

use super::changes::Changes;
use super::parameters::ParameterHeader;
use super::probe::Memory;
use super::refusals::Refusals;
use super::requests::Allowed;
use super::subscriptions::Subscriptions;
use super::updates::Updates;

/// Longest URI of a part of a resource that is reported by itself.
const MAX_URI: usize = 8 * 1024;

/// What the connections of a source share.
#[derive(Clone)]
pub(super) struct SourceContext {
    pub(super) changes: Changes,
    /// Outlive a connection, so that the next one can renew them.
    pub(super) subscriptions: Arc<Subscriptions>,
    pub(super) allowed: Allowed,
    pub(super) memory: Arc<Memory>,
    /// The arguments that tools want repeated in headers, by tool.
    parameters: Arc<RwLock<BTreeMap<String, Vec<ParameterHeader>>>>,
    /// The tools that work as tasks only.
    as_tasks: Arc<RwLock<BTreeSet<String>>>,
    updates: Updates,
    /// What the program was refused, if it runs in a sandbox of the operator's.
    pub(super) refusals: Option<Arc<Refusals>>,
}

/// What a server tells without being asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Tools, prompts or resources are others now.
    ListChanged,
    /// A resource has other contents now.
    ResourceUpdated { uri: String },
    /// From now on it tells about what it was asked to.
    Listening,
}

impl SourceContext {
    pub(super) fn new(allowed: Allowed) -> Self {
        Self {
            changes: Changes::new(),
            subscriptions: Arc::default(),
            allowed,
            memory: Arc::default(),
            parameters: Arc::default(),
            as_tasks: Arc::default(),
            updates: Updates::new(),
            refusals: None,
        }
    }

    /// The same for a connection that serves one client alone, with subscriptions of its own.
    pub(super) fn apart(&self) -> Self {
        Self { subscriptions: Arc::default(), ..self.clone() }
    }

    pub(super) fn events(&self) -> broadcast::Receiver<SourceEvent> {
        self.updates.subscribe()
    }

    pub(super) fn set_parameters(&self, parameters: BTreeMap<String, Vec<ParameterHeader>>) {
        *self.parameters.write() = parameters;
    }

    pub(super) fn set_tasks(&self, tools: BTreeSet<String>) {
        *self.as_tasks.write() = tools;
    }

    /// Notes a tool that works as a task only.
    pub(super) fn add_task(&self, tool: &str) {
        self.as_tasks.write().insert(tool.to_owned());
    }

    /// Whether a tool works as a task only.
    pub(super) fn wants_task(&self, tool: &str) -> bool {
        self.as_tasks.read().contains(tool)
    }

    /// Whether the gateway follows the task of a tool for this client, whose protocol has none.
    pub(super) fn follows_task(&self, tool: &str, client: &Client) -> bool {
        !client.knows_tasks && self.wants_task(tool)
    }

    /// Gives `take` the arguments that a tool wants repeated in headers, if there are any.
    pub(super) fn parameters_of(&self, tool: &str, take: impl FnOnce(&[ParameterHeader])) {
        if let Some(parameters) = self.parameters.read().get(tool) {
            take(parameters);
        }
    }

    /// Passes on what a server tells.
    pub(super) fn hear(&self, news: News) {
        match news {
            News::ListChanged => self.changes.announce(),
            News::ResourceUpdated { uri } => self.updated(uri),
            News::Listening => self.subscriptions.acknowledged(),
        }
    }

    /// Reports every watched resource as updated, since updates may have been missed.
    pub(super) fn missed(&self) {
        self.changes.announce();
        for uri in self.subscriptions.uris() {
            self.updated(uri);
        }
    }

    fn updated(&self, uri: String) {
        // A server may name a part of what is watched; whom it concerns, only the surfaces can tell.
        let watched = self.subscriptions.above(&uri);
        if uri.len() > MAX_URI {
            for uri in watched {
                self.updates.report(uri.clone(), vec![uri]);
            }
        } else if !watched.is_empty() {
            self.updates.report(uri, watched);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_news_of_what_is_watched_pass() {
        let context = SourceContext::new(Allowed::default());
        let mut events = context.events();
        let updated = |uri: &str| context.hear(News::ResourceUpdated { uri: uri.to_owned() });
        context.subscriptions.add("x://a", &"ann".into()).unwrap();
        updated("x://b");
        updated("x://a/part");
        updated(&format!("x://a/{}", "y".repeat(MAX_URI)));
        for expected in ["x://a/part", "x://a"] {
            let SourceEvent::ResourceUpdated { uri } = events.recv().await.unwrap();
            assert_eq!(uri, expected);
        }
        assert!(events.try_recv().is_err());
    }
}
