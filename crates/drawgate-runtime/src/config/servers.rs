//! `[servers.NAME]`: the servers whose tools the gateway offers.

use std::collections::BTreeMap;

use drawgate_core::model::{Capability, McpToolSpec};
use drawgate_host::sandbox::Profile;
use drawgate_sources::Kinds;
use drawgate_sources::server::{Connection, DeclaredRole, ServerSettings};
use drawgate_sources::setting::MASK;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::execution::Permissions;
use super::formats::{CapabilityText, PolicyAction};
use super::oauth::OAuth;
use super::setting::is_key_shaped;

/// A server whose tools the gateway offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct Server {
    /// How it is reached.
    #[serde(flatten)]
    pub connection: Connection,
    /// What the program may touch, for `stdio`. Absent: `workspace`, which is a folder of its own,
    /// the system's programs and no network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Profile>,
    /// What the sandbox opens beside that, for `stdio`. Files that `args` name may be read anyway.
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    /// How to log in at it, where `drawgate servers login` needs help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuth>,
    /// Whether it is used.
    pub enabled: bool,
    /// How its tools are named towards callers.
    pub names: Names,
    /// What becomes of definitions of tools that nobody has accepted.
    pub trust: Trust,
    /// Who decides whether the arguments of a call fit the tool's schema.
    pub validation: Validation,
    /// What becomes of the annotations that it sends about its tools.
    pub annotations: ServerAnnotations,
    /// What a caller needs for all of its tools. With none, they are for the local user, and for agents
    /// that are granted `source.NAME`; `public` opens them to every agent that has a token.
    #[schemars(with = "Vec<CapabilityText>")]
    pub capabilities: Vec<Capability>,
    /// What it is for, in your words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Limits of its calls.
    #[serde(flatten)]
    pub limits: CallLimits,
    /// Most calls under way at a time. Absent: no limit of its own.
    #[schemars(range(min = 1, max = 1_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Settings for single tools, by the name that the server gives them, and for operations beside
    /// tools: `@resources/read`, `@resources/subscribe`, `@resources/unsubscribe`, `@prompts/get`,
    /// `@completion/complete` and `@logging/setLevel`.
    #[schemars(extend("propertyNames" = {"format": "tool-or-operation"}))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSettings>,
    /// The keys that only its protocol has.
    #[serde(flatten)]
    #[schemars(skip)]
    pub own: Map<String, Value>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            connection: Connection::default(),
            sandbox: None,
            permissions: Permissions::default(),
            oauth: None,
            enabled: true,
            names: Names::Qualified,
            trust: Trust::Pin,
            validation: Validation::Schema,
            annotations: ServerAnnotations::Tighten,
            capabilities: Vec::new(),
            description: None,
            limits: CallLimits::default(),
            concurrency: None,
            protocol: Protocol::default(),
            tools: BTreeMap::new(),
            own: Map::new(),
        }
    }
}

impl Server {
    /// What its process or connection is made from: everything but the operator's terms for its
    /// tools, which can change while it runs.
    #[must_use]
    pub fn without_terms(&self, kinds: Kinds) -> Self {
        let defaults = Self::default();
        let mut own = self.own.clone();
        if let Some(declared) = self.settings(kinds).ok().as_ref().and_then(|it| it.declared())
            && declared.role == DeclaredRole::Terms
        {
            own.shift_remove(declared.key);
        }
        Self {
            own,
            names: defaults.names,
            trust: defaults.trust,
            validation: defaults.validation,
            annotations: defaults.annotations,
            capabilities: defaults.capabilities,
            description: None,
            limits: CallLimits::default(),
            concurrency: None,
            tools: defaults.tools,
            ..self.clone()
        }
    }

    /// The keys of its protocol, read.
    pub fn settings(&self, kinds: Kinds) -> serde_json::Result<Box<dyn ServerSettings>> {
        let protocol = &self.protocol.0;
        let kind = kinds.server(protocol).ok_or_else(|| {
            serde_json::Error::custom(format!("unknown protocol `{}`", protocol.escape_debug()))
        })?;
        kind.read(&self.own)
    }

    /// The tools that the configuration itself defines, and what they are to the server.
    pub fn declared_tools(
        &self,
        kinds: Kinds,
    ) -> serde_json::Result<(Vec<McpToolSpec>, DeclaredRole)> {
        let settings = self.settings(kinds)?;
        let Some(declared) = settings.declared() else {
            return Ok((Vec::new(), DeclaredRole::Terms));
        };
        let tools = declared.items.iter().map(McpToolSpec::deserialize);
        Ok((tools.collect::<Result<_, _>>()?, declared.role))
    }

    /// Fills in the defaults of its protocol's keys.
    pub(super) fn fill_in(&mut self, kinds: Kinds) {
        if let Ok(settings) = self.settings(kinds) {
            self.own = settings.keys();
        }
    }

    /// Hides what should have been a reference in the places that are printed.
    pub(super) fn mask_secrets(&mut self) {
        for arg in &mut self.connection.args {
            if is_key_shaped(arg.rsplit('=').next().unwrap_or(arg)) {
                MASK.clone_into(arg);
            }
        }
        if self.connection.url.as_deref().is_some_and(has_user_info) {
            self.connection.url = Some(MASK.to_owned());
        }
    }
}

/// Whether a URL carries a user name or password.
pub(super) fn has_user_info(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    authority.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// How a server's tools are named towards callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Names {
    /// `server__tool`: never in conflict with another server's.
    Qualified,
    /// The tool's own name, which must then be unique in the gateway.
    Flat,
}

/// What becomes of definitions of tools that nobody has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Those of the first time are trusted. What changes or comes later is kept from callers until
    /// it is accepted with `drawgate servers review`.
    Pin,
    /// Whatever the server says is offered at once.
    Follow,
    /// Everything is kept from callers until it is accepted, from the first time on.
    Review,
}

/// Who decides whether the arguments of a call fit a tool's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Validation {
    /// The gateway: arguments that do not fit never reach the server.
    Schema,
    /// The server, which may accept more than its schema says. Rules that deny or ask by arguments then
    /// hold for all arguments that do not fit, and rules that allow by them do not.
    Server,
}

/// What becomes of the annotations that a server sends about its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerAnnotations {
    /// Those that only restrict a tool count: `requiresConfirmation: true`, `requiredScopes`, and
    /// `policyAction` for rules that deny or ask.
    Tighten,
    /// Clients see them, and they decide nothing.
    Ignore,
}

/// What a server speaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Protocol(pub(super) String);

impl Protocol {
    /// The word in the file.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Protocol {
    fn default() -> Self {
        Self("mcp".to_owned())
    }
}

/// Settings for one tool. What stands here wins over what the server says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct ToolSettings {
    /// What a caller needs for this tool, instead of what the server's table says.
    #[schemars(with = "Vec<CapabilityText>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// Whether the tool is offered. Absent: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Another sandbox than the toolpack asks for; `none` for no sandbox at all. For tools of
    /// toolpacks that are commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Profile>,
    /// Limits of its calls.
    #[serde(flatten)]
    pub limits: CallLimits,
    /// Whether a person must confirm each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requires_confirmation: Option<bool>,
    /// The policy action that the tool performs, such as `file.write`.
    #[schemars(with = "Option<PolicyAction>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_action: Option<String>,
    /// Whether a call may be repeated safely, so that the gateway may retry it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// A description that replaces the server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Limits of the calls of a server or of one tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CallLimits {
    /// Seconds that a call may take. Absent: what the server's table says, or
    /// `limits.timeout_seconds`.
    #[schemars(range(min = 1, max = 86_400))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Bytes of output that are passed on whole. Absent: what the server's table says, or
    /// `limits.max_output_bytes`.
    #[schemars(range(min = 256, max = 1_073_741_824))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<usize>,
    /// Lines of output that are passed on whole. Absent: what the server's table says, or
    /// `limits.max_output_lines`.
    #[schemars(range(min = 1, max = 100_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_lines: Option<usize>,
}
