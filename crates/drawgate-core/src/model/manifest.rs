//! How a source describes its tools.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{Capability, CapabilityGrant, Offer, SourceId, ToolId, shape};

/// One tool, as its author describes it. What protocols put on a tool beyond these
/// fields (`title`, `outputSchema`, `icons`, `_meta` …) is kept as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpToolSpec {
    /// The author's name for it.
    pub name: String,
    /// What it does, for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the arguments.
    #[schemars(with = "Map<String, Value>")]
    pub input_schema: Value,
    /// Hints and demands. Those that a server sent are not checked.
    #[schemars(with = "Option<ToolAnnotations>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Free data of the author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What is said about a tool, by who said it. Only what was written for Drawgate (a configuration, a
/// toolpack, a pack) is read as [`ToolAnnotations`]; other servers use the same words for other things.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Annotations {
    /// Written for Drawgate.
    Own(ToolAnnotations),
    /// Sent by a server: clients see it, the gate does not.
    Foreign(Map<String, Value>),
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ToolAnnotations::deserialize(deserializer).map(Self::Own)
    }
}

impl McpToolSpec {
    /// Reads a definition that a server sent. Its annotations are kept as they are, but for what
    /// makes clients refuse the whole list.
    pub fn foreign(mut definition: Value) -> Result<Self, serde_json::Error> {
        let mut annotations = None;
        if let Value::Object(members) = &mut definition {
            annotations = members.remove("annotations");
            if members.get("description").is_some_and(|text| !text.is_string()) {
                members.remove("description");
            }
        }
        let mut spec: Self = serde_json::from_value(definition)?;
        if let Some(Value::Object(mut said)) = annotations {
            shape::fit_members(shape::TOOL_ANNOTATIONS, &mut said);
            spec.annotations = Some(Annotations::Foreign(said));
        }
        Ok(spec)
    }

    /// This definition under an operator's one of the same tool: what that one says holds, and what it leaves open
    /// stays. Both are heard where they demand something of callers.
    #[must_use]
    pub fn held_to(self, declared: Self) -> Self {
        let annotations = match (self.annotations, declared.annotations) {
            (Some(said), Some(Annotations::Own(own))) => Some(Annotations::Own(own.over(said))),
            (said, declared) => declared.or(said),
        };
        let mut rest = self.rest;
        rest.extend(declared.rest);
        let metadata = declared.metadata.or(self.metadata);
        Self { annotations, metadata, rest, ..declared }
    }

    /// What the author says to Drawgate.
    #[must_use]
    pub fn own_annotations(&self) -> Option<&ToolAnnotations> {
        match &self.annotations {
            Some(Annotations::Own(own)) => Some(own),
            Some(Annotations::Foreign(_)) | None => None,
        }
    }
}

/// Hints about a tool that protocols define, which are true or false.
pub const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

/// What an author says about a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Hints that protocols define.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl ToolAnnotations {
    /// These, and what others demand or add about the same tool.
    fn over(self, others: Annotations) -> Self {
        let others = match others {
            Annotations::Own(own) => own,
            Annotations::Foreign(said) => Self::of_server(said),
        };
        let scopes = [self.required_scopes, others.required_scopes];
        let mut scopes: Vec<Capability> = scopes.into_iter().flatten().flatten().collect();
        scopes.sort();
        scopes.dedup();
        let mut rest = others.rest;
        rest.extend(self.rest);
        let confirms =
            [self.requires_confirmation, others.requires_confirmation].contains(&Some(true));
        Self {
            category: self.category.or(others.category),
            requires_confirmation: confirms.then_some(true).or(self.requires_confirmation),
            read_only: self.read_only.or(others.read_only),
            concurrency: self.concurrency.or(others.concurrency),
            estimated_duration: self.estimated_duration.or(others.estimated_duration),
            required_scopes: (!scopes.is_empty()).then_some(scopes),
            policy_action: self.policy_action.or(others.policy_action),
            rest,
        }
    }

    /// The first annotation that neither Drawgate nor a protocol defines.
    #[must_use]
    pub fn unknown(&self) -> Option<&str> {
        let is_hint = |key: &&str| *key == "title" || HINTS.contains(key);
        self.rest.keys().map(String::as_str).find(|key| !is_hint(key))
    }

    /// What a server says: its demands, and hints that protocols define.
    pub(crate) fn of_server(said: Map<String, Value>) -> Self {
        let scopes = said.get("requiredScopes").and_then(Value::as_array).into_iter().flatten();
        let scopes = scopes.filter_map(|scope| Capability::new(scope.as_str()?).ok());
        let is_hint = |key: &String| key == "title" || HINTS.contains(&key.as_str());
        Self {
            requires_confirmation: said.get("requiresConfirmation").and_then(Value::as_bool),
            required_scopes: Some(scopes.collect()),
            rest: said.into_iter().filter(|(key, _)| is_hint(key)).collect(),
            ..Self::default()
        }
    }
}

/// The kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Concurrency {
    /// They may.
    Parallel,
    /// One at a time.
    Exclusive,
}

/// How long a tool takes, roughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolGatewaySnapshot {
    /// Every tool, ordered by source, then name.
    pub tools: Vec<ToolRegistryEntry>,
    /// Every live grant.
    pub grants: Vec<CapabilityGrant>,
    /// The sequence of the newest audit event.
    pub audit_cursor: u64,
}
