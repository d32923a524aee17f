//! MCP servers in the configuration: what they have beside what every server has.

use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_core::source::ToolSource;
use drawgate_host::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::McpSource;
use super::config::{McpConfig, Sessions};
use super::requests::ClientRequest;
use crate::kind::ConfigError;
use crate::server::{
    Connection, DeclaredRole, DeclaredTools, KeyedKind, ServerConfig, ServerFault, ServerSettings,
    Transport, keys_of,
};

/// `protocol = "mcp"`.
pub(super) const MCP: KeyedKind<Keys> =
    KeyedKind::new("mcp", "The Model Context Protocol; tools are discovered.").with_logins();

/// The keys of MCP servers.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Keys {
    /// How long the server may take to start and shake hands; 30 unless set. A first start may have
    /// to download it.
    #[schemars(range(min = 1, max = 600))]
    #[serde(skip_serializing_if = "Option::is_none")]
    start_timeout_seconds: Option<u64>,
    /// Seconds without calls after which the program is ended, for `stdio`; the next call starts it
    /// again. Absent: it keeps running.
    #[schemars(range(min = 1, max = 86_400))]
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_shutdown_seconds: Option<u64>,
    /// Whether clients share a connection to it.
    sessions: Sessions,
    /// What it may ask of those who call it: `elicitation`, `elicitation_url`, `roots`, `sampling`.
    /// Absent: `elicitation` and `roots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_requests: Option<Vec<ClientRequest>>,
    /// An array of tools, or a table with `tools`; each has `name`, `description` and `inputSchema`. With
    /// `protocol = "call"` these are its tools. With `mcp` they hold over what the server says about them.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<Value>,
}

impl ServerSettings for Keys {
    fn keys(&self) -> Map<String, Value> {
        keys_of(self)
    }

    fn check(&self, connection: &Connection) -> Vec<ServerFault> {
        let mut faults = Vec::from_iter(self.declared().and_then(|declared| declared.fault()));
        let transport = connection.transport();
        if self.idle_shutdown_seconds.is_some() && transport != Transport::Stdio {
            let key = "idle_shutdown_seconds";
            let message = format!("`{key}` has no meaning for a `{}` server", transport.as_str());
            faults.push(ServerFault::new(key, message, "remove it, or change `transport`"));
        }
        faults
    }

    fn declared(&self) -> Option<DeclaredTools<'_>> {
        let manifest = self.manifest.as_ref()?;
        Some(DeclaredTools::of_manifest(manifest, DeclaredRole::Terms))
    }

    fn build(
        self: Box<Self>,
        id: SourceId,
        server: ServerConfig,
        host: &Arc<Host>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        let milliseconds = |seconds: u64| seconds.saturating_mul(1000);
        let mut config = McpConfig::new(server);
        if let Some(seconds) = self.start_timeout_seconds {
            config.start_timeout_ms = milliseconds(seconds);
        }
        if let Some(allowed) = self.client_requests {
            config.client_requests = allowed;
        }
        config.idle_shutdown_ms = self.idle_shutdown_seconds.map(milliseconds);
        config.sessions = self.sessions;
        config.tells_refusals = true;
        Ok(Arc::new(McpSource::new(id, config, host)?))
    }
}
