//! The manifest as an author writes it. The descriptions here are those of the published schema.

use std::collections::BTreeMap;

use drawgate_host::sandbox::Profile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::openapi::{AuthConfig, Credential};

/// A toolpack: connectors to servers and APIs, and the tools that it offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Where the schema of this file is, for editors.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The pack's id, and the name of its folder: 1 to 64 of `a-z 0-9 _ -`.
    #[serde(default)]
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$"))]
    pub id: String,
    /// The pack's name for people.
    #[serde(default)]
    #[schemars(length(min = 1, max = 100))]
    pub name: String,
    /// The pack's version, such as `1.0.0`.
    #[serde(default)]
    #[schemars(length(min = 1, max = 64))]
    pub version: String,
    /// What the pack is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Whether its tools are offered. Installing a pack always leaves it off.
    #[serde(default)]
    pub enabled: bool,
    /// The servers and APIs behind its tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connectors: Vec<Connector>,
    /// Its tools.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// What its programs need beyond their workspace. It is shown when the pack is installed, and its
    /// tools are held to it.
    #[serde(default, skip_serializing_if = "DeclaredPermissions::is_empty")]
    pub permissions: DeclaredPermissions,
}

/// A server or an API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connector {
    /// The name that tools refer to it by: 1 to 64 of `a-z 0-9 _ -`.
    #[serde(default)]
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$"))]
    pub id: String,
    /// `mcp` or `openapi`.
    #[serde(rename = "type")]
    pub kind: ConnectorKind,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// For type `mcp`: the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpConnector>,
    /// For type `openapi`: the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openapi: Option<OpenapiConnector>,
}

/// What a connector connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectorKind {
    /// An MCP server.
    Mcp,
    /// An HTTP API that an `OpenAPI` document describes.
    Openapi,
}

impl ConnectorKind {
    /// The word in the manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Openapi => "openapi",
        }
    }
}

/// An MCP server. Strings of the form `env:NAME` are replaced by that variable's value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpConnector {
    /// `stdio` for a program, `streamable_http` for an address; it may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<PackTransport>,
    /// For `streamable_http`: the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// For `streamable_http`: further headers, such as `Authorization`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// For `stdio`: the program. A relative path begins in the pack's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// For `stdio`: its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// For `stdio`: its environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// For `stdio`: the folder inside the pack that it starts in; the pack's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// How long a call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u64>,
    /// How often a call that could not be sent is tried again; never by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<u32>,
    /// How many calls the server gets at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub concurrency: Option<usize>,
}

/// How a pack reaches an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PackTransport {
    /// A program that the gateway starts, in the sandbox.
    Stdio,
    /// An address.
    StreamableHttp,
}

impl McpConnector {
    /// The transport, said or implied.
    #[must_use]
    pub fn transport(&self) -> Option<PackTransport> {
        match (self.transport, &self.command, &self.url) {
            (Some(transport), _, _) => Some(transport),
            (None, Some(_), None) => Some(PackTransport::Stdio),
            (None, None, Some(_)) => Some(PackTransport::StreamableHttp),
            (None, _, _) => None,
        }
    }
}

/// An HTTP API. Strings of the form `env:NAME` are replaced by that variable's value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenapiConnector {
    /// The `OpenAPI` document, as a file of the pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_path: Option<String>,
    /// The `OpenAPI` document, as an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_url: Option<String>,
    /// The API's address, in place of the document's first server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Further headers, such as an API key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Credentials by the name of their security scheme in the document.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub auth: AuthConfig,
    /// How long a call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u64>,
    /// How often a call that failed without effect is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<u32>,
    /// How many calls the API gets at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub concurrency: Option<usize>,
}

impl OpenapiConnector {
    /// Every address that is written here, with the path of its member.
    pub(in crate::toolpack) fn addresses(&self) -> Vec<(String, &str)> {
        let own = [("spec_url", &self.spec_url), ("base_url", &self.base_url)];
        let own = own.into_iter().filter_map(|(key, url)| Some((key.to_owned(), url.as_deref()?)));
        let tokens = self.auth.iter().filter_map(|(scheme, credential)| match credential {
            Credential::Client(client) => {
                Some((format!("auth.{scheme}.token_url"), client.token_url.as_deref()?))
            }
            Credential::Text(_) | Credential::Password(_) => None,
        });
        own.chain(tokens).collect()
    }
}

/// A tool, or with `operations` all tools of an API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name: a letter, then 1 to 63 of `a-z 0-9 _`. Only a whole API goes without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{1,63}$"))]
    pub name: Option<String>,
    /// `command`, `mcp` or `openapi`.
    #[serde(rename = "type")]
    pub kind: ToolKind,
    /// What it does, for the model. For type `mcp` and `openapi` it replaces the server's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// For type `mcp` and `openapi`: the connector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connector_id: Option<String>,
    /// For type `mcp`: the server's name for the tool; `name` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_tool: Option<String>,
    /// For type `openapi`: the operation; `name` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// For type `openapi`: `*` for every operation of the API, each as a tool of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<Operations>,
    /// With `operations`: only the operations that fit one of these patterns, such as `get*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// With `operations`: not the operations that fit one of these patterns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// With `operations`: what the tools' names begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-z][a-z0-9_]{0,31}$"))]
    pub prefix: Option<String>,
    /// For type `command`: the command, with `{{name}}` where an argument goes. No shell reads it:
    /// each argument stays one argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_template: Option<String>,
    /// JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Map<String, Value>>,
    /// How long a call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u64>,
    /// For type `command`: a tighter sandbox than the pack's other programs have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<PackProfile>,
    /// Hints for clients and for the gate, such as `readOnlyHint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Map<String, Value>>,
}

/// Where a tool comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// A program that is run for each call.
    Command,
    /// A tool of an MCP server.
    Mcp,
    /// An operation of an API.
    Openapi,
}

impl ToolKind {
    /// The word in the manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Mcp => "mcp",
            Self::Openapi => "openapi",
        }
    }

    /// The type of connector that such a tool needs.
    #[must_use]
    pub const fn connector(self) -> Option<ConnectorKind> {
        match self {
            Self::Command => None,
            Self::Mcp => Some(ConnectorKind::Mcp),
            Self::Openapi => Some(ConnectorKind::Openapi),
        }
    }
}

/// Which operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Operations {
    /// Every one.
    #[serde(rename = "*")]
    All,
}

/// A sandbox that a pack may ask for. Only an operator can name `none`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PackProfile {
    /// Its workspace and the system's programs; no network, no further folders.
    Strict,
    /// The same, and the folders of `permissions`; no network.
    Workspace,
    /// The same, and the hosts of `permissions`, through a filtering proxy.
    Network,
}

impl PackProfile {
    /// The word in the manifest.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Profile::as_str(self.profile())
    }

    /// The same among all profiles.
    #[must_use]
    pub const fn profile(self) -> Profile {
        match self {
            Self::Strict => Profile::Strict,
            Self::Workspace => Profile::Workspace,
            Self::Network => Profile::Network,
        }
    }
}

/// What a pack's programs need beyond their workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeclaredPermissions {
    /// Files and folders.
    #[serde(default, skip_serializing_if = "Paths::is_empty")]
    pub paths: Paths,
    /// Hosts, such as `api.example.com`, `*.example.com` or `127.0.0.1:8080`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Variables of the gateway's environment that the commands get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
}

/// Files and folders: absolute, `~/…`, or relative to the pack's workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Paths {
    /// May be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// May be read and written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
}

impl DeclaredPermissions {
    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Paths {
    /// Whether it names none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
