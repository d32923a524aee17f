//! Grants: capabilities for a time, and for whom.

use std::collections::BTreeSet;
use std::sync::Arc;

use drawgate_core::acts::Turn;
use drawgate_core::audit::EventKind;
use drawgate_core::model::{Capability, CapabilityGrant, GrantScope, Principal};
use drawgate_core::policy::{GrantError, standing_grants};
use drawgate_core::store::{Agent, Write};
use drawgate_sdk::statement::Purpose;
use serde::{Deserialize, Serialize};

use super::{OperationError, Operations};

/// Characters of a grant's id.
const GRANT_ID: usize = 12;

/// Bytes of the id of an approval.
const MAX_APPROVAL_ID: usize = 128;

/// Bytes of the id of a grant that is given back.
const MAX_GRANT_ID: usize = 128;

/// A new grant.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewGrant {
    /// What it allows.
    pub capability: String,
    /// To whom: `workspace`, `user:NAME` or `session:ID`.
    pub scope: String,
    /// For how long.
    pub lifetime_ms: Option<u64>,
    /// Until when, in milliseconds since the epoch. With both, it ends at the earlier time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// The approval by a person that stands behind it. Such a grant satisfies confirmations for what it
    /// allows, as long as it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
}

/// Asks for a new grant.
#[derive(Debug, Serialize, Deserialize)]
pub struct IssueGrant {
    /// The grant.
    #[serde(flatten)]
    pub grant: NewGrant,
    /// The operator's token, for a grant with an approval.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
}

impl Operations {
    /// All live grants.
    #[must_use]
    pub fn grants(&self) -> Vec<CapabilityGrant> {
        self.control.parts().grants.live(self.gateway.clock().now_ms())
    }

    /// Issues a grant.
    pub async fn issue_grant(
        &self,
        actor: &Principal,
        new: NewGrant,
    ) -> Result<CapabilityGrant, OperationError> {
        let scope = GrantScope::try_from(new.scope)?;
        let capability = Capability::new(&new.capability)?;
        let approval_id = new.approval_id.map(check_approval_id).transpose()?;
        self.check_grantee(&scope).await?;
        let turn = self.acts.turn().await;
        let parts = self.control.parts();
        let now = parts.clock.now_ms();
        let id: String = parts.ids.secret().chars().take(GRANT_ID).collect();
        let lifetime_ends = new.lifetime_ms.map(|lifetime| now.saturating_add(lifetime));
        let grant = CapabilityGrant {
            grant_id: format!("g_{id}").into(),
            capability,
            issued_at: now,
            expires_at: lifetime_ends.into_iter().chain(new.expires_at).min(),
            scope: Some(scope),
            approval_id,
        };
        self.put_grant(turn, actor, grant.clone()).await?;
        Ok(grant)
    }

    /// Gives back a grant that was issued before, under its own id: by this gateway or by another one. One that is
    /// there already stays.
    pub async fn restore_grant(
        &self,
        actor: &Principal,
        grant: CapabilityGrant,
    ) -> Result<CapabilityGrant, OperationError> {
        let approval_id = grant.approval_id.map(check_approval_id).transpose()?;
        let grant = CapabilityGrant { approval_id, ..grant };
        if let Some(scope) = &grant.scope {
            self.check_grantee(scope).await?;
        }
        let turn = self.acts.turn().await;
        if let Some(found) = self.control.parts().grants.get(&grant.grant_id) {
            let is_same = CapabilityGrant { issued_at: found.issued_at, ..grant.clone() } == *found;
            let taken = OperationError::GrantExists(grant.grant_id.to_string());
            return if is_same { Ok(grant) } else { Err(taken) };
        }
        if !is_grant_id(&grant.grant_id) {
            return Err(OperationError::GrantId(
                grant.grant_id.chars().take(MAX_GRANT_ID).collect(),
            ));
        }
        self.put_grant(turn, actor, grant.clone()).await?;
        Ok(grant)
    }

    async fn put_grant(
        &self,
        turn: Turn,
        actor: &Principal,
        grant: CapabilityGrant,
    ) -> Result<(), OperationError> {
        let scope = grant.scope.clone().map(String::from);
        let draft = self
            .draft(actor, EventKind::GrantIssued)
            .texts("grantIds", [&*grant.grant_id])
            .text("capability", grant.capability.as_str())
            .maybe_text("scope", scope.as_deref())
            .maybe_text("approvalId", grant.approval_id.as_deref());
        let draft = match grant.expires_at {
            Some(end) => draft.number("expiresAt", end),
            None => draft,
        };
        let (grants, issued) = (Arc::clone(&self.control.parts().grants), grant.clone());
        let memory = async move { grants.issue(issued).await };
        Ok(turn.act(vec![draft], vec![Write::PutGrant(grant)], memory).await?)
    }

    /// Revokes a grant: it covers no further call. One that stands by an agent's registration leaves
    /// the registration too.
    pub async fn revoke_grant(&self, actor: &Principal, id: &str) -> Result<(), OperationError> {
        let turn = self.acts.turn().await;
        let outcome = self.draft(actor, EventKind::GrantRevoked).texts("grantIds", [id]);
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

    /// Refuses a grant for an agent that does not exist: as a rule its name is misspelt, and an agent
    /// that gets that name later would hold the grant. Callers of an authorization server are not listed
    /// anywhere, and are known by the beginning of their names.
    async fn check_grantee(&self, scope: &GrantScope) -> Result<(), OperationError> {
        let name = match scope {
            GrantScope::User(name) => name,
            GrantScope::Workspace | GrantScope::Session(_) => return Ok(()),
        };
        self.known_agent(name).await.map(drop)
    }

    /// Whether a caller of this name comes with a token, and the grants that its keys stand for. Of
    /// several keys, what all of them together allow.
    pub(super) async fn known_agent(
        &self,
        name: &Principal,
    ) -> Result<(bool, Arc<[Arc<CapabilityGrant>]>), OperationError> {
        let keys = self.authenticator.list();
        let own = keys.entries().iter().map(|entry| &entry.terms);
        let own: Vec<_> = own
            .filter(|key| key.purpose == Purpose::Agent && key.name.as_str() == name.as_str())
            .collect();
        let with_token = *name == Principal::local()
            || self.embedder.as_ref() == Some(name)
            || self.callers.is_reserved(name)
            || self.plugins.has_principal(name)
            || self.store.agents().await?.iter().any(|agent| agent.name == *name);
        if own.is_empty() && !with_token {
            return Err(OperationError::UnknownGrantee(name.clone()));
        }
        let held: BTreeSet<&Capability> = own.iter().flat_map(|key| &key.capabilities).collect();
        let by_key = held.into_iter().map(|capability| {
            Arc::new(CapabilityGrant {
                grant_id: format!("key:{name}:{capability}").into(),
                capability: capability.clone(),
                issued_at: 0,
                expires_at: None,
                scope: Some(GrantScope::User(name.clone())),
                approval_id: None,
            })
        });
        Ok((with_token, by_key.collect()))
    }
}

/// Whether a grant can have this id by itself: with a colon it is one of a registration's.
fn is_grant_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b':';
    id.bytes().all(is_plain) && (1..=MAX_GRANT_ID).contains(&id.len())
}

/// Ids come from the operator's own records, so only their form is checked.
fn check_approval_id(id: String) -> Result<String, OperationError> {
    let is_visible = id.bytes().all(|byte| byte.is_ascii_graphic());
    if is_visible && (1..=MAX_APPROVAL_ID).contains(&id.len()) {
        Ok(id)
    } else {
        Err(OperationError::ApprovalId(id.chars().take(MAX_APPROVAL_ID).collect()))
    }
}

/// Takes a capability out of an agent's registration, and returns the agent.
fn withdraw(agents: &mut [Agent], id: &str) -> Result<Agent, OperationError> {
    for agent in agents {
        let standing = standing_grants(agent);
        if let Some(grant) = standing.iter().find(|grant| &*grant.grant_id == id) {
            agent.capabilities.retain(|capability| *capability != grant.capability);
            return Ok(agent.clone());
        }
    }
    Err(OperationError::ConfiguredGrant(id.to_owned()))
}
