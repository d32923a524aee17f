//! Failures of operations as answers, with the command that helps.

use axum::Json;
use axum::response::{IntoResponse, Response};
use drawgate_agents::runs::StartError;
use drawgate_agents::runs::programs::NoProgram;
use drawgate_core::policy::{ApprovalError, GrantError};
use drawgate_core::registry::ReviewError;
use drawgate_runtime::operations::OperationError;
use drawgate_runtime::peers::KeyExists;
use drawgate_runtime::toolpacks::{Code, ToolpackError};
use http::StatusCode;
use serde::{Deserialize, Serialize};

/// A refusal, as the command line shows it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The sentence.
    pub error: String,
}

/// An operation that was not done.
pub(super) struct Failure(OperationError);

impl<E: Into<OperationError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match &self.0 {
            OperationError::Review(ReviewError::ChangedAgain(_)) => StatusCode::CONFLICT,
            _ => StatusCode::BAD_REQUEST,
        };
        let advice = advice(&self.0).map(|advice| format!("; {advice}")).unwrap_or_default();
        let error = anyhow::Error::from(self.0);
        (status, Json(Refused { error: format!("{error:#}{advice}") })).into_response()
    }
}

/// The command that helps with an error.
#[expect(clippy::too_many_lines, reason = "a table with a row for each error")]
fn advice(error: &OperationError) -> Option<String> {
    let shows = |command: &str| Some(format!("`drawgate {command} list` shows them"));
    match error {
        OperationError::UnknownAgent(_) => shows("agents"),
        OperationError::UnknownGrantee(name) => Some(format!(
            "`drawgate agents list` and `drawgate keys list` show them, `drawgate agents add {name}` adds one"
        )),
        OperationError::AgentExists(name) => {
            Some(format!("`drawgate agents rotate {name}` gives it a new token"))
        }
        OperationError::KeyExists(KeyExists { purpose, name, fingerprint, .. }) => {
            Some(format!("`drawgate keys remove {fingerprint} --{purpose} {name}` takes it out"))
        }
        OperationError::UnknownKey => shows("keys"),
        OperationError::UnknownPack(_) => Some("`drawgate packs list` shows those that are".into()),
        OperationError::UnknownProvider(_) => shows("providers"),
        OperationError::UnknownArtifact(_) => shows("artifacts"),
        OperationError::UnknownProfile(_) | OperationError::ProfileNotAccepted(_) => {
            shows("profiles")
        }
        OperationError::ProfileWaits(name) => {
            Some(format!("`drawgate profiles accept {name}` shows what it may do, and accepts it"))
        }
        OperationError::ProvidersWithheld(_) => {
            Some("start the gateway, or this command, with `--config FILE`".to_owned())
        }
        OperationError::UnknownRun(_) => shows("runs"),
        OperationError::UnknownThread(_) => shows("threads"),
        OperationError::NotRunning(id) => {
            Some(format!("`drawgate runs show {id}` shows how it ended"))
        }
        OperationError::ProfileUnusable(name) => {
            Some(format!("`drawgate profiles show {name}` shows why"))
        }
        OperationError::Run(StartError::Program(NoProgram::NotServed(_))) => {
            Some("`drawgate serve` starts a gateway".to_owned())
        }
        OperationError::Approval(ApprovalError::Unknown(_)) => shows("approvals"),
        OperationError::Grant(GrantError::Unknown(_)) => shows("grants"),
        OperationError::Review(ReviewError::NoServer(_)) => shows("servers"),
        OperationError::Toolpack(error) => toolpack_advice(error),
        OperationError::NameIsLocal
        | OperationError::NotResumable(_)
        | OperationError::Run(_)
        | OperationError::NameIsReserved(_)
        | OperationError::ConfiguredGrant(_)
        | OperationError::NotOperator
        | OperationError::UnknownPurpose
        | OperationError::NoKeySelected
        | OperationError::NotLoggedIn(_)
        | OperationError::NoLogin(_)
        | OperationError::ToolpackChanged
        | OperationError::ProfileChanged(_)
        | OperationError::ToolpackConflict { .. }
        | OperationError::ToolpackId(_)
        | OperationError::Name(_)
        | OperationError::Capability(_)
        | OperationError::Scope(_)
        | OperationError::Approval(_)
        | OperationError::Grant(_)
        | OperationError::Review(_)
        | OperationError::Login(_)
        | OperationError::LoginFailed(_)
        | OperationError::Act(_)
        | OperationError::Store(_)
        | OperationError::Other(_) => None,
    }
}

/// The command or option that helps with an error about a toolpack.
#[must_use]
pub fn toolpack_advice(error: &ToolpackError) -> Option<String> {
    match (error, error.code()) {
        (ToolpackError::Moved { id, .. }, _) => {
            Some(format!("`drawgate toolpacks update {id}` shows what is different"))
        }
        (_, Some(Code::Downgrade)) => Some("use `--allow-downgrade` if you want it".to_owned()),
        _ => None,
    }
}
