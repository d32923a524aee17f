//! Servers of single calls in the configuration: the list of their tools.

use std::sync::Arc;

use drawgate_core::model::SourceId;
use drawgate_core::source::ToolSource;
use drawgate_host::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{OneshotConfig, OneshotManifest, OneshotSource};
use crate::kind::ConfigError;
use crate::server::{
    Connection, DeclaredRole, DeclaredTools, KeyedKind, ServerConfig, ServerFault, ServerSettings,
    Transport, keys_of,
};

/// `protocol = "call"`.
pub(super) const CALL: KeyedKind<Keys> = KeyedKind::new(
    "call",
    "One JSON call in, one JSON result out; tools are listed in `manifest`.",
);

/// The keys of servers that take single calls.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Keys {
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
        let mut faults = Vec::new();
        let transport = connection.transport();
        if matches!(transport, Transport::Sse | Transport::Websocket) {
            let message = format!("transport `{}` is for MCP alone", transport.as_str());
            faults.push(ServerFault::new("transport", message, "use `stdio` or `streamable_http`"));
        }
        if let Some(declared) = self.declared() {
            faults.extend(declared.fault());
        } else {
            let message = "needs `manifest`, for `protocol = \"call\"`";
            faults.push(ServerFault::new("", message, "list the tools"));
        }
        faults
    }

    fn declared(&self) -> Option<DeclaredTools<'_>> {
        let manifest = self.manifest.as_ref()?;
        Some(DeclaredTools::of_manifest(manifest, DeclaredRole::Tools))
    }

    fn build(
        self: Box<Self>,
        id: SourceId,
        server: ServerConfig,
        host: &Arc<Host>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        let tools = self.declared().map(|declared| declared.items.to_vec()).unwrap_or_default();
        let manifest = OneshotManifest { tools, ..OneshotManifest::default() };
        Ok(Arc::new(OneshotSource::new(id, OneshotConfig { server, manifest }, host)?))
    }
}
