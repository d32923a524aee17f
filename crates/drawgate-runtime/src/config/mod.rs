//! `drawgate.toml`: its types, how it is read, and everything that can be wrong with it.
//!
//! The doc comments on the types are the descriptions in the JSON Schema that editors use, and that
//! schema in turn is what the reader checks keys and values against, so the three can't drift
//! apart. Flags and environment variables win over the file; that is decided by the commands, not
//! here. Secrets stay references (`env:NAME`): nothing in this module resolves or prints one.

mod auth;
mod check;
mod endpoint;
mod execution;
mod formats;
mod grpc;
mod hooks;
mod load;
mod oauth;
mod paths;
mod problem;
mod profiles;
mod schema;
mod sections;
mod servers;
mod setting;
mod shape;
mod starter;
mod terms;
mod tree;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

use drawgate_agents::model::config::{ModelsConfig, ProvidersConfig};
use drawgate_agents::runs::RunSettings;
use drawgate_agents::runs::programs::config::InvokersConfig;
use drawgate_core::model::SourceId;
use drawgate_host::sandbox::ResourceLimits;
use drawgate_sources::Kinds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use auth::{Algorithm, Auth};
pub use drawgate_sources::server::Transport;
pub use drawgate_sources::setting::Setting;
pub use endpoint::{Endpoint, Tls};
pub use execution::{Egress, Pack, Permissions, Toolpacks};
pub use grpc::Grpc;
pub use hooks::{HookConfig, HookName, HookSettings, PluginsConfig};
pub use load::{ConfigSource, DEFAULT_DATA, DEFAULT_FILE, Loaded};
pub use oauth::{Grant, OAuth};
pub use paths::{NamedPath, PathUse};
pub use problem::{ConfigErrors, Location, Problem, Severity};
pub use profiles::Profiles;
pub use sections::{
    Approvals, ApprovalsMode, Artifacts, Audit, AuditFailure, Builtin, Durability, Limits, Local,
    LogFormat, LogLevel, Payloads, Policy, PolicyDefaults, Telemetry, Webhook,
};
pub use servers::{
    CallLimits, Names, Protocol, Server, ServerAnnotations, ToolSettings, Trust, Validation,
};
pub use setting::{is_key_shaped, looks_like_secret};
pub use starter::STARTER;
pub(crate) use terms::{base_terms, declared_terms, tool_terms};

/// The configuration of a Drawgate gateway. Every key is optional.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address and port to listen on. `--listen` and `DRAWGATE_LISTEN` win over it.
    #[schemars(with = "formats::SocketAddress")]
    pub listen: SocketAddr,
    /// Folder for the database, keys, tokens and artifacts. `--data` and `DRAWGATE_DATA` win over
    /// it. Relative to this file's folder. By default `.drawgate` beside the file; for the user's own
    /// configuration, `drawgate` in the user's data folder (`~/.local/share`).
    #[schemars(extend("format" = "data-path"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// The gateway's own endpoint: who may reach it, and how much at once.
    pub server: Endpoint,
    /// An OAuth authorization server whose tokens are taken beside those of local agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Packs and agents that dial in over gRPC.
    pub grpc: Grpc,
    /// The servers whose tools the gateway offers, by name.
    #[schemars(with = "BTreeMap<String, Server>", extend("propertyNames" = {"format": "server-name"}))]
    pub servers: BTreeMap<SourceId, Server>,
    /// The built-in tools.
    pub builtin: Builtin,
    /// Installed toolpacks.
    pub toolpacks: Toolpacks,
    /// Profiles of agents that the gateway runs.
    pub profiles: Profiles,
    /// What runs plugins.
    pub plugins: PluginsConfig,
    /// Commands and addresses that are asked about calls, or told of what happens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookConfig>,
    /// How much a sandboxed program may use.
    pub sandbox: ResourceLimits,
    /// Outgoing requests of tools.
    pub egress: Egress,
    /// The local user, who holds the admin token.
    pub local: Local,
    /// Limits on calls and their output.
    pub limits: Limits,
    /// How calls that need a person's consent are treated.
    pub approvals: Approvals,
    /// Rules about which calls are allowed.
    pub policy: Policy,
    /// The audit log.
    pub audit: Audit,
    /// Large outputs that are kept as files.
    pub artifacts: Artifacts,
    /// Logs and traces.
    pub telemetry: Telemetry,
    /// Providers of models, by name.
    pub providers: ProvidersConfig,
    /// Names for models.
    pub models: ModelsConfig,
    /// Limits on agents that the gateway runs itself.
    pub runs: RunSettings,
    /// Programs that can do the work of a run, in a sandbox: profiles name them by `invoker`.
    pub invokers: InvokersConfig,
    /// The kinds of sources that servers and toolpacks may be.
    #[serde(skip)]
    pub kinds: Kinds,
}

/// The port that nothing else of note uses and that the documentation shows.
const DEFAULT_PORT: u16 = 7700;

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            data: None,
            server: Endpoint::default(),
            auth: None,
            grpc: Grpc::default(),
            servers: BTreeMap::new(),
            builtin: Builtin::default(),
            toolpacks: Toolpacks::default(),
            profiles: Profiles::default(),
            plugins: PluginsConfig::default(),
            hooks: Vec::new(),
            sandbox: ResourceLimits::default(),
            egress: Egress::default(),
            local: Local::default(),
            limits: Limits::default(),
            approvals: Approvals::default(),
            policy: Policy::default(),
            audit: Audit::default(),
            artifacts: Artifacts::default(),
            telemetry: Telemetry::default(),
            providers: ProvidersConfig::new(),
            models: ModelsConfig::default(),
            runs: RunSettings::default(),
            invokers: InvokersConfig::default(),
            kinds: Kinds::default(),
        }
    }
}

impl Config {
    /// The effective configuration for `drawgate config show`: defaults filled in, `env:NAME`
    /// references as they are, every other value in `env` and `headers` as `****`.
    #[must_use]
    pub fn redacted(&self) -> serde_json::Value {
        let mut safe = self.clone();
        for server in safe.servers.values_mut() {
            server.fill_in(self.kinds);
            server.mask_secrets();
        }
        serde_json::to_value(&safe).unwrap_or_default()
    }

    /// The JSON Schema of the file, for editors.
    #[must_use]
    pub fn json_schema() -> serde_json::Value {
        schema::generate(Kinds::default())
    }
}

#[cfg(test)]
#[path = "mistakes_tests.rs"]
mod mistakes_tests;
#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
#[cfg(test)]
mod throwaway_kind;
