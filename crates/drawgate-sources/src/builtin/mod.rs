//! Tools that the gateway itself has: files in its workspace, and pages of the internet.
//!
//! They pass the same gate as everybody's tools.

mod files;
mod path;
pub(crate) mod specs;
mod web;
mod workspace;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::model::{McpManifest, McpToolSpec, Offer, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use drawgate_host::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::confine::check_writable;
use crate::kind::{ConfigError, SourceKind};
use web::Web;
use workspace::Workspace;

/// The definitions of the built-in tools.
#[must_use]
pub fn tools() -> Vec<McpToolSpec> {
    specs::tools()
}

/// What an operator may say about the built-in tools.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuiltinConfig {
    /// The folder that holds the workspace's files; it is created if it is missing.
    pub workspace: PathBuf,
    /// Protected names that may be written all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unprotected: Vec<String>,
}

/// Kind `builtin`.
pub const KIND: SourceKind = SourceKind::new("builtin");

/// The built-in tools.
pub struct BuiltinSource {
    id: SourceId,
    workspace: Arc<Workspace>,
    web: Web,
}

impl BuiltinSource {
    /// Opens the workspace, creating its folder with access for its owner alone.
    pub fn new(id: SourceId, config: &BuiltinConfig, host: &Host) -> Result<Self, ConfigError> {
        let trusted = host.processes.trusted();
        check_writable(trusted, "workspace", &config.workspace)?;
        let opened = Workspace::open(&config.workspace, trusted.clone(), &config.unprotected);
        let workspace =
            opened.map_err(|error| ConfigError::value("workspace", error.to_string()))?;
        Ok(Self { id, workspace: Arc::new(workspace), web: Web::new(&host.egress) })
    }
}

#[async_trait]
impl ToolSource for BuiltinSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Ok(McpManifest {
            server_id: self.id.clone(),
            name: "Drawgate".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: Some(
                "files in the gateway's workspace, and pages of the internet".to_owned(),
            ),
            tools: specs::tools(),
            offer: Offer::default(),
        })
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        if call.tool() == web::FETCH {
            return Ok(self.web.fetch(&call.into_arguments(), cx.caller(), cx.deadline.at()).await);
        }
        let tool = call.tool().to_owned();
        let workspace = Arc::clone(&self.workspace);
        let work = move || files::perform(&workspace, &tool, &call.into_arguments());
        let outcome = tokio::task::spawn_blocking(work).await;
        outcome.map_err(|_| SourceError::Protocol("the tool broke off".to_owned()))?
    }
}

#[cfg(test)]
#[path = "builtin_tests.rs"]
mod tests;
