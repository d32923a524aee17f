//! Whether a caller is shown all its tools, or finds them by searching.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use crate::model::Principal;
use crate::store::Agent;

/// How a caller's tools are shown to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expose {
    /// Every tool is listed.
    #[default]
    All,
    /// Two tools are listed, by which the others are found and called.
    Search,
}

/// Everybody's choice. It changes what is shown, never what may be done.
#[derive(Debug, Default)]
pub struct Exposures(ArcSwap<BTreeMap<Principal, Expose>>);

impl Exposures {
    /// Replaces what is known of the agents.
    pub fn set_agents(&self, agents: &[Agent]) {
        let local = self.of(&Principal::local());
        let own = agents.iter().map(|agent| (agent.name.clone(), agent.expose));
        self.0.store(Arc::new(own.chain([(Principal::local(), local)]).collect()));
    }

    /// Sets one caller's.
    pub fn set(&self, principal: &Principal, expose: Expose) {
        let mut all = BTreeMap::clone(&self.0.load());
        all.insert(principal.clone(), expose);
        self.0.store(Arc::new(all));
    }

    /// One caller's.
    #[must_use]
    pub fn of(&self, principal: &Principal) -> Expose {
        self.0.load().get(principal).copied().unwrap_or_default()
    }
}
