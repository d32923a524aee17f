//! What an operator does to a gateway: agents, grants, approvals. Each act is written down.

mod keys;
mod logins;
mod packs;
mod toolpacks;

use std::sync::Arc;

use anyhow::{Context, bail};
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::{Capability, CapabilityGrant, GrantScope, Principal};
use drawgate_core::pipeline::Gateway;
use drawgate_core::policy::{Approval, ApprovalState, Expose, GrantError, standing_grants};
use drawgate_core::secret::Secret;
use drawgate_core::store::{Agent, Documents, Store};
use drawgate_host::oauth::Logins;
use drawgate_host::seal::SealingKey;
use tokio::sync::Mutex;

use crate::assemble::Toolpacks;
use crate::peers::Door;
use crate::surface::callers::{Callers, new_token};
use crate::surface::grpc::packs::Packs;
use crate::surface::mcp::tasks::KIND as TASKS;
pub use toolpacks::{Acted, Afterwards};

/// Characters of a grant's id.
const GRANT_ID: usize = 12;

/// The operator's hand on the gateway.
pub struct Operations {
    /// The gate.
    pub gateway: Gateway,
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
    /// One act at a time: each reads what it changes.
    pub acting: Mutex<()>,
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
        let _acting = self.acting.lock().await;
        if name == Principal::local() {
            bail!("`local` is the owner of the data folder; choose another name");
        }
        if self.callers.is_reserved(&name) {
            bail!("names like `{name}` are kept for callers of `auth.issuer`; choose another");
        }
        if self.store.agents().await?.iter().any(|agent| agent.name == name) {
            bail!(
                "there is an agent `{name}` already; `drawgate agents rotate {name}` gives it a new token"
            );
        }
        self.register(name, capabilities, expose, EventKind::AgentAdded).await
    }

    /// Gives an agent a new token; the old one ends at once.
    pub async fn rotate_agent(&self, name: &Principal) -> anyhow::Result<Secret<String>> {
        let _acting = self.acting.lock().await;
        let agents = self.store.agents().await?;
        let agent = agents.into_iter().find(|agent| agent.name == *name);
        let agent = agent.with_context(|| unknown_agent(name))?;
        self.register(agent.name, agent.capabilities, agent.expose, EventKind::AgentRotated).await
    }

    async fn register(
        &self,
        name: Principal,
        mut capabilities: Vec<Capability>,
        expose: Expose,
        kind: EventKind,
    ) -> anyhow::Result<Secret<String>> {
        capabilities.sort();
        capabilities.dedup();
        let parts = self.gateway.parts();
        let (token, token_hash) = new_token(&*parts.ids);
        let agent =
            Agent { name, token_hash, capabilities, created_at: parts.clock.now_ms(), expose };
        let list: Vec<&str> = agent.capabilities.iter().map(Capability::as_str).collect();
        self.note(self.draft(kind).text("agent", agent.name.as_str()).texts("capabilities", list))
            .await?;
        self.store.put_agent(&agent).await?;
        parts.grants.stand(&agent.name, standing_grants(&agent)).await;
        self.refresh_callers().await?;
        Ok(token)
    }

    /// Removes an agent: its token and its standing capabilities end at once.
    pub async fn remove_agent(&self, name: &Principal) -> anyhow::Result<()> {
        let _acting = self.acting.lock().await;
        if !self.store.remove_agent(name).await? {
            bail!(unknown_agent(name));
        }
        let parts = self.gateway.parts();
        parts.grants.stand(name, Vec::new()).await;
        self.refresh_callers().await?;
        // Nothing of it may pass to the next agent of this name.
        let own = Some(GrantScope::User(name.clone()));
        for grant in parts.grants.live(parts.clock.now_ms()) {
            if grant.scope == own {
                parts.grants.revoke(&grant.grant_id).await?;
            }
        }
        parts.approvals.forget(name).await?;
        for (id, task) in self.documents.documents(TASKS).await? {
            if task["principal"] == name.as_str() {
                self.documents.remove_document(TASKS, &id).await?;
            }
        }
        self.note(self.draft(EventKind::AgentRemoved).text("agent", name.as_str())).await
    }

    /// Takes the agents in the store as the ones that have tokens.
    pub async fn refresh_callers(&self) -> anyhow::Result<()> {
        let agents = self.store.agents().await?;
        self.callers.set(&self.admin, &agents);
        self.gateway.parts().exposures.set_agents(&agents);
        Ok(())
    }

    /// Issues a grant.
    pub async fn issue_grant(
        &self,
        capability: Capability,
        scope: Option<GrantScope>,
        lifetime_ms: Option<u64>,
    ) -> anyhow::Result<CapabilityGrant> {
        let parts = self.gateway.parts();
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
        self.note(draft).await?;
        parts.grants.issue(grant.clone()).await?;
        Ok(grant)
    }

    /// Revokes a grant: it covers no further call. One that stands by an agent's registration leaves
    /// the registration too.
    pub async fn revoke_grant(&self, id: &str) -> anyhow::Result<()> {
        let _acting = self.acting.lock().await;
        let grants = &self.gateway.parts().grants;
        match grants.revoke(id).await {
            Err(GrantError::Standing(_)) => self.withdraw(id).await?,
            done => done?,
        }
        self.note(self.draft(EventKind::GrantRevoked).texts("grantIds", [id])).await
    }

    /// Takes a capability out of an agent's registration.
    async fn withdraw(&self, id: &str) -> anyhow::Result<()> {
        for mut agent in self.store.agents().await? {
            let standing = standing_grants(&agent);
            let Some(grant) = standing.iter().find(|grant| &*grant.grant_id == id) else {
                continue;
            };
            agent.capabilities.retain(|capability| *capability != grant.capability);
            // Out of memory first: should the store fail, the capability is at least not usable now.
            self.gateway.parts().grants.stand(&agent.name, standing_grants(&agent)).await;
            self.store.put_agent(&agent).await?;
            return Ok(());
        }
        bail!("`{id}` stands by the configuration; change `[local] capabilities` there")
    }

    /// Decides an approval. A yes that can't be written down is none.
    pub async fn decide(&self, id: &str, answer: ApprovalState) -> anyhow::Result<Approval> {
        let _acting = self.acting.lock().await;
        let approvals = &self.gateway.parts().approvals;
        if let Some(asked) = approvals
            .list()
            .into_iter()
            .find(|approval| approval.id == id && approval.state == ApprovalState::Pending)
        {
            let draft = self
                .draft(EventKind::ApprovalDecided)
                .text("approvalId", id)
                .text("toolId", &asked.tool_id)
                .text("requestedBy", asked.principal.as_str())
                .flag("approved", answer == ApprovalState::Approved);
            self.note(draft).await?;
        }
        Ok(approvals.decide(id, answer).await?)
    }

    /// Removes an artifact of all its owners; `false` if there is none.
    pub async fn remove_artifact(&self, sha256: &str) -> anyhow::Result<bool> {
        let removed = self.gateway.parts().artifacts.remove(sha256).await?;
        if removed {
            self.note(self.draft(EventKind::ArtifactRemoved).text("artifact", sha256)).await?;
        }
        Ok(removed)
    }

    fn draft(&self, kind: EventKind) -> EventDraft {
        let now = self.gateway.parts().clock.now_ms();
        EventDraft::new(kind, now).text("principal", Principal::local().as_str())
    }

    async fn note(&self, draft: EventDraft) -> anyhow::Result<()> {
        self.gateway.parts().audit.append(draft).await.context("the audit log can't be written")?;
        Ok(())
    }
}

fn unknown_agent(name: &Principal) -> String {
    format!("there is no agent `{name}`; `drawgate agents list` shows them")
}
