//! The providers of models that the configuration in force names.

use std::sync::Arc;

use arc_swap::ArcSwap;
use drawgate_agents::model::Models;
use drawgate_agents::model::config::{ModelsConfig, ProvidersConfig};
use drawgate_host::Host;

use crate::config::Loaded;

/// Providers and models, replaced as a whole by edits of the configuration.
pub struct Providers {
    state: ArcSwap<State>,
    host: Arc<Host>,
}

struct State {
    providers: ProvidersConfig,
    names: ModelsConfig,
    models: Arc<Models>,
}

impl Providers {
    pub(crate) fn new(loaded: &Loaded, host: &Arc<Host>) -> Self {
        let state = ArcSwap::from_pointee(State::of(loaded, host));
        Self { state, host: Arc::clone(host) }
    }

    /// The models. Keep them for one use: an edit replaces them.
    #[must_use]
    pub fn models(&self) -> Arc<Models> {
        Arc::clone(&self.state.load().models)
    }

    /// What is configured, by name.
    #[must_use]
    pub fn configured(&self) -> ProvidersConfig {
        self.state.load().providers.clone()
    }

    /// Takes over an edit. Providers that it does not change keep their requests under way in mind.
    pub(crate) fn apply(&self, loaded: &Loaded) {
        let state = self.state.load();
        let config = &loaded.config;
        let is_same = state.providers == config.providers && state.names == config.models;
        if !is_same {
            self.state.store(Arc::new(State::of(loaded, &self.host)));
        }
    }
}

impl State {
    fn of(loaded: &Loaded, host: &Arc<Host>) -> Self {
        let (providers, names) = (loaded.config.providers.clone(), loaded.config.models.clone());
        let models = Arc::new(Models::new(&providers, &names, host));
        Self { providers, names, models }
    }
}

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
