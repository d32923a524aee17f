//! Programs as tools: a template that is filled with the arguments of a call, and run in a sandbox.
//!
//! A program is started for each call, without a shell. What it writes is the result, never read as
//! a protocol. Whether it may run at all, and how large a result may be, is the gate's business.

mod bounded_output;
mod config;
mod outcome;
mod progress;
mod run;
mod template;
mod tool;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
pub use config::{CommandConfig, CommandTool};
use drawgate_core::model::{McpManifest, Offer, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use drawgate_host::Host;
use serde_json::{Map, Value, json};
pub use template::{Fault, FillError, Template, TemplateError};

use crate::kind::{ConfigError, SourceKind};
use tool::Tool;

/// Kind `command`.
pub const KIND: SourceKind = SourceKind::new("command");

/// A set of programs.
pub struct CommandSource {
    id: SourceId,
    host: Arc<Host>,
    tools: BTreeMap<String, Tool>,
}

impl CommandSource {
    /// A source as configured. Programs are looked up now; one that is missing fails its calls.
    pub fn new(id: SourceId, config: CommandConfig, host: &Arc<Host>) -> Result<Self, ConfigError> {
        let tools = config.validate(&host.secrets)?;
        for tool in &tools {
            if let Err(error) = tool.program(host) {
                tracing::warn!(source = %id, error = %error, "a program is missing");
            }
        }
        let tools = tools.into_iter().map(|tool| (tool.spec.name.clone(), tool)).collect();
        Ok(Self { id, host: Arc::clone(host), tools })
    }
}

#[async_trait]
impl ToolSource for CommandSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Ok(McpManifest {
            server_id: self.id.clone(),
            name: self.id.to_string(),
            version: String::new(),
            description: None,
            tools: self.tools.values().map(|tool| tool.spec.clone()).collect(),
            offer: Offer::default(),
        })
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        let tool = self.tools.get(call.tool()).ok_or_else(|| {
            SourceError::unreachable(format!("there is no command tool `{}`", call.tool()))
        })?;
        tool.call(&call, cx, &self.host).await
    }

    async fn check(&self) -> Result<(), SourceError> {
        self.tools.values().try_for_each(|tool| tool.program(&self.host).map(drop))
    }

    fn confinement(&self, tool: &str) -> Option<&'static str> {
        self.tools.get(tool).map(|tool| tool.profile.as_str())
    }

    fn diagnostics(&self) -> Value {
        let tools = self.tools.iter();
        let tools: Map<String, Value> =
            tools.map(|(name, tool)| (name.clone(), tool.describe(&self.host))).collect();
        json!({ "programs": tools })
    }
}
