//! The first message of an agent: who it says it is, and what it wants to hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use drawgate_core::model::{Caller, Capability, CapabilityGrant, GrantScope, Surface, shown_name};
use drawgate_sdk::proto::agent_message::Message;
use drawgate_sdk::proto::{AgentMessage, AgentRegistration};
use tonic::Status;

use super::Agent;

/// This surface, in the audit log.
const SURFACE: Surface = Surface::new("grpc", "read it with `ReadArtifact`");
/// Prefix of the ids of grants that stand by an agent's key.
const GRANT_PREFIX: &str = "key:";
/// Capabilities that an agent may ask for by name.
const MAX_WANTED: usize = 256;

/// The registration, which must be an agent's first message.
pub(super) fn first(message: AgentMessage) -> Result<AgentRegistration, Status> {
    match message.message {
        Some(Message::Register(registration)) => Ok(registration),
        Some(Message::Call(_) | Message::Cancel(_) | Message::Heartbeat(_)) | None => {
            Err(Status::failed_precondition("the first message must be `register`"))
        }
    }
}

/// The caller that a registration makes: the agent as it proved itself, with what it wants of what
/// its key allows.
pub(super) fn caller(
    agent: &Agent,
    registration: &AgentRegistration,
    now: u64,
) -> Result<Caller, Status> {
    if !registration.name.is_empty() && registration.name != agent.name.as_str() {
        return Err(Status::permission_denied(format!(
            "this connection was proved for `{}`, not for `{}`",
            agent.name,
            shown_name(&registration.name)
        )));
    }
    let held = wanted(agent, &registration.capabilities)?;
    let grants = held.into_iter().map(|capability| {
        Arc::new(CapabilityGrant {
            grant_id: format!("{GRANT_PREFIX}{}:{capability}", agent.name).into(),
            capability,
            issued_at: now,
            expires_at: None,
            scope: Some(GrantScope::User(agent.name.clone())),
            approval_id: None,
        })
    });
    Ok(Caller {
        principal: agent.name.clone(),
        session: Some(agent.connection.as_str().into()),
        surface: SURFACE,
        carried: grants.collect(),
        lineage: None,
    })
}

/// What the agent is to hold: all that its key allows, or as much of it as it asks for.
fn wanted(agent: &Agent, asked: &[String]) -> Result<BTreeSet<Capability>, Status> {
    if asked.is_empty() {
        return Ok(agent.allowed.iter().cloned().collect());
    }
    if asked.len() > MAX_WANTED {
        return Err(Status::invalid_argument(format!("ask for at most {MAX_WANTED} capabilities")));
    }
    let asked: Result<BTreeSet<Capability>, _> =
        asked.iter().map(|text| Capability::new(text)).collect();
    let asked = asked.map_err(|error| Status::invalid_argument(error.to_string()))?;
    let allowed = |wanted: &Capability| agent.allowed.iter().any(|own| own.covers(wanted));
    let refused: Vec<&str> =
        asked.iter().filter(|wanted| !allowed(wanted)).map(Capability::as_str).collect();
    if refused.is_empty() {
        return Ok(asked);
    }
    Err(Status::permission_denied(format!(
        "the key of `{}` does not allow `{}`; ask for less, or change its `capabilities`",
        agent.name,
        refused.join("`, `")
    )))
}
