//! Agents: their tokens and standing capabilities.

use std::collections::BTreeSet;
use std::sync::Arc;

use drawgate_agents::plugins::Plugins;
use drawgate_core::acts::Turn;
use drawgate_core::audit::EventKind;
use drawgate_core::model::{
    Caller, Capability, CapabilityGrant, Principal, Surface, ToolPatterns, WireName,
};
use drawgate_core::policy::{Expose, standing_grants};
use drawgate_core::registry::Entry;
use drawgate_core::secret::Secret;
use drawgate_core::store::{Agent, Write};
use serde::{Deserialize, Serialize};

use super::{OperationError, Operations};
use crate::callers::new_token;
use crate::tasks::KIND as TASKS;

/// A new agent.
#[derive(Debug, Serialize, Deserialize)]
pub struct NewAgent {
    /// Its name.
    pub name: String,
    /// What it may always do.
    pub capabilities: Vec<String>,
    /// Patterns of tools that it must be able to call; it gets what they require.
    #[serde(default)]
    pub tools: Vec<String>,
    /// How its tools are shown to it.
    #[serde(default)]
    pub expose: Expose,
}

/// The token of an agent, which is shown once and kept nowhere.
#[derive(Serialize, Deserialize)]
pub struct AgentToken {
    /// The token.
    pub token: String,
}

/// An agent that was added, with its token and what it was given.
#[derive(Serialize, Deserialize)]
pub struct AddedAgent {
    /// Its token, which is shown once and kept nowhere.
    pub token: String,
    /// What it may always do.
    pub capabilities: Vec<Capability>,
    /// The tools that were asked for by patterns.
    pub tools: Vec<WireName>,
    /// The other tools that are open to it, since they require nothing more.
    pub also: Vec<WireName>,
}

impl From<Secret<String>> for AgentToken {
    fn from(token: Secret<String>) -> Self {
        Self { token: token.expose().clone() }
    }
}

impl Operations {
    /// All agents, by name.
    pub async fn agents(&self) -> Result<Vec<Agent>, OperationError> {
        Ok(self.store.agents().await?)
    }

    /// Adds an agent and returns its token, which is shown this once.
    pub async fn add_agent(
        &self,
        actor: &Principal,
        new: NewAgent,
    ) -> Result<AddedAgent, OperationError> {
        let NewAgent { name, capabilities, tools, expose } = new;
        let name = Principal::new(&name)?;
        let given: Result<BTreeSet<Capability>, _> =
            capabilities.iter().map(|text| Capability::new(text)).collect();
        let mut given = given?;
        let all = self.all_tools();
        let asked = asked_for(&all, &tools)?;
        given.extend(asked.iter().flat_map(|entry| entry.requires.iter().cloned()));
        let capabilities: Vec<Capability> = given.into_iter().collect();
        let turn = self.acts.turn().await;
        if name == Principal::local() {
            return Err(OperationError::NameIsLocal);
        }
        if self.callers.is_reserved(&name) {
            return Err(OperationError::NameIsReserved(name));
        }
        if Plugins::is_principal(&name) {
            return Err(OperationError::NameIsPlugins(name));
        }
        let agents = self.store.agents().await?;
        if agents.iter().any(|agent| agent.name == name) {
            return Err(OperationError::AgentExists(name));
        }
        let agent = Registration { name, capabilities: capabilities.clone(), expose };
        let token = self.register(actor, turn, EventKind::AgentAdded, agents, agent).await?;
        let is_open = |entry: &Entry| {
            let holds = |required: &Capability| capabilities.iter().any(|own| own.covers(required));
            entry.requires.iter().all(holds)
        };
        let is_asked = |entry: &Entry| asked.iter().any(|asked| asked.id == entry.id);
        let also = all.iter().filter(|entry| is_open(entry) && !is_asked(entry));
        Ok(AddedAgent {
            token: token.expose().clone(),
            also: also.map(|entry| entry.wire.clone()).collect(),
            tools: asked.iter().map(|entry| entry.wire.clone()).collect(),
            capabilities,
        })
    }

    /// Every tool that an agent could be given.
    fn all_tools(&self) -> Vec<Arc<Entry>> {
        let everything = CapabilityGrant {
            grant_id: "everything".into(),
            capability: Capability::everything(),
            issued_at: 0,
            expires_at: None,
            scope: None,
            approval_id: None,
        };
        self.gateway.tools(&Caller {
            principal: Principal::local(),
            session: None,
            surface: Surface::new("list", ""),
            carried: [Arc::new(everything)].into(),
            lineage: None,
        })
    }

    /// Gives an agent a new token; the old one ends at once.
    pub async fn rotate_agent(
        &self,
        actor: &Principal,
        name: &str,
    ) -> Result<Secret<String>, OperationError> {
        let name = Principal::new(name)?;
        let turn = self.acts.turn().await;
        let agents = self.store.agents().await?;
        let agent = agents.iter().find(|agent| agent.name == name).cloned();
        let Agent { name, capabilities, expose, .. } =
            agent.ok_or(OperationError::UnknownAgent(name))?;
        let agent = Registration { name, capabilities, expose };
        self.register(actor, turn, EventKind::AgentRotated, agents, agent).await
    }

    async fn register(
        &self,
        actor: &Principal,
        turn: Turn,
        kind: EventKind,
        mut agents: Vec<Agent>,
        Registration { name, mut capabilities, expose }: Registration,
    ) -> Result<Secret<String>, OperationError> {
        capabilities.sort();
        capabilities.dedup();
        let parts = self.control.parts();
        let (token, token_hash) = new_token(&*parts.ids);
        let agent =
            Agent { name, token_hash, capabilities, created_at: parts.clock.now_ms(), expose };
        let list = agent.capabilities.iter().map(Capability::as_str);
        let outcome =
            self.draft(actor, kind).text("agent", agent.name.as_str()).texts("capabilities", list);
        agents.retain(|other| other.name != agent.name);
        agents.push(agent.clone());
        let write = Write::PutAgent(agent.clone());
        turn.act(vec![outcome], vec![write], self.take_over(agents, agent)).await?;
        Ok(token)
    }

    /// Has these agents in memory; one of them is new or changed.
    pub(super) fn take_over(
        &self,
        agents: Vec<Agent>,
        changed: Agent,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (control, callers) = (self.control.clone(), Arc::clone(&self.callers));
        let admin = self.admin.clone();
        async move {
            let parts = control.parts();
            parts.grants.set_standing(&changed.name, standing_grants(&changed)).await;
            callers.set(&admin, &agents);
            parts.exposures.set_agents(&agents);
        }
    }

    /// Removes an agent: its token and its standing capabilities end at once. Nothing of it passes to
    /// the next agent of this name.
    pub async fn remove_agent(&self, actor: &Principal, name: &str) -> Result<(), OperationError> {
        let name = Principal::new(name)?;
        let turn = self.acts.turn().await;
        let mut agents = self.store.agents().await?;
        let Some(at) = agents.iter().position(|agent| agent.name == name) else {
            return Err(OperationError::UnknownAgent(name));
        };
        let mut gone = agents.remove(at);
        gone.capabilities.clear();
        let parts = self.control.parts();
        let (grants, approvals) = (parts.grants.issued_to(&name), parts.approvals.of(&name));
        let mut writes = vec![Write::RemoveAgent(name.clone())];
        writes.extend(grants.iter().cloned().map(Write::RemoveGrant));
        writes.extend(approvals.iter().cloned().map(Write::RemoveApproval));
        let tasks = self.documents.documents(TASKS).await?;
        let own = tasks.into_iter().filter(|(_, task)| task["principal"] == name.as_str());
        writes.extend(own.map(|(id, _)| Write::RemoveDocument { kind: TASKS, id }));
        let outcome = self.draft(actor, EventKind::AgentRemoved).text("agent", name.as_str());
        let (control, taken_over) = (self.control.clone(), self.take_over(agents, gone));
        let memory = async move {
            taken_over.await;
            control.parts().grants.revoke(&grants).await;
            control.parts().approvals.forget(&approvals);
        };
        turn.act(vec![outcome], writes, memory).await?;
        if let Some(tasks) = self.tasks.get() {
            tasks.forget(&name).await;
        }
        self.agents.plugins.tasks().stop_of(&name).await;
        self.agents.runs.cancel_of(&name, "its agent was removed");
        Ok(())
    }
}

/// The tools that patterns mean, each of which must mean one.
fn asked_for(all: &[Arc<Entry>], patterns: &[String]) -> Result<Vec<Arc<Entry>>, OperationError> {
    let words: BTreeSet<&str> = patterns.iter().flat_map(|text| text.split_whitespace()).collect();
    let mut asked: Vec<Arc<Entry>> = Vec::new();
    for word in words {
        let pattern = ToolPatterns::only([word])?;
        let before = asked.len();
        asked.extend(all.iter().filter(|entry| pattern.admits(entry)).cloned());
        if asked.len() == before {
            return Err(OperationError::NoSuchTool(word.to_owned()));
        }
    }
    asked.sort_by(|one, other| one.id.cmp(&other.id));
    asked.dedup_by(|one, other| one.id == other.id);
    Ok(asked)
}

/// What an agent is registered with.
struct Registration {
    name: Principal,
    capabilities: Vec<Capability>,
    expose: Expose,
}
