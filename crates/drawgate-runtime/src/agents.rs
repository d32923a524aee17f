//! Agents that the gateway runs itself: their runs, and their tools in the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drawgate_agents::model::Models;
use drawgate_agents::plugins::{OfferedTools, Plugins};
use drawgate_agents::profile::Profile;
use drawgate_agents::runs::programs::ProgramSettings;
use drawgate_agents::runs::{ConfiguredModels, Runs, RunsParts};
use drawgate_agents::source::{self, AgentTools, ProfileTools};
use drawgate_core::model::SourceId;
use drawgate_core::registry::{Holder, Origin, SourceSupervisor, SourceTerms};
use drawgate_core::source::ToolSource;

use crate::config::Loaded;
use crate::profiles::Profiles;
use crate::providers::Providers;

/// The id of the source of the tools for agents.
pub(crate) const SOURCE: &str = "agents";

impl ConfiguredModels for Providers {
    fn models(&self) -> Arc<Models> {
        Self::models(self)
    }
}

impl source::Profiles for Profiles {
    fn get(&self, name: &str) -> Option<Arc<Profile>> {
        Self::get(self, name)
    }

    fn names(&self) -> Vec<String> {
        self.accepted().iter().map(|profile| profile.name.clone()).collect()
    }
}

/// What a configuration says about programs that do the work of runs.
pub(crate) fn program_settings(loaded: &Loaded) -> ProgramSettings {
    ProgramSettings {
        invokers: loaded.config.invokers.resolved(|path| {
            let path = loaded.resolve(path);
            std::path::absolute(&path).unwrap_or(path)
        }),
        limits: loaded.config.sandbox,
    }
}

/// The agents of a gateway.
pub struct Agents {
    /// Their runs.
    pub runs: Runs,
    /// The plugins that are asked about them, and the work that is delegated.
    pub plugins: Plugins,
    profiles: Arc<Profiles>,
    supervisor: Arc<SourceSupervisor>,
    /// One change of the tools at a time.
    offered: tokio::sync::Mutex<Offered>,
}

/// The tools that are registered, and under which terms.
#[derive(Default)]
struct Offered {
    terms: SourceTerms,
    /// The model by which the web is searched.
    search: Option<String>,
    /// Each source, with what it was made from.
    sources: BTreeMap<SourceId, String>,
}

/// A source that is to be registered.
struct Offer {
    made_from: String,
    source: Arc<dyn ToolSource>,
    terms: SourceTerms,
}

impl Agents {
    pub(crate) fn new(
        parts: RunsParts,
        profiles: &Arc<Profiles>,
        supervisor: &Arc<SourceSupervisor>,
    ) -> Arc<Self> {
        let runs = Runs::new(parts);
        Arc::new(Self {
            plugins: Plugins::new(&runs),
            runs,
            profiles: Arc::clone(profiles),
            supervisor: Arc::clone(supervisor),
            offered: tokio::sync::Mutex::default(),
        })
    }

    /// Puts the settings of a configuration into force, and registers the tools under its terms.
    pub(crate) async fn configure(&self, loaded: &Loaded, terms: SourceTerms) {
        self.runs.configure(loaded.config.runs.clone());
        self.runs.configure_programs(program_settings(loaded));
        let mut offered = self.offered.lock().await;
        if offered.terms != terms {
            for id in std::mem::take(&mut offered.sources).into_keys() {
                self.supervisor.remove(&id).await;
            }
            offered.terms = terms;
        }
        offered.search.clone_from(&loaded.config.models.search);
        self.offer(&mut offered).await;
    }

    /// Brings the tools in line with the profiles that count now, and with the plugins at work.
    pub async fn refresh(&self) {
        self.offer(&mut *self.offered.lock().await).await;
    }

    /// Follows the profiles and the plugins.
    pub(crate) async fn follow(&self) {
        let (mut profiles, mut plugins) = (self.profiles.subscribe(), self.plugins.changes());
        loop {
            // What changed before they were followed counts, too.
            self.refresh().await;
            let changed = tokio::select! {
                changed = profiles.changed() => changed,
                changed = plugins.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// Ends all work where it is; the next start takes it up again.
    pub(crate) async fn close(&self) {
        self.runs.close().await;
        self.plugins.close().await;
    }

    async fn offer(&self, offered: &mut Offered) {
        let (mut wanted, plugins) = (self.wanted(offered), self.offered_by_plugins(offered));
        let ids: BTreeSet<SourceId> = wanted.keys().cloned().collect();
        self.supervisor.reserve(Holder::Agent, ids).await;
        // A plugin never takes the place of another source.
        let is_free = |id: &SourceId| self.supervisor.taken(Holder::Plugin, id).is_none();
        wanted.extend(plugins.into_iter().filter(|(id, _)| is_free(id)));
        let made_from = |id: &SourceId| wanted.get(id).map(|offer| offer.made_from.as_str());
        let gone: Vec<SourceId> = offered
            .sources
            .iter()
            .filter(|(id, before)| made_from(id) != Some(before.as_str()))
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.supervisor.remove(&id).await;
            offered.sources.remove(&id);
        }
        for (id, offer) in wanted {
            if offered.sources.contains_key(&id) {
                continue;
            }
            match self.supervisor.add(offer.source, offer.terms, Origin::Declared) {
                Ok(()) => drop(offered.sources.insert(id, offer.made_from)),
                Err(error) => {
                    tracing::error!(source = %id, %error, "tools of agents could not be set up");
                    self.supervisor.report_unusable(&id, &[], error.to_string());
                }
            }
        }
    }

    fn wanted(&self, offered: &Offered) -> BTreeMap<SourceId, Offer> {
        let mut wanted = BTreeMap::new();
        let accepted = self.profiles.accepted();
        // Without agents there is nobody to use the tools for them.
        let is_used = !accepted.is_empty() || offered.search.is_some();
        if let Some(id) = SourceId::new(SOURCE).ok().filter(|_| is_used) {
            let profiles: Arc<dyn source::Profiles> = self.profiles.clone();
            let search = offered.search.clone();
            let tools = AgentTools::new(id.clone(), self.runs.clone(), profiles, search.clone());
            wanted.insert(
                id,
                Offer {
                    made_from: search.unwrap_or_default(),
                    source: Arc::new(tools),
                    terms: AgentTools::terms(offered.terms.clone()),
                },
            );
        }
        for profile in accepted.into_iter().filter(|profile| ProfileTools::any(profile)) {
            let made_from = profile.hash.clone();
            if let Ok(tools) = ProfileTools::new(profile, self.runs.clone()) {
                let terms = tools.terms(offered.terms.clone());
                wanted.insert(
                    tools.id().clone(),
                    Offer { made_from, source: Arc::new(tools), terms },
                );
            }
        }
        wanted
    }

    fn offered_by_plugins(&self, offered: &Offered) -> BTreeMap<SourceId, Offer> {
        let offer = |plugin: OfferedTools| {
            let terms = plugin.source.terms(offered.terms.clone());
            let made_from = plugin.generation.to_string();
            let source: Arc<dyn ToolSource> = Arc::new(plugin.source);
            (source.id().clone(), Offer { made_from, source, terms })
        };
        self.plugins.offered().into_iter().map(offer).collect()
    }
}

#[cfg(test)]
#[path = "agents_tests.rs"]
mod tests;
