//! Profiles of agents: shown, accepted and withdrawn by the operator.

use std::path::PathBuf;
use std::sync::Arc;

use drawgate_agents::profile::{Problem, Profile};
use drawgate_core::audit::EventKind;
use drawgate_core::model::Principal;
use drawgate_core::store::Write;
use serde::{Deserialize, Serialize};

use super::{AgentError, OperationError, Operations};
use crate::profiles::{Acceptance, KIND, KnownProfile, ProfileState};

/// A profile, for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownProfile {
    /// Its name.
    pub name: String,
    /// Whether it counts.
    pub state: ProfileState,
    /// Its file.
    pub path: PathBuf,
    /// When it was accepted, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<u64>,
    /// What it says; nothing if the file can't be used or is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// What is wrong with the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// What has no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Problem>,
    /// What has changed since it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<ProfileChange>,
}

/// The texts of a profile that was accepted and has changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProfileChange {
    /// The text that was accepted.
    pub before: String,
    /// The text now.
    pub now: String,
}

/// A profile that a person has seen.
#[derive(Debug, Serialize, Deserialize)]
pub struct AcceptProfile {
    /// SHA-256 of the file that was shown.
    pub hash: String,
}

impl Operations {
    /// All profiles, by name.
    pub async fn profiles(&self) -> Vec<ShownProfile> {
        self.profiles.refresh().await;
        self.profiles.known().into_iter().map(shown).collect()
    }

    /// One profile.
    pub async fn profile(&self, name: &str) -> Result<ShownProfile, OperationError> {
        self.profiles.refresh().await;
        Ok(shown(self.known_profile(name)?))
    }

    /// Has a profile count, if its file is what a person was shown.
    pub async fn accept_profile(
        &self,
        actor: &Principal,
        name: &str,
        accept: AcceptProfile,
    ) -> Result<ShownProfile, OperationError> {
        let turn = self.acts.turn().await;
        self.profiles.refresh().await;
        let known = self.known_profile(name)?;
        let Some(found) = known.found.filter(|found| found.parsed.is_ok()) else {
            return Err(AgentError::ProfileUnusable(known.name).into());
        };
        if found.hash.as_ref() != Some(&accept.hash) {
            return Err(AgentError::ProfileChanged(known.name).into());
        }
        let acceptance = Acceptance {
            hash: accept.hash,
            path: std::path::absolute(&found.path).unwrap_or(found.path),
            accepted_at: self.gateway.clock().now_ms(),
            text: found.text,
        };
        let outcome = self
            .draft(actor, EventKind::ProfileAccepted)
            .text("profile", &known.name)
            .text("hash", &acceptance.hash)
            .text("path", acceptance.path.to_string_lossy());
        let body = serde_json::to_value(&acceptance).unwrap_or_default();
        let write = Write::PutDocument { kind: KIND, id: known.name.clone(), body };
        let (profiles, id) = (Arc::clone(&self.profiles), known.name);
        let memory = async move { profiles.decide(&id, Some(acceptance)) };
        turn.act(vec![outcome], vec![write], memory).await?;
        self.profile(name).await
    }

    /// Has a profile count no longer. Its file stays.
    pub async fn remove_profile(
        &self,
        actor: &Principal,
        name: &str,
    ) -> Result<(), OperationError> {
        let turn = self.acts.turn().await;
        let known = self.known_profile(name)?;
        let Some(acceptance) = known.acceptance else {
            return Err(AgentError::ProfileNotAccepted(known.name).into());
        };
        let outcome = self
            .draft(actor, EventKind::ProfileRemoved)
            .text("profile", &known.name)
            .text("hash", &acceptance.hash);
        let write = Write::RemoveDocument { kind: KIND, id: known.name.clone() };
        let profiles = Arc::clone(&self.profiles);
        let memory = async move { profiles.decide(&known.name, None) };
        Ok(turn.act(vec![outcome], vec![write], memory).await?)
    }

    fn known_profile(&self, name: &str) -> Result<KnownProfile, OperationError> {
        let mut known = self.profiles.known();
        // Of several files that claim a name, one that can be used comes first.
        known.sort_by_key(|known| known.state == ProfileState::Broken);
        let found = known.into_iter().find(|known| known.name == name);
        found.ok_or_else(|| AgentError::UnknownProfile(name.to_owned()).into())
    }
}

fn shown(known: KnownProfile) -> ShownProfile {
    let KnownProfile { name, state, found, acceptance } = known;
    let accepted_at = acceptance.as_ref().map(|acceptance| acceptance.accepted_at);
    let Some(found) = found else {
        let path = acceptance.map(|acceptance| acceptance.path).unwrap_or_default();
        let (problems, warnings) = (Vec::new(), Vec::new());
        return ShownProfile {
            name,
            state,
            path,
            accepted_at,
            profile: None,
            problems,
            warnings,
            change: None,
        };
    };
    let change = match (state, acceptance.and_then(|acceptance| acceptance.text), found.text) {
        (ProfileState::Changed, Some(before), Some(now)) => Some(ProfileChange { before, now }),
        _ => None,
    };
    let (profile, problems, warnings) = match found.parsed {
        Ok(parsed) => (Some(parsed.profile), Vec::new(), parsed.warnings),
        Err(problems) => (None, problems, Vec::new()),
    };
    ShownProfile { name, state, path: found.path, accepted_at, profile, problems, warnings, change }
}
