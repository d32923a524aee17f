//! A server in configuration: how it is reached, which is the same for every kind, and what a kind
//! adds to that.
//!
//! A kind that servers can have implements [`ServerKind`]. Its sources are made from the one
//! description [`ServerConfig`], whether an operator or a toolpack wrote it.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_core::source::ToolSource;
use drawgate_host::Host;
use drawgate_host::egress::Reach;
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::Profile;
use drawgate_host::secrets::Secrets;
use http::{HeaderMap, Uri};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::configure::{headers, is_reserved, reach, spawn, unused, uri, websocket_uri};
use crate::confine::{SandboxConfig, profile};
use crate::kind::ConfigError;
use crate::setting::Setting;

/// How a server is reached: as a program that the gateway starts, or at an address.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Connection {
    /// How to reach it. Absent: `stdio` with `command`, `streamable_http` with `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// The program to start, for `stdio`.
    #[schemars(extend("format" = "program"))]
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
    #[schemars(extend("format" = "writable-path"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<PathBuf>,
    /// Its address, for all transports but `stdio`; for `websocket` with `ws://` or `wss://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers sent with each request. Write secrets as `env:NAME`.
    #[schemars(with = "BTreeMap<String, String>")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Setting>,
}

impl Connection {
    /// How to reach it: as set, else by which of `command` and `url` is there.
    #[must_use]
    pub fn transport(&self) -> Transport {
        match (self.transport, &self.url) {
            (Some(transport), _) => transport,
            (None, Some(_)) => Transport::StreamableHttp,
            (None, None) => Transport::Stdio,
        }
    }
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

/// A server as a source is made for it: how it is reached, and what it is held to.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ServerConfig {
    /// How it is reached; paths are absolute.
    #[serde(flatten)]
    pub connection: Connection,
    /// What its program is held to. Absent: nothing but the gateway's own rights.
    pub sandbox: Option<SandboxConfig>,
    /// Hosts that it may be at, if the operator did not write the address. A name is then
    /// meant where its address is public.
    pub hosts: Option<Vec<String>>,
}

/// A server with its references to the environment followed.
pub(crate) enum Endpoint {
    Program(Spawn),
    Http(Address),
    Sse(Address),
    Websocket(Address),
}

/// A server on the network.
pub(crate) struct Address {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) reach: Reach,
}

impl Endpoint {
    /// The sandbox profile of a server that is a program.
    pub(crate) fn profile(&self) -> Option<Profile> {
        match self {
            Self::Program(spawn) => Some(profile(spawn)),
            Self::Http(_) | Self::Sse(_) | Self::Websocket(_) => None,
        }
    }
}

impl ServerConfig {
    pub(crate) fn endpoint(self, secrets: &Secrets) -> Result<Endpoint, ConfigError> {
        Ok(match self.connection.transport() {
            Transport::Stdio => Endpoint::Program(self.program(secrets)?),
            Transport::StreamableHttp => Endpoint::Http(self.address(secrets, uri)?),
            Transport::Sse => Endpoint::Sse(self.address(secrets, uri)?),
            Transport::Websocket => Endpoint::Websocket(self.address(secrets, websocket_uri)?),
        })
    }

    fn program(self, secrets: &Secrets) -> Result<Spawn, ConfigError> {
        const WHY: &str = "a server with transport `stdio` is a program";
        let written = self.connection;
        unused("url", written.url.is_some(), WHY)?;
        unused("headers", !written.headers.is_empty(), WHY)?;
        unused("hosts", self.hosts.is_some(), WHY)?;
        let command = written.command.ok_or(ConfigError::Missing { field: "command", why: WHY })?;
        let spawn = spawn(&command, &written.args, &written.env, written.working_dir, secrets)?;
        let confinement = self.sandbox.as_ref().map(SandboxConfig::confinement).transpose()?;
        Ok(Spawn { confinement, ..spawn })
    }

    fn address(
        self,
        secrets: &Secrets,
        read: fn(&str, &Secrets) -> Result<Uri, ConfigError>,
    ) -> Result<Address, ConfigError> {
        const WHY: &str = "a server with another transport than `stdio` is reached by its `url`";
        let written = self.connection;
        unused("command", written.command.is_some(), WHY)?;
        unused("args", !written.args.is_empty(), WHY)?;
        unused("env", !written.env.is_empty(), WHY)?;
        unused("working_dir", written.working_dir.is_some(), WHY)?;
        unused("sandbox", self.sandbox.is_some(), WHY)?;
        let url = written.url.ok_or(ConfigError::Missing { field: "url", why: WHY })?;
        let uri = read(&url, secrets)?;
        let reach = reach(&uri, self.hosts.as_deref())?;
        let given = written.headers.iter().map(|(name, value)| (name.as_str(), value.expose()));
        Ok(Address { uri, headers: headers(given, is_reserved, secrets)?, reach })
    }
}

/// A kind of source that `[servers.NAME]` can describe, by `protocol`.
///
/// An implementer reads the keys that it adds to those of every server, says what is wrong with
/// them, and makes the source.
pub trait ServerKind: Sync {
    /// The word that stands for it in `protocol`.
    fn protocol(&self) -> &'static str;

    /// What such a server speaks, as the description of that word in the JSON Schema.
    fn description(&self) -> &'static str;

    /// The JSON Schema of an object with its own keys.
    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;

    /// Reads its own keys, which have passed the schema.
    fn read(&self, keys: &Map<String, Value>) -> serde_json::Result<Box<dyn ServerSettings>>;

    /// Whether its servers can ask for an OAuth login.
    fn has_logins(&self) -> bool {
        false
    }
}

impl dyn ServerKind {
    /// The JSON Schemas of its own keys.
    #[must_use]
    pub fn properties(&self) -> Map<String, Value> {
        let schema = self.schema(&mut SchemaGenerator::default());
        let properties = schema.get("properties").and_then(Value::as_object);
        properties.cloned().unwrap_or_default()
    }
}

/// A kind whose own keys are the fields of `K`.
pub struct KeyedKind<K> {
    protocol: &'static str,
    description: &'static str,
    has_logins: bool,
    keys: PhantomData<fn() -> K>,
}

impl<K> KeyedKind<K> {
    /// A kind by its word in `protocol` and the description of that word.
    #[must_use]
    pub const fn new(protocol: &'static str, description: &'static str) -> Self {
        Self { protocol, description, has_logins: false, keys: PhantomData }
    }

    /// The same kind, whose servers can ask for an OAuth login.
    #[must_use]
    pub const fn with_logins(self) -> Self {
        Self { has_logins: true, ..self }
    }
}

impl<K: ServerSettings + DeserializeOwned + JsonSchema + 'static> ServerKind for KeyedKind<K> {
    fn protocol(&self) -> &'static str {
        self.protocol
    }

    fn description(&self) -> &'static str {
        self.description
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        K::json_schema(generator)
    }

    fn read(&self, keys: &Map<String, Value>) -> serde_json::Result<Box<dyn ServerSettings>> {
        Ok(Box::new(K::deserialize(keys)?))
    }

    fn has_logins(&self) -> bool {
        self.has_logins
    }
}

/// The keys that one kind adds to those of every server, read from a configuration.
pub trait ServerSettings {
    /// The same keys with defaults filled in, for people to read.
    fn keys(&self) -> Map<String, Value>;

    /// Everything that is wrong with them for a server that is reached this way.
    fn check(&self, _connection: &Connection) -> Vec<ServerFault> {
        Vec::new()
    }

    /// The definitions of tools, where the configuration has some.
    fn declared(&self) -> Option<DeclaredTools<'_>> {
        None
    }

    /// Makes the source, without starting anything yet.
    fn build(
        self: Box<Self>,
        id: SourceId,
        server: ServerConfig,
        host: &Arc<Host>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError>;
}

/// The keys that a value is written with.
#[must_use]
pub fn keys_of(settings: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(keys)) => keys,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// Definitions of tools in a configuration, not yet checked.
#[derive(Debug, Clone, Copy)]
pub struct DeclaredTools<'a> {
    /// The key that they belong to.
    pub key: &'static str,
    /// The key that holds them in a list: the same, or one below it.
    pub list: &'static str,
    /// The definitions.
    pub items: &'a [Value],
    /// What they are to a server.
    pub role: DeclaredRole,
}

/// What definitions of tools in a configuration are to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeclaredRole {
    /// Its tools: it can't be asked for them.
    Tools,
    /// The operator's word about some of the tools that it is asked for.
    Terms,
}

impl<'a> DeclaredTools<'a> {
    /// Those of the key `manifest`: an array of tools, or a table with `tools`.
    #[must_use]
    pub fn of_manifest(manifest: &'a Value, role: DeclaredRole) -> Self {
        let (list, tools) = match manifest.get("tools") {
            Some(tools) => ("manifest.tools", tools),
            None => ("manifest", manifest),
        };
        Self { key: "manifest", list, items: tools.as_array().map_or(&[], Vec::as_slice), role }
    }

    /// What is wrong with a list without tools.
    #[must_use]
    pub fn fault(&self) -> Option<ServerFault> {
        let hint = "make it an array of tools with `name`, `description` and `inputSchema`";
        let fault = || ServerFault::new(self.key, format!("`{}` lists no tool", self.key), hint);
        self.items.is_empty().then(fault)
    }
}

/// What is wrong with one key of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFault {
    /// The key; empty for the server as a whole.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl ServerFault {
    /// A fault at a key, with what to do about it.
    pub fn new(key: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { key: key.to_owned(), message: message.into(), hint: hint.into() }
    }
}
