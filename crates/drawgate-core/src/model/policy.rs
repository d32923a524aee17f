//! What policy decided about a call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The three answers of policy, mildest first: verdicts combine to the strictest.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call goes on.
    Allow,
    /// A person must say yes first.
    AllowWithConfirm,
    /// The call is refused.
    Deny,
}

impl Verdict {
    /// As in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::AllowWithConfirm => "allow_with_confirm",
            Self::Deny => "deny",
        }
    }
}

impl RiskTag {
    /// As in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Overwrite => "overwrite",
            Self::Network => "network",
            Self::Connector => "connector",
            Self::Batch => "batch",
        }
    }
}

/// What makes a call risky, for the person who is asked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum RiskTag {
    /// Something is removed.
    Delete,
    /// Something is replaced.
    Overwrite,
    /// Something leaves the machine.
    Network,
    /// A third party's service acts.
    Connector,
    /// Many things at once.
    Batch,
}

/// The decision about one call, as it stands in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDecision {
    /// The answer.
    pub decision: Verdict,
    /// Whether a person was or must be asked.
    pub requires_confirmation: bool,
    /// Why, in words.
    pub reason: String,
    /// What makes it risky.
    #[serde(default)]
    pub risk_tags: Vec<RiskTag>,
    /// The rule that decided, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<String>,
}
