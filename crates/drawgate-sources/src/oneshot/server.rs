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
    Connection, DeclaredTools, KeyedKind, ServerConfig, ServerFault, ServerSettings, Transport,
    keys_of,
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
    /// Its tools, for `protocol = "call"`: an array of tools, or a table with `tools`. Each has
    /// `name`, `description` and `inputSchema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<Value>,
}

impl Keys {
    /// The entries of `manifest`, in either of its two forms.
    fn tools(&self) -> &[Value] {
        let listed = self.manifest.as_ref().and_then(|given| given.get("tools").or(Some(given)));
        listed.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
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
        if self.manifest.is_none() {
            let message = "needs `manifest`, for `protocol = \"call\"`";
            faults.push(ServerFault::new("", message, "list the tools"));
        } else if self.tools().is_empty() {
            let hint = "make it an array of tools with `name`, `description` and `inputSchema`";
            faults.push(ServerFault::new("manifest", "`manifest` lists no tool", hint));
        }
        faults
    }

    fn declared(&self) -> Option<DeclaredTools<'_>> {
        let is_array = self.manifest.as_ref().is_some_and(Value::is_array);
        let list = if is_array { "manifest" } else { "manifest.tools" };
        Some(DeclaredTools { key: "manifest", list, items: self.tools() })
    }

    fn build(
        self: Box<Self>,
        id: SourceId,
        server: ServerConfig,
        host: &Arc<Host>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        let manifest =
            OneshotManifest { tools: self.tools().to_vec(), ..OneshotManifest::default() };
        Ok(Arc::new(OneshotSource::new(id, OneshotConfig { server, manifest }, host)?))
    }
}
