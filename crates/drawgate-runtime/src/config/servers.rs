//! `[servers.NAME]`: the servers whose tools the gateway offers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use drawgate_core::model::{Capability, McpToolSpec};
use drawgate_host::sandbox::Profile;
use drawgate_sources::mcp::ClientRequest;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::execution::Permissions;
use super::formats::{CapabilityText, PolicyAction};
use super::oauth::OAuth;
use super::sections::Limits;
use super::setting::{MASK, Setting, is_key_shaped};

/// A server whose tools the gateway offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// How to reach it. Absent: `stdio` with `command`, `streamable_http` with `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// The program to start, for `stdio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments. They are passed as they are, without a shell.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Its environment, beside a small safe set. Write secrets as `env:NAME`.
    #[schemars(with = "BTreeMap<String, String>")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Setting>,
    /// The folder it starts in, and in the sandbox may write. Relative to this file's folder. Absent:
    /// a folder of its own in the data folder, or the gateway's with `sandbox = "none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<PathBuf>,
    /// What the program may touch, for `stdio`. Absent: `workspace`, which is a folder of its own,
    /// the system's programs and no network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Profile>,
    /// What the sandbox opens beside that, for `stdio`. Files that `args` name may be read anyway.
    #[serde(skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    /// Its address, for all transports but `stdio`; for `websocket` with `ws://` or `wss://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers sent with each request. Write secrets as `env:NAME`.
    #[schemars(with = "BTreeMap<String, String>")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Setting>,
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
    /// What a caller needs for all of its tools. With none, they are for the local user, and for agents
    /// that are granted `source.NAME`; `public` opens them to every agent that has a token.
    #[schemars(with = "Vec<CapabilityText>")]
    pub capabilities: Vec<Capability>,
    /// What it is for, in your words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Seconds that a call may take. Absent: `limits.timeout_seconds`.
    #[schemars(range(min = 1, max = 86_400))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Bytes of output that are passed on whole. Absent: `limits.max_output_bytes`.
    #[schemars(range(min = 256, max = 1_073_741_824))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<usize>,
    /// Lines of output that are passed on whole. Absent: `limits.max_output_lines`.
    #[schemars(range(min = 1, max = 100_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_lines: Option<usize>,
    /// Most calls under way at a time. Absent: no limit of its own.
    #[schemars(range(min = 1, max = 1_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// How long the server may take to start and shake hands; 30 unless set. A first start may have
    /// to download it.
    #[schemars(range(min = 1, max = 600))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timeout_seconds: Option<u64>,
    /// Seconds without calls after which the program is ended, for `stdio`; the next call starts it
    /// again. Absent: it keeps running.
    #[schemars(range(min = 1, max = 86_400))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_shutdown_seconds: Option<u64>,
    /// Whether clients share a connection to it.
    pub sessions: Sessions,
    /// What it may ask of those who call it: `elicitation`, `elicitation_url`, `roots`, `sampling`.
    /// Absent: `elicitation` and `roots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_requests: Option<Vec<ClientRequest>>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Its tools, for `protocol = "call"`: an array of tools, or a table with `tools`. Each has
    /// `name`, `description` and `inputSchema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Value>,
    /// Settings for single tools, by the name that the server gives them, and for operations beside
    /// tools: `@resources/read`, `@resources/subscribe`, `@resources/unsubscribe`, `@prompts/get`,
    /// `@completion/complete` and `@logging/setLevel`.
    #[schemars(extend("propertyNames" = {"format": "tool-or-operation"}))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSettings>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            transport: None,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            working_dir: None,
            sandbox: None,
            permissions: Permissions::default(),
            url: None,
            headers: BTreeMap::new(),
            oauth: None,
            enabled: true,
            names: Names::Qualified,
            trust: Trust::Pin,
            validation: Validation::Schema,
            capabilities: Vec::new(),
            description: None,
            timeout_seconds: None,
            max_output_bytes: None,
            max_output_lines: None,
            concurrency: None,
            start_timeout_seconds: None,
            idle_shutdown_seconds: None,
            sessions: Sessions::Shared,
            client_requests: None,
            protocol: Protocol::Mcp,
            manifest: None,
            tools: BTreeMap::new(),
        }
    }
}

impl Server {
    /// How to reach it: as set, else by which of `command` and `url` is there.
    #[must_use]
    pub fn transport(&self) -> Transport {
        match (self.transport, &self.url) {
            (Some(transport), _) => transport,
            (None, Some(_)) => Transport::StreamableHttp,
            (None, None) => Transport::Stdio,
        }
    }

    /// Whether something that is sent to it comes from the environment.
    #[must_use]
    pub fn uses_environment(&self) -> bool {
        let oauth = self.oauth.iter().flat_map(|oauth| [&oauth.client_secret, &oauth.private_key]);
        let settings = self.headers.values().chain(oauth.flatten());
        let url = self.url.as_deref().is_some_and(|url| url.starts_with("env:"));
        url || settings.into_iter().any(|setting| setting.variable().is_some())
    }

    /// What its process or connection is made from: everything but the operator's terms for its
    /// tools, which can change while it runs.
    #[must_use]
    pub fn without_terms(&self) -> Self {
        let defaults = Self::default();
        Self {
            names: defaults.names,
            trust: defaults.trust,
            validation: defaults.validation,
            capabilities: defaults.capabilities,
            description: None,
            timeout_seconds: None,
            max_output_bytes: None,
            max_output_lines: None,
            tools: defaults.tools,
            ..self.clone()
        }
    }

    /// The tools of `manifest`, for `protocol = "call"`.
    pub fn manifest_tools(&self) -> Result<Vec<McpToolSpec>, serde_json::Error> {
        self.manifest_items().iter().map(McpToolSpec::deserialize).collect()
    }

    /// The entries of `manifest`, in either of its two forms.
    pub(super) fn manifest_items(&self) -> &[Value] {
        let listed = self.manifest.as_ref().and_then(|given| given.get("tools").or(Some(given)));
        listed.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Hides what should have been a reference in the places that are printed.
    pub(super) fn mask_secrets(&mut self) {
        for arg in &mut self.args {
            if is_key_shaped(arg.rsplit('=').next().unwrap_or(arg)) {
                MASK.clone_into(arg);
            }
        }
        if self.url.as_deref().is_some_and(has_user_info) {
            self.url = Some(MASK.to_owned());
        }
    }
}

/// Whether a URL carries a user name or password.
pub(super) fn has_user_info(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    authority.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(transform = add_spellings)]
pub enum Transport {
    /// The gateway starts a program and speaks over its standard input and output.
    Stdio,
    /// HTTP, with answers as JSON or as a stream.
    #[serde(alias = "http", alias = "streamableHttp")]
    StreamableHttp,
    /// The older HTTP transport with server-sent events.
    Sse,
    /// WebSocket with the subprotocol `mcp`.
    Websocket,
}

impl Transport {
    /// The word in the file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::StreamableHttp => "streamable_http",
            Self::Sse => "sse",
            Self::Websocket => "websocket",
        }
    }
}

/// The derive knows nothing of `alias`, so that editors would refuse the other spellings.
fn add_spellings(schema: &mut Schema) {
    if let Some(Value::Array(variants)) = schema.get_mut("oneOf") {
        for spelling in ["http", "streamableHttp"] {
            let same = "The same as `streamable_http`.";
            variants.push(json!({ "description": same, "type": "string", "const": spelling }));
        }
    }
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

/// Whether clients share a connection to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sessions {
    /// All clients share one.
    Shared,
    /// Each client has its own, for servers that keep state for their client; at most 32, each ended
    /// after ten minutes without calls.
    PerClient,
}

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The Model Context Protocol; tools are discovered.
    Mcp,
    /// One JSON call in, one JSON result out; tools are listed in `manifest`.
    Call,
}

/// Settings for one tool. What stands here wins over what the server says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
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
    /// Seconds that a call may take.
    #[schemars(range(min = 1, max = 86_400))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
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
    /// Bytes of output that are passed on whole.
    #[schemars(range(min = 256, max = 1_073_741_824))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<usize>,
    /// Lines of output that are passed on whole.
    #[schemars(range(min = 1, max = 100_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_lines: Option<usize>,
}

/// The limits that hold for one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// How long a call may take.
    pub timeout: Duration,
    /// Bytes of output that are passed on whole.
    pub max_output_bytes: usize,
    /// Lines of output that are passed on whole; `None` for any number.
    pub max_output_lines: Option<usize>,
}

impl ToolLimits {
    pub(super) fn of(limits: &Limits, server: Option<&Server>, tool: &str) -> Self {
        let own = server.and_then(|server| server.tools.get(tool));
        let seconds = own.and_then(|own| own.timeout_seconds);
        let bytes = own.and_then(|own| own.max_output_bytes);
        let lines = own.and_then(|own| own.max_output_lines);
        let seconds = seconds.or_else(|| server?.timeout_seconds).unwrap_or(limits.timeout_seconds);
        let bytes = bytes.or_else(|| server?.max_output_bytes).unwrap_or(limits.max_output_bytes);
        let lines = lines.or_else(|| server?.max_output_lines).or(limits.max_output_lines);
        Self {
            timeout: Duration::from_secs(seconds.min(limits.max_timeout_seconds)),
            max_output_bytes: bytes,
            max_output_lines: lines,
        }
    }
}
