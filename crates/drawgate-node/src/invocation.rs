//! A call as JavaScript gives it.

use drawgate_core::clock::Ids;
use drawgate_core::model::{GrantId, ToolInvocation};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A call as JavaScript gives it. A key that is not known is refused: a misspelt `grantIds` would mean all
/// grants.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Invocation {
    tool_id: String,
    request_id: Option<String>,
    run_id: Option<String>,
    #[serde(default)]
    arguments: Map<String, Value>,
    grant_ids: Option<Vec<GrantId>>,
    #[serde(default)]
    redact_keys: Vec<String>,
    timeout_ms: Option<u64>,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Value>,
    /// Whether the caller listens to progress. Set by the public class.
    #[serde(default, rename = "$progress")]
    pub(crate) progress: bool,
}

impl Invocation {
    pub(crate) fn into_call(self, ids: &dyn Ids) -> ToolInvocation {
        ToolInvocation {
            tool_id: self.tool_id,
            request_id: self.request_id.unwrap_or_else(|| format!("node-{}", ids.unique())),
            run_id: self.run_id,
            arguments: self.arguments,
            grant_ids: self.grant_ids,
            redact_keys: self.redact_keys,
            timeout_ms: self.timeout_ms,
            meta: self.meta,
            ..ToolInvocation::default()
        }
    }
}
