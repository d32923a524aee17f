//! The manifest as an author writes it. The descriptions here are those of the published schema.

use std::borrow::Cow;
use std::sync::Arc;

use drawgate_host::sandbox::Profile;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kind::Kinds;
use crate::toolpack::ConnectorSettings;

/// A toolpack: connectors to servers and APIs, and the tools that it offers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Connector {
    /// The name that tools refer to it by: 1 to 64 of `a-z 0-9 _ -`.
    #[serde(default)]
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$"))]
    pub id: String,
    /// `mcp` or `openapi`.
    #[serde(rename = "type")]
    #[schemars(with = "ConnectorType")]
    pub kind: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// What the manifest has under the names of kinds.
    #[serde(flatten)]
    #[schemars(skip)]
    pub(super) sections: Map<String, Value>,
    /// The section of its own kind, read.
    #[serde(skip)]
    settings: Option<Arc<dyn ConnectorSettings>>,
}

impl Connector {
    /// Reads the section of its kind, if it is there.
    pub(super) fn read(&mut self, kinds: Kinds) -> serde_json::Result<()> {
        let section = self.sections.get(&self.kind);
        let read = kinds.connector(&self.kind).zip(section).map(|(kind, it)| kind.read(it));
        self.settings = read.transpose()?;
        Ok(())
    }

    /// The section of its kind, as it is written.
    pub(in crate::toolpack) fn section(&self) -> Option<&Value> {
        self.sections.get(&self.kind)
    }

    /// The settings of its kind. A manifest that was checked has them for every connector.
    #[must_use]
    pub fn settings(&self) -> Option<&dyn ConnectorSettings> {
        self.settings.as_deref()
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
    #[schemars(with = "ToolType")]
    pub kind: String,
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

/// The words of `type` come from the table of kinds; `schema.rs` fills them in.
macro_rules! type_words {
    ($name:ident, $schema_name:literal) => {
        struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $schema_name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }
    };
}

type_words!(ConnectorType, "ConnectorKind");
type_words!(ToolType, "ToolKind");
