//! What an operator writes about a one-call tool.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ::http::{HeaderMap, Uri};
use drawgate_core::model::{McpManifest, McpToolSpec, Offer, SourceId};
use drawgate_host::egress::Reach;
use drawgate_host::process::Spawn;
use drawgate_host::secrets::Secrets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::configure::{headers, held_to, reach, spawn, unused, uri};
use crate::confine::SandboxConfig;
use crate::kind::ConfigError;

/// A program or an address, and its tools. Strings of the form `env:NAME` are replaced by that
/// variable's value.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneshotConfig {
    /// Always `call`; it may be left out.
    #[serde(default)]
    pub protocol: Protocol,
    /// `stdio` or `http`.
    pub transport: OneshotTransport,
    /// For `stdio`: the program that is started for each call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// For `stdio`: its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// For `stdio`: its environment, beside `PATH`, `HOME`, `LANG`, `TMPDIR` and `USER`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// For `stdio`: the folder to start in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<PathBuf>,
    /// For `stdio`: what the program is held to. Absent: nothing but the gateway's own rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxConfig>,
    /// For `http`: the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// For `http`: further headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// For `http`: hosts that it may be at, if somebody else than the operator wrote the
    /// address. A name is then meant where its address is public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// The tools.
    pub manifest: OneshotManifest,
}

/// The protocol of this kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// One call, one result.
    #[default]
    Call,
}

/// How a call gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OneshotTransport {
    /// A program reads it from its input.
    Stdio,
    /// It is posted to an address.
    Http,
}

/// A manifest inside a configuration.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OneshotManifest {
    /// The source's id, if the manifest repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<String>,
    /// A name for people; the id by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The tools: `name`, `description`, `inputSchema`, `annotations`.
    pub tools: Vec<Value>,
}

pub(super) enum Endpoint {
    Stdio(Spawn),
    Http(Target),
}

/// An address that takes calls.
pub(super) struct Target {
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) reach: Reach,
}

impl OneshotConfig {
    pub(super) fn understand(
        self,
        id: SourceId,
        secrets: &Secrets,
    ) -> Result<(McpManifest, Endpoint), ConfigError> {
        let manifest = self.manifest.clone().understand(id)?;
        let endpoint = match self.transport {
            OneshotTransport::Stdio => self.stdio(secrets)?,
            OneshotTransport::Http => self.http(secrets)?,
        };
        Ok((manifest, endpoint))
    }

    fn stdio(self, secrets: &Secrets) -> Result<Endpoint, ConfigError> {
        const WHY: &str = "with transport `stdio` a program is started for each call";
        unused("url", self.url.is_some(), WHY)?;
        unused("headers", !self.headers.is_empty(), WHY)?;
        unused("hosts", self.hosts.is_some(), WHY)?;
        let command = self.command.ok_or(ConfigError::Missing { field: "command", why: WHY })?;
        let spawn = spawn(&command, &self.args, &self.env, self.working_dir, secrets)?;
        Ok(Endpoint::Stdio(held_to(spawn, self.sandbox.as_ref())?))
    }

    fn http(self, secrets: &Secrets) -> Result<Endpoint, ConfigError> {
        const WHY: &str = "with transport `http` calls are posted to `url`";
        unused("command", self.command.is_some(), WHY)?;
        unused("args", !self.args.is_empty(), WHY)?;
        unused("env", !self.env.is_empty(), WHY)?;
        unused("working_dir", self.working_dir.is_some(), WHY)?;
        unused("sandbox", self.sandbox.is_some(), WHY)?;
        let url = self.url.ok_or(ConfigError::Missing { field: "url", why: WHY })?;
        let uri = uri(&url, secrets)?;
        let reach = reach(&uri, self.hosts.as_deref())?;
        Ok(Endpoint::Http(Target { uri, headers: headers(&self.headers, secrets)?, reach }))
    }
}

impl OneshotManifest {
    fn understand(self, id: SourceId) -> Result<McpManifest, ConfigError> {
        if self.server_id.as_deref().is_some_and(|given| given != id.as_str()) {
            return Err(ConfigError::value(
                "manifest.serverId",
                format!("differs from the source's id `{id}`"),
            ));
        }
        let tools = self.tools.into_iter().enumerate().map(|(index, tool)| {
            serde_json::from_value::<McpToolSpec>(tool).map_err(|error| {
                ConfigError::value(format!("manifest.tools[{index}]"), error.to_string())
            })
        });
        Ok(McpManifest {
            name: self.name.unwrap_or_else(|| id.to_string()),
            version: self.version.unwrap_or_default(),
            description: self.description,
            tools: tools.collect::<Result<_, _>>()?,
            server_id: id,
            offer: Offer::default(),
        })
    }
}
