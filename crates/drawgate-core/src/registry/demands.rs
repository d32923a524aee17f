//! What a running server's own annotations demand of its callers.
//!
//! A server is not trusted to describe its tools, but what only makes them harder to call counts, whichever server says
//! it. An operator may switch that off for a server.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::SourceTerms;
use crate::model::{Annotations, Capability, McpToolSpec, ToolAnnotations};

/// What becomes of the annotations that a server sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ServerAnnotations {
    /// Those that only restrict a tool count.
    #[default]
    Tighten,
    /// They are shown to clients and decide nothing.
    Ignore,
}

/// What the annotations that a server sent demand of callers of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerDemands {
    /// Whether that counts.
    pub in_force: bool,
    /// A person must confirm each call.
    pub requires_confirmation: bool,
    /// Capabilities that a caller needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_scopes: Vec<Capability>,
    /// The policy action, for rules that deny or ask. A caller needs it as a capability too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_action: Option<String>,
}

impl ServerDemands {
    /// What a definition demands that a server sent; `None` if nothing.
    pub(super) fn of(spec: &McpToolSpec, terms: &SourceTerms) -> Option<Self> {
        let Some(Annotations::Foreign(said)) = &spec.annotations else { return None };
        let ToolAnnotations { requires_confirmation, required_scopes, .. } =
            ToolAnnotations::of_server(said.clone());
        let action = said.get("policyAction").and_then(Value::as_str);
        let demands = Self {
            in_force: terms.annotations == ServerAnnotations::Tighten,
            requires_confirmation: requires_confirmation == Some(true),
            required_scopes: required_scopes.unwrap_or_default(),
            policy_action: action
                .filter(|action| terms.actions.contains(*action))
                .map(str::to_owned),
        };
        let is_any = demands.requires_confirmation
            || !demands.required_scopes.is_empty()
            || demands.policy_action.is_some();
        is_any.then_some(demands)
    }

    /// The same as annotations, as far as they count.
    pub(super) fn annotations(&self) -> ToolAnnotations {
        if !self.in_force {
            return ToolAnnotations::default();
        }
        ToolAnnotations {
            requires_confirmation: self.requires_confirmation.then_some(true),
            required_scopes: Some(self.required_scopes.clone()),
            policy_action: self.policy_action.clone(),
            ..ToolAnnotations::default()
        }
    }
}
