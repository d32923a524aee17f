//! What a gateway is and does, at a glance.

use std::path::PathBuf;

use drawgate_core::model::{SourceId, ToolGatewaySnapshot};
use drawgate_core::policy::ApprovalState;
use drawgate_core::registry::{SourceState, SourceStatus};
use drawgate_core::store::AuditHealth;
use serde::{Deserialize, Serialize};

use super::Operations;
use crate::edits::ConfigStatus;
use crate::profiles::ProfileState;

/// What a running gateway is, and what it does.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Since when it runs, in milliseconds since the epoch.
    pub since: u64,
    /// The address of its endpoint, if there is one.
    pub endpoint: Option<String>,
    /// Whether a client has started it, so that it ends with that client.
    #[serde(default)]
    pub for_client: bool,
    /// Its data folder, as an absolute path.
    pub data: PathBuf,
    /// How many tools can be called.
    pub tools: usize,
    /// How many calls are under way.
    pub calls_under_way: usize,
    /// The sequence of the newest audit event.
    pub audit_head: u64,
    /// What is wrong with the audit log, if something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_problem: Option<String>,
    /// Sources that do not work.
    pub failed: Vec<FailedSource>,
    /// What waits for a person.
    pub waiting: Waiting,
    /// The configuration in force, and what of it is not.
    pub configuration: ConfigStatus,
}

/// A source that does not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSource {
    /// The source.
    pub id: SourceId,
    /// Why.
    pub problem: String,
}

/// How much waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Calls that need approval.
    pub approvals: usize,
    /// Definitions of tools that changed or were added.
    pub definitions: usize,
    /// Profiles that are new or have changed.
    pub profiles: usize,
}

impl Operations {
    /// Every tool, every live grant, and the sequence of the newest audit event.
    #[must_use]
    pub fn snapshot(&self) -> ToolGatewaySnapshot {
        self.control.snapshot()
    }

    /// What the gateway is, and what it does.
    #[must_use]
    pub fn status(&self, endpoint: Option<String>, configuration: ConfigStatus) -> Status {
        let sources = self.supervisor.status();
        Status {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: self.started,
            endpoint,
            for_client: false,
            data: self.data.clone(),
            tools: self.gateway.registry().available().count(),
            calls_under_way: self.gateway.under_way(),
            audit_head: self.gateway.audit_head(),
            audit_problem: match self.audit.health() {
                AuditHealth::Ok => None,
                AuditHealth::Degraded { .. } => {
                    Some("it can't be written; new events are kept in memory".to_owned())
                }
                AuditHealth::Failed => Some("it can't be written; calls are refused".to_owned()),
            },
            waiting: self.waiting(&sources),
            failed: sources.into_iter().filter_map(|status| self.failed(status)).collect(),
            configuration,
        }
    }

    fn failed(&self, status: SourceStatus) -> Option<FailedSource> {
        let is_failed = matches!(status.state, SourceState::Failed | SourceState::Refused);
        let redactor = self.gateway.redactor();
        let problem =
            redactor.redact_text(status.problem.as_deref().unwrap_or_default()).into_owned();
        is_failed.then_some(FailedSource { id: status.id, problem })
    }

    fn waiting(&self, sources: &[SourceStatus]) -> Waiting {
        let approvals = self.gateway.approvals();
        let profiles = self.profiles.known();
        Waiting {
            approvals: approvals.iter().filter(|it| it.state == ApprovalState::Pending).count(),
            definitions: sources.iter().map(|source| source.quarantined.len()).sum(),
            profiles: profiles
                .iter()
                .filter(|it| matches!(it.state, ProfileState::New | ProfileState::Changed))
                .count(),
        }
    }
}
