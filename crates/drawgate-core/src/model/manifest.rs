//! How a source describes its tools.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Capability, CapabilityGrant, Offer, SourceId, ToolId};

/// One tool, as its author describes it. What the MCP specification puts on a tool beyond these
/// fields (`title`, `outputSchema`, `icons`, `_meta` …) stays in `rest`, untouched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpToolSpec {
    /// The author's name for it.
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Hints and demands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Free data of the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What an author says about a tool. From a remote server it may tighten, never loosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// The kind of tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<Category>,
    /// A person must confirm each call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_confirmation: Option<bool>,
    /// It changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether calls may run side by side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// How long it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_duration: Option<EstimatedDuration>,
    /// Capabilities that a caller needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_scopes: Option<Vec<Capability>>,
    /// The policy action that it performs; a caller needs it as a capability too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_action: Option<String>,
    /// The MCP specification's own hints, and what a server adds.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Part of the runtime.
    Core,
    /// Looks things up.
    Knowledge,
    /// Acts outside.
    External,
    /// Talks to somebody.
    Communication,
    /// Steers agents.
    Control,
}

/// Whether calls of a tool may run side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// They may.
    Parallel,
    /// One at a time.
    Exclusive,
}

/// How long a tool takes, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EstimatedDuration {
    /// No time at all.
    Instant,
    /// Under a second.
    Fast,
    /// Seconds.
    Medium,
    /// Longer.
    Slow,
}

/// A source's description of itself and its tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct McpManifest {
    /// The source.
    pub server_id: SourceId,
    /// Its name for people.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its tools.
    pub tools: Vec<McpToolSpec>,
    /// What it offers beside tools.
    #[serde(default)]
    pub offer: Offer,
}

/// A registered tool, as a list shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRegistryEntry {
    /// `source:tool`.
    pub tool_id: ToolId,
    /// The source.
    pub server_id: SourceId,
    /// The name that models see.
    pub wire_name: super::WireName,
    /// What a caller needs.
    pub requires: Vec<Capability>,
    /// The definition.
    pub tool: McpToolSpec,
}

/// The state of the gate at a moment.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolGatewaySnapshot {
    /// Every tool, ordered by source, then name.
    pub tools: Vec<ToolRegistryEntry>,
    /// Every live grant.
    pub grants: Vec<CapabilityGrant>,
    /// The sequence of the newest audit event.
    pub audit_cursor: u64,
}
