//! What is wrong with profiles that only shows beside the configuration and other profiles: models that are
//! not configured, and names of tools that are taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use drawgate_agents::model::Models;
use drawgate_agents::profile::{Found, Problem, Profile};
use drawgate_agents::source::AgentTools;
use drawgate_host::Host;
use drawgate_sources::builtin;

use super::read_configured;
use crate::config::Loaded;

/// Reads the profiles of a configuration, and checks them against it and against each other.
#[must_use]
pub fn check_configured(loaded: &Loaded, host: &Arc<Host>) -> Vec<Found> {
    let mut all = read_configured(loaded);
    let models = Models::new(&loaded.config.providers, &loaded.config.models, host);
    let names =
        Names::of(all.iter().filter_map(|found| Some(&found.parsed.as_ref().ok()?.profile)));
    for found in &mut all {
        let Ok(parsed) = &found.parsed else { continue };
        let mut problems = unknown_models(&parsed.profile, &models);
        problems.extend(names.taken(&parsed.profile));
        if !problems.is_empty() {
            found.parsed = Err(problems);
        }
    }
    all
}

/// The models that a profile names and the configuration does not know.
fn unknown_models(profile: &Profile, models: &Models) -> Vec<Problem> {
    let own = std::iter::once((None, profile.model.as_deref()));
    let of_tools =
        profile.custom.iter().map(|tool| (Some(tool.name.clone()), tool.model.as_deref()));
    let unknown = own.chain(of_tools).filter_map(|(tool, model)| {
        let error = models.resolve(Some(model?)).err()?;
        let field = "model".to_owned();
        Some(Problem { field, tool, line: None, message: error.to_string() })
    });
    unknown.collect()
}

/// The names that callers see, with what has them.
struct Names {
    /// Names of tools that are always there.
    shipped: BTreeMap<String, &'static str>,
    /// Names that profiles give to all callers, and the profiles.
    public: BTreeMap<String, Vec<String>>,
}

impl Names {
    fn of<'a>(profiles: impl Iterator<Item = &'a Profile>) -> Self {
        let builtin = builtin::tools().into_iter().map(|tool| (tool.name, "a built-in tool"));
        let of_agents = AgentTools::names().map(|name| (name.to_owned(), "a tool of all agents"));
        let mut public: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for profile in profiles {
            let tools = profile.custom.iter().filter(|tool| tool.public).map(|tool| &tool.name);
            let own = profile.public.then_some(&profile.name);
            for name in tools.chain(own) {
                public.entry(name.clone()).or_default().push(profile.name.clone());
            }
        }
        Self { shipped: builtin.chain(of_agents).collect(), public }
    }

    /// The names in a profile that something else has, too.
    fn taken(&self, profile: &Profile) -> Vec<Problem> {
        let tools = profile.custom.iter().map(|tool| (Some(tool.name.clone()), &tool.name));
        let own = profile.public.then_some((None, &profile.name));
        let taken = tools.chain(own).filter_map(|(tool, name)| {
            let message =
                format!("`{name}` is the name of {}; choose another", self.holder(profile, name)?);
            Some(Problem { field: "name".to_owned(), tool, line: None, message })
        });
        taken.collect()
    }

    fn holder(&self, profile: &Profile, name: &str) -> Option<String> {
        if let Some(holder) = self.shipped.get(name) {
            return Some((*holder).to_owned());
        }
        let holders = self.public.get(name)?;
        let other = holders.iter().find(|holder| **holder != profile.name)?;
        Some(format!("a public tool of the profile `{other}`"))
    }
}
