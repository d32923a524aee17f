//! The tools of a plugin as a source. A plugin is told from which conversation it is called, by what the gate
//! knows of the caller.

use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::model::{McpManifest, McpToolSpec, Offer, SourceId, ToolOutput};
use drawgate_core::registry::SourceTerms;
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use serde_json::json;

use super::known::Known;
use crate::plugin::{Plugin, PluginTool};

/// The tools of one plugin.
pub struct PluginTools {
    plugin: Arc<dyn Plugin>,
    known: Arc<Known>,
}

impl PluginTools {
    pub(super) fn new(plugin: Arc<dyn Plugin>, known: Arc<Known>) -> Self {
        Self { plugin, known }
    }

    /// The terms of its tools: those of every source, and that some can be called again after a restart.
    #[must_use]
    pub fn terms(&self, base: SourceTerms) -> SourceTerms {
        let mut terms = base;
        for tool in self.plugin.repeatable() {
            terms.tools.entry((*tool).to_owned()).or_default().idempotent = true;
        }
        terms
    }
}

#[async_trait]
impl ToolSource for PluginTools {
    fn id(&self) -> &SourceId {
        self.plugin.name()
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        let specs: Result<Vec<McpToolSpec>, _> = self.plugin.tools().iter().map(spec).collect();
        Ok(McpManifest {
            server_id: self.plugin.name().clone(),
            name: self.plugin.name().to_string(),
            version: self.plugin.version().to_owned(),
            description: None,
            tools: specs?,
            offer: Offer::default(),
        })
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        let (meta, under_way) = self.known.begin(cx)?;
        let work = self.plugin.call(call.tool(), call.arguments().clone(), &meta, cx);
        under_way.perform(work).await
    }
}

fn spec(tool: &PluginTool) -> Result<McpToolSpec, SourceError> {
    let name = &tool.name;
    let spec = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.schema,
    });
    serde_json::from_value(spec)
        .map_err(|error| SourceError::Protocol(format!("tool `{name}`: {error}")))
}
