//! What a caller says about its own call, beside the tool and the arguments. It can only take away:
//! fewer grants, more redaction, less time. One form and one set of bounds for every surface.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ErrorCode, GrantId, ToolError, ToolInvocation, shown_name};
use crate::redact::MAX_EXTRA_KEYS;

/// Prefix of the gateway's own members of a request's metadata. They are read by the gateway, and no
/// server gets them.
pub const OWN_META: &str = "drawgate/";

/// Grants that a call may name, and bytes of each id.
const MAX_GRANTS: usize = 256;
const MAX_GRANT_ID: usize = 256;
/// Bytes of a key that is redacted.
const MAX_REDACT_KEY: usize = 128;
/// Bytes of the id of a run, and of the caller's name for the call.
const MAX_RUN_ID: usize = 256;
const MAX_REQUEST_ID: usize = 256;

/// How a caller narrows a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Map<String, Value>")]
pub struct Narrowing {
    /// The only grants to use; see [`ToolInvocation::grant_ids`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_ids: Option<Vec<GrantId>>,
    /// Keys to redact in addition to the ones that always are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redact_keys: Vec<String>,
    /// The run that the call belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// A shorter limit than the tool's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl Narrowing {
    /// The same call, narrowed.
    #[must_use]
    pub fn of(self, call: ToolInvocation) -> ToolInvocation {
        let Self { grant_ids, redact_keys, run_id, timeout_ms } = self;
        ToolInvocation { run_id, grant_ids, redact_keys, timeout_ms, ..call }
    }
}

impl TryFrom<Map<String, Value>> for Narrowing {
    type Error = ToolError;

    /// Reads the JSON form. `null` is absent; a member that is unknown or of another type is an error
    /// that names it.
    fn try_from(members: Map<String, Value>) -> Result<Self, ToolError> {
        let mut read = Self::default();
        for (key, value) in members {
            if value.is_null() {
                continue;
            }
            match key.as_str() {
                "grantIds" => read.grant_ids = Some(texts(&key, value)?),
                "redactKeys" => read.redact_keys = texts(&key, value)?,
                "runId" => match value {
                    Value::String(id) => read.run_id = Some(id),
                    _ => return Err(invalid(&key, "must be a string")),
                },
                "timeoutMs" => match value.as_u64() {
                    Some(limit) => read.timeout_ms = Some(limit),
                    None => return Err(invalid(&key, "must be a whole number, 0 or more")),
                },
                _ => {
                    let known =
                        "is not known; use `grantIds`, `redactKeys`, `runId` or `timeoutMs`";
                    return Err(invalid(&shown_name(&key), known));
                }
            }
        }
        Ok(read)
    }
}

/// Refuses a call that narrows itself beyond the bounds, or by redaction that the operator forbids.
pub(crate) fn check(call: &ToolInvocation, redaction: bool) -> Result<(), ToolError> {
    if !redaction && !call.redact_keys.is_empty() {
        return Err(invalid("redactKeys", "is not allowed here; call without it"));
    }
    let ids = call.grant_ids.as_deref().unwrap_or_default();
    if ids.len() > MAX_GRANTS || ids.iter().any(|id| !fits(id, MAX_GRANT_ID)) {
        let bounds = format!("must have at most {MAX_GRANTS} ids of 1 to {MAX_GRANT_ID} bytes");
        return Err(invalid("grantIds", &bounds));
    }
    let redacts =
        |key: &String| fits(key, MAX_REDACT_KEY) && key.chars().any(char::is_alphanumeric);
    if call.redact_keys.len() > MAX_EXTRA_KEYS || !call.redact_keys.iter().all(redacts) {
        let bounds = format!(
            "must have at most {MAX_EXTRA_KEYS} keys of 1 to {MAX_REDACT_KEY} bytes, each with a \
             letter or a digit"
        );
        return Err(invalid("redactKeys", &bounds));
    }
    if call.request_id.len() > MAX_REQUEST_ID {
        return Err(invalid("requestId", &format!("must have at most {MAX_REQUEST_ID} bytes")));
    }
    if call.run_id.as_ref().is_some_and(|id| !fits(id, MAX_RUN_ID)) {
        return Err(invalid("runId", &format!("must have 1 to {MAX_RUN_ID} bytes")));
    }
    Ok(())
}

fn fits(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
}

fn texts<T: From<String>>(key: &str, value: Value) -> Result<Vec<T>, ToolError> {
    let wrong = || invalid(key, "must be an array of strings");
    let Value::Array(values) = value else { return Err(wrong()) };
    let text = |value| match value {
        Value::String(text) => Ok(text.into()),
        _ => Err(wrong()),
    };
    values.into_iter().map(text).collect()
}

/// The details tell programs that it was not an argument of the tool.
fn invalid(member: &str, why: &str) -> ToolError {
    ToolError::new(ErrorCode::InvalidArguments, format!("`{member}` {why}"))
        .with_details(json!({ "member": member }))
}

#[cfg(test)]
#[path = "narrowing_tests.rs"]
mod tests;
