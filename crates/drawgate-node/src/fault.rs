//! Why something was not done, as JavaScript throws it: a code, a sentence, details.

use std::time::Duration;

use drawgate_core::acts::ActError;
use drawgate_core::model::ErrorCode;
use drawgate_core::policy::{ApprovalError, GrantError};
use drawgate_core::registry::RegistrationError;
use drawgate_core::store::StoreError;
use drawgate_host::store::DataDirError;
use drawgate_runtime::config::{ConfigErrors, Problem};
use drawgate_runtime::operations::OperationError;
use serde::Serialize;
use serde_json::{Value, json};

use crate::registered::bad_tool;

/// Why something was not done.
#[derive(Debug, Serialize)]
pub(crate) struct Fault {
    code: ErrorCode,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
}

/// What a method of the native class returns: `{"ok": …}` or `{"error": …}`.
pub(crate) fn text(result: Result<Value, Fault>) -> String {
    match result {
        Ok(value) => json!({ "ok": value }).to_string(),
        Err(fault) => json!({ "error": fault }).to_string(),
    }
}

impl Fault {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None }
    }

    /// Something that JavaScript gave is not what it should be.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ValidationError, message)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorCode::Unavailable, "the gateway is closed")
    }

    pub(crate) fn timeout(limit: Duration) -> Self {
        let message = format!("it takes longer than {} s, and goes on meanwhile", limit.as_secs());
        Self::new(ErrorCode::Timeout, message)
    }

    pub(crate) fn internal() -> Self {
        Self::new(ErrorCode::ExecutionFailed, "the gateway failed inside")
    }

    /// Everything that is wrong with what was given: objects with a `reason`.
    pub(crate) fn of_faults(faults: &[Value]) -> Self {
        let reasons = faults.iter().filter_map(|fault| fault["reason"].as_str());
        let message = reasons.collect::<Vec<_>>().join("; ");
        Self::invalid(message).with(json!({ "faults": faults }))
    }

    pub(crate) fn with(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }
}

/// Reads what JavaScript gave. `what` names it in the message.
pub(crate) fn read<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| {
        // Where in the text it is means nothing to somebody who wrote an object.
        let message = error.to_string();
        let reason = message.split(" at line ").next().unwrap_or_default();
        Fault::invalid(format!("{what}: {reason}"))
    })
}

impl From<ConfigErrors> for Fault {
    fn from(errors: ConfigErrors) -> Self {
        let problems: Vec<Problem> =
            errors.problems.into_iter().filter(Problem::is_error).collect();
        let shown = problems.iter().map(|problem| {
            let hint = problem.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
            let key =
                if problem.key.is_empty() { String::new() } else { format!("{}: ", problem.key) };
            format!("{key}{}{hint}", problem.message)
        });
        let message = shown.collect::<Vec<_>>().join("\n");
        Self::invalid(message).with(json!({ "problems": problems }))
    }
}

impl From<RegistrationError> for Fault {
    fn from(error: RegistrationError) -> Self {
        let message = error.to_string();
        match error {
            RegistrationError::Refused { faults, taken } => {
                let code = if faults.is_empty() {
                    ErrorCode::Conflict
                } else {
                    ErrorCode::ValidationError
                };
                let faults: Vec<Value> = faults.iter().map(bad_tool).collect();
                let names: Vec<_> = taken.iter().map(|it| it.name.as_str()).collect();
                Self::new(code, message).with(json!({ "faults": faults, "names": names }))
            }
            RegistrationError::SourceTaken(_) | RegistrationError::Reserved(_) => {
                Self::new(ErrorCode::Conflict, message)
            }
            RegistrationError::ForeignManifest { .. } => Self::invalid(message),
        }
    }
}

impl From<OperationError> for Fault {
    fn from(error: OperationError) -> Self {
        let code = match &error {
            OperationError::Grant(GrantError::Unknown(_))
            | OperationError::Approval(ApprovalError::Unknown(_))
            | OperationError::UnknownArtifact(_)
            | OperationError::UnknownGrantee(_) => ErrorCode::ResourceNotFound,
            OperationError::Approval(ApprovalError::Settled { .. })
            | OperationError::GrantExists(_)
            | OperationError::Act(ActError::Conflict(_))
            | OperationError::ConfiguredGrant(_) => ErrorCode::Conflict,
            OperationError::Act(_) | OperationError::Store(_) => ErrorCode::Unavailable,
            _ => ErrorCode::ValidationError,
        };
        Self::new(code, with_causes(&error))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::new(ErrorCode::Unavailable, error.to_string())
    }
}

/// A gateway that can't be opened, or a configuration that can't be put into force.
impl From<anyhow::Error> for Fault {
    fn from(error: anyhow::Error) -> Self {
        let code = match error.downcast_ref::<DataDirError>() {
            Some(DataDirError::Locked { .. }) => ErrorCode::Conflict,
            Some(_) | None => ErrorCode::Unavailable,
        };
        Self::new(code, format!("{error:#}"))
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
