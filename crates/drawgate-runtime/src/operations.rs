//! What an operator does to a gateway: agents, grants, approvals. Every act goes through
//! [`Acts`], which keeps the order: intent, store, memory, outcome.

mod files;
mod grantee;
mod keys;
mod logins;
mod packs;
mod toolpacks;

use std::sync::{Arc, OnceLock};

use anyhow::{Context, bail};
use drawgate_core::acts::{ActError, Acts, Turn};
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::{Capability, CapabilityGrant, GrantScope, Principal};
use drawgate_core::pipeline::{Gateway, GatewayControl};
use drawgate_core::policy::{Approval, ApprovalState, Expose, GrantError, standing_grants};
use drawgate_core::secret::Secret;
use drawgate_core::store::{Agent, Documents, Store, Write};
use drawgate_host::seal::SealingKey;
use drawgate_sources::mcp::oauth::Logins;
use sha2::{Digest, Sha256};

use crate::assemble::Toolpacks;
use crate::callers::{Callers, new_token};
use crate::packs::Packs;
use crate::peers::Door;
use crate::tasks::{KIND as TASKS, Tasks};
pub use toolpacks::{Acted, Afterwards};

/// Characters of a grant's id.
const GRANT_ID: usize = 12;

/// The operator's hand on the gateway.
pub struct Operations {
    /// The gate.
    pub gateway: Gateway,
    /// The handle by which acts change it.
    pub(crate) control: GatewayControl,
    /// Where agents are kept.
    pub store: Arc<dyn Store>,
    /// Where pins, tasks and logins are kept.
    pub documents: Arc<dyn Documents>,
    /// Logins at protected servers.
    pub logins: Arc<Logins>,
    /// What logins and tasks are sealed with.
    pub sealing: SealingKey,
    /// Who has a token.
    pub callers: Arc<Callers>,
    /// Installed toolpacks.
    pub toolpacks: Arc<Toolpacks>,
    /// Where packs and agents come in.
    pub door: Arc<Door>,
    /// The packs that have come in.
    pub packs: Arc<Packs>,
    /// The local user's token.
    pub admin: Secret<String>,
    /// How acts are done.
    pub acts: Acts,
    /// Calls that go on without their client, where a surface offers that.
    pub tasks: OnceLock<Tasks>,
}

impl Operations {
    /// All agents, by name.
    pub async fn agents(&self) -> anyhow::Result<Vec<Agent>> {
        Ok(self.store.agents().await?)
    }

    /// Adds an agent and returns its token, which is shown this once.
    pub async fn add_agent(
        &self,
        name: Principal,
        capabilities: Vec<Capability>,
        expose: Expose,
    ) -> anyhow::Result<Secret<String>> {
        let turn = self.acts.turn().await;
        if name == Principal::local() {
            bail!("`local` is the owner of the data folder; choose another name");
        }
        if self.callers.is_reserved(&name) {
            bail!("names like `{name}` are kept for callers of `auth.issuer`; choose another");
        }
        let agents = self.store.agents().await?;
        if agents.iter().any(|agent| agent.name == name) {
            bail!(
                "there is an agent `{name}` already; `drawgate agents rotate {name}` gives it a new token"
            );
        }
        let agent = Registration { name, capabilities, expose };
        self.register(turn, EventKind::AgentAdded, agents, agent).await
    }

    /// Gives an agent a new token; the old one ends at once.
    pub async fn rotate_agent(&self, name: &Principal) -> anyhow::Result<Secret<String>> {
        let turn = self.acts.turn().await;
        let agents = self.store.agents().await?;
        let agent = agents.iter().find(|agent| agent.name == *name).cloned();
        let Agent { name, capabilities, expose, .. } =
            agent.with_context(|| unknown_agent(name))?;
        let agent = Registration { name, capabilities, expose };
        self.register(turn, EventKind::AgentRotated, agents, agent).await
    }

    async fn register(
        &self,
        turn: Turn,
        kind: EventKind,
        mut agents: Vec<Agent>,
        Registration { name, mut capabilities, expose }: Registration,
    ) -> anyhow::Result<Secret<String>> {
        capabilities.sort();
        capabilities.dedup();
        let parts = self.control.parts();
        let (token, token_hash) = new_token(&*parts.ids);
        let agent =
            Agent { name, token_hash, capabilities, created_at: parts.clock.now_ms(), expose };
        let list = agent.capabilities.iter().map(Capability::as_str);
        let outcome =
            self.draft(kind).text("agent", agent.name.as_str()).texts("capabilities", list);
        agents.retain(|other| other.name != agent.name);
        agents.push(agent.clone());
        let write = Write::PutAgent(agent.clone());
        turn.act(vec![outcome], vec![write], self.take_over(agents, agent)).await?;
        Ok(token)
    }

    /// Has these agents in memory; one of them is new or changed.
    fn take_over(
        &self,
        agents: Vec<Agent>,
        changed: Agent,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (control, callers) = (self.control.clone(), Arc::clone(&self.callers));
        let admin = self.admin.clone();
        async move {
            let parts = control.parts();
            parts.grants.stand(&changed.name, standing_grants(&changed)).await;
            callers.set(&admin, &agents);
            parts.exposures.set_agents(&agents);
        }
    }

    /// Removes an agent: its token and its standing capabilities end at once. Nothing of it passes to
    /// the next agent of this name.
    pub async fn remove_agent(&self, name: &Principal) -> anyhow::Result<()> {
        let turn = self.acts.turn().await;
        let mut agents = self.store.agents().await?;
        let at = agents.iter().position(|agent| agent.name == *name);
        let mut gone = agents.remove(at.with_context(|| unknown_agent(name))?);
        gone.capabilities.clear();
        let parts = self.control.parts();
        let (grants, approvals) = (parts.grants.issued_to(name), parts.approvals.of(name));
        let mut writes = vec![Write::RemoveAgent(name.clone())];
        writes.extend(grants.iter().cloned().map(Write::RemoveGrant));
        writes.extend(approvals.iter().cloned().map(Write::RemoveApproval));
        let tasks = self.documents.documents(TASKS).await?;
        let own = tasks.into_iter().filter(|(_, task)| task["principal"] == name.as_str());
        writes.extend(own.map(|(id, _)| Write::RemoveDocument { kind: TASKS, id }));
        let outcome = self.draft(EventKind::AgentRemoved).text("agent", name.as_str());
        let (control, taken_over) = (self.control.clone(), self.take_over(agents, gone));
        let memory = async move {
            taken_over.await;
            control.parts().grants.revoke(&grants).await;
            control.parts().approvals.forget(&approvals);
        };
        turn.act(vec![outcome], writes, memory).await?;
        if let Some(tasks) = self.tasks.get() {
            tasks.forget(name).await;
        }
        Ok(())
    }

    /// Issues a grant.
    pub async fn issue_grant(
        &self,
        capability: Capability,
        scope: Option<GrantScope>,
        lifetime_ms: Option<u64>,
    ) -> anyhow::Result<CapabilityGrant> {
        let turn = self.acts.turn().await;
        let parts = self.control.parts();
        let now = parts.clock.now_ms();
        let id: String = parts.ids.secret().chars().take(GRANT_ID).collect();
        let grant = CapabilityGrant {
            grant_id: format!("g_{id}").into(),
            capability,
            issued_at: now,
            expires_at: lifetime_ms.map(|lifetime| now.saturating_add(lifetime)),
            scope,
            approval_id: None,
        };
        let scope = grant.scope.clone().map(String::from);
        let draft = self
            .draft(EventKind::GrantIssued)
            .texts("grantIds", [&*grant.grant_id])
            .text("capability", grant.capability.as_str())
            .maybe_text("scope", scope.as_deref());
        let draft = match grant.expires_at {
            Some(end) => draft.number("expiresAt", end),
            None => draft,
        };
        let (grants, issued) = (Arc::clone(&parts.grants), grant.clone());
        let memory = async move { grants.issue(issued).await };
        turn.act(vec![draft], vec![Write::PutGrant(grant.clone())], memory).await?;
        Ok(grant)
    }

    /// Revokes a grant: it covers no further call. One that stands by an agent's registration leaves
    /// the registration too.
    pub async fn revoke_grant(&self, id: &str) -> anyhow::Result<()> {
        let turn = self.acts.turn().await;
        let outcome = self.draft(EventKind::GrantRevoked).texts("grantIds", [id]);
        let grants = Arc::clone(&self.control.parts().grants);
        match grants.revocable(id) {
            Ok(id) => {
                let write = Write::RemoveGrant(Arc::clone(&id));
                let memory = async move { grants.revoke(&[id]).await };
                turn.act(vec![outcome], vec![write], memory).await?;
            }
            Err(GrantError::Standing(_)) => {
                let mut agents = self.store.agents().await?;
                let agent = withdraw(&mut agents, id)?;
                let write = Write::PutAgent(agent.clone());
                turn.act(vec![outcome], vec![write], self.take_over(agents, agent)).await?;
            }
            Err(error @ GrantError::Unknown(_)) => return Err(error.into()),
        }
        Ok(())
    }

    /// All live grants.
    #[must_use]
    pub fn grants(&self) -> Vec<CapabilityGrant> {
        self.control.parts().grants.live(self.gateway.clock().now_ms())
    }

    /// The exact arguments that an approval is about, as canonical JSON; they are in memory only.
    #[must_use]
    pub fn exact_arguments(&self, approval: &str) -> Option<Arc<str>> {
        self.control.exact_arguments(approval)
    }

    /// Decides an approval. A yes that can't be written down is none.
    pub async fn decide(&self, id: &str, answer: ApprovalState) -> anyhow::Result<Approval> {
        let turn = self.acts.turn().await;
        let approvals = Arc::clone(&self.control.parts().approvals);
        let decided = approvals.decided(id, answer)?;
        let outcome = self
            .draft(EventKind::ApprovalDecided)
            .text("approvalId", id)
            .text("toolId", &decided.tool_id)
            .text("requestedBy", decided.principal.as_str())
            .flag("approved", answer == ApprovalState::Approved);
        let settled = decided.clone();
        let control = self.control.clone();
        let memory = async move {
            control.forget_arguments(&settled.id);
            approvals.settle(settled);
        };
        let write = Write::SettleApproval { from: ApprovalState::Pending, to: decided.clone() };
        match turn.act(vec![outcome], vec![write], memory).await {
            // Another gateway on the same store was first.
            Err(conflict @ ActError::Conflict(_)) => {
                let approvals = &self.control.parts().approvals;
                approvals.reload(id).await?;
                approvals.decided(id, answer)?;
                Err(conflict.into())
            }
            done => Ok(done.map(|()| decided)?),
        }
    }

    /// Whether this is the operator's token. Hashes are compared instead of the texts, so that the time
    /// it takes says nothing about them.
    #[must_use]
    pub fn is_operator(&self, token: &str) -> bool {
        Sha256::digest(token) == Sha256::digest(self.admin.expose())
    }

    /// Removes an artifact of all its owners; `false` if there is none.
    pub async fn remove_artifact(&self, sha256: &str) -> anyhow::Result<bool> {
        let turn = self.acts.turn().await;
        let artifacts = Arc::clone(&self.control.parts().artifacts);
        let all = artifacts.list(&Principal::local()).await?;
        if !all.iter().any(|info| info.reference.sha256 == sha256) {
            return Ok(false);
        }
        let outcome = self.draft(EventKind::ArtifactRemoved).text("artifact", sha256);
        let sha256 = sha256.to_owned();
        let work = async move {
            artifacts.remove(&sha256).await.map(drop).map_err(|error| error.to_string())
        };
        turn.act_on_files(vec![outcome], self.files(), work).await?;
        Ok(true)
    }

    /// Writes down what the log is owed, as far as that is possible now.
    pub async fn settle(&self) {
        if let Err(error) = self.acts.settle(&*self.files()).await {
            tracing::warn!(%error, "outcomes of acts can't be written down yet");
        }
    }

    fn draft(&self, kind: EventKind) -> EventDraft {
        let now = self.gateway.clock().now_ms();
        EventDraft::new(kind, now).text("principal", Principal::local().as_str())
    }
}

/// What an agent is registered with.
struct Registration {
    name: Principal,
    capabilities: Vec<Capability>,
    expose: Expose,
}

/// Takes a capability out of an agent's registration, and returns the agent.
fn withdraw(agents: &mut [Agent], id: &str) -> anyhow::Result<Agent> {
    for agent in agents {
        let standing = standing_grants(agent);
        if let Some(grant) = standing.iter().find(|grant| &*grant.grant_id == id) {
            agent.capabilities.retain(|capability| *capability != grant.capability);
            return Ok(agent.clone());
        }
    }
    bail!("`{id}` stands by the configuration; change `[local] capabilities` there")
}

fn unknown_agent(name: &Principal) -> String {
    format!("there is no agent `{name}`; `drawgate agents list` shows them")
}
