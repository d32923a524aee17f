//! What a source of kind `oneshot` is made from.

use drawgate_core::model::{McpManifest, McpToolSpec, Offer, SourceId};
use serde::Deserialize;
use serde_json::Value;

use crate::kind::ConfigError;
use crate::server::ServerConfig;

/// A program or an address, and its tools.
#[derive(Debug, Clone, Deserialize)]
pub struct OneshotConfig {
    /// How it is reached: as a program that is started for each call, or at an address.
    #[serde(flatten)]
    pub server: ServerConfig,
    /// The tools.
    pub manifest: OneshotManifest,
}

/// A manifest inside a configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OneshotManifest {
    /// The source's id, if the manifest repeats it.
    #[serde(default)]
    pub server_id: Option<String>,
    /// A name for people; the id by default.
    #[serde(default)]
    pub name: Option<String>,
    /// Its version.
    #[serde(default)]
    pub version: Option<String>,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// The tools: `name`, `description`, `inputSchema`, `annotations`.
    pub tools: Vec<Value>,
}

impl OneshotManifest {
    pub(super) fn validate(self, id: SourceId) -> Result<McpManifest, ConfigError> {
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
