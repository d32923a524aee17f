//! `[[hooks]]`: commands and addresses that are asked about calls and told of what happens; and the terms of
//! hooks around calls, which plugins have too.

use std::path::PathBuf;
use std::time::Duration;

use drawgate_agents::plugin::Hook;
use drawgate_core::hooks::{HookMode, HookTerms, OnFailure};
use drawgate_core::model::{ToolPatternError, ToolPatterns};
use drawgate_host::sandbox::Profile;
use drawgate_sources::server::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::execution::Permissions;
use super::servers::Server;

/// Plugins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginsConfig {
    /// The Node that runs plugins in JavaScript and TypeScript; TypeScript needs 22.18 or later. Absent: the
    /// first `node` on the path. Relative to this file's folder.
    #[schemars(extend("format" = "program-path"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<PathBuf>,
    /// The Python that runs plugins in Python, 3.9 or later. Absent: the first `python3` on the path.
    /// Relative to this file's folder.
    #[schemars(extend("format" = "program-path"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<PathBuf>,
}

/// A command or an address that is asked about calls, or told of what happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HookConfig {
    /// A name for it, in the audit log and in lists.
    #[schemars(length(min = 1, max = 48), regex(pattern = "^[a-z][a-z0-9-]*$"))]
    pub name: String,
    /// Where it is asked.
    pub on: HookName,
    /// How it is reached: as a program that is started for each event, or at an address.
    #[serde(flatten)]
    pub connection: Connection,
    /// What the program may touch. Absent: `workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Profile>,
    /// What the sandbox opens beside that. Files that `args` name may be read anyway.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    /// Its place among hooks and plugins; those with the same place are ordered by name.
    #[serde(default)]
    pub position: i32,
    /// How it is asked about calls.
    #[serde(flatten)]
    pub settings: HookSettings,
}

impl HookConfig {
    /// What is asked, as a server.
    #[must_use]
    pub fn server(&self) -> Server {
        Server {
            connection: self.connection.clone(),
            sandbox: self.sandbox,
            permissions: self.permissions.clone(),
            ..Server::default()
        }
    }
}

/// Where a command or an address is asked.
// A `Hook` has other words: those of plugins' code.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum HookName {
    /// Before a call is validated: its arguments may be changed.
    RewriteCall,
    /// After the rules have allowed a call: it may be refused, or made to wait for a person.
    BeforeCall,
    /// After the tool: the result may be changed or withheld.
    AfterCall,
    /// A message came into a conversation.
    OnMessage,
    /// A model is about to be asked; the prompt may be rewritten.
    OnBeforeInvoke,
    /// A run has done its work.
    OnAfterInvoke,
    /// A task was created.
    OnTaskCreate,
    /// The work on a task is done, and may be reviewed.
    OnTaskComplete,
    /// A task failed.
    OnTaskFailed,
    /// A plugin announced something.
    OnBroadcast,
}

impl HookName {
    /// The hook.
    #[must_use]
    pub const fn hook(self) -> Hook {
        match self {
            Self::RewriteCall => Hook::RewriteCall,
            Self::BeforeCall => Hook::BeforeCall,
            Self::AfterCall => Hook::AfterCall,
            Self::OnMessage => Hook::OnMessage,
            Self::OnBeforeInvoke => Hook::OnBeforeInvoke,
            Self::OnAfterInvoke => Hook::OnAfterInvoke,
            Self::OnTaskCreate => Hook::OnTaskCreate,
            Self::OnTaskComplete => Hook::OnTaskComplete,
            Self::OnTaskFailed => Hook::OnTaskFailed,
            Self::OnBroadcast => Hook::OnBroadcast,
        }
    }
}

/// How a plugin is asked about calls at one point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "snake_case")]
pub struct HookSettings {
    /// Which tools it is asked about: patterns over their names. Absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Milliseconds that it may take.
    #[schemars(range(min = 1, max = 60_000))]
    pub timeout_ms: u64,
    /// What happens if it fails.
    pub on_failure: OnFailure,
    /// Whether what it says counts.
    pub mode: HookMode,
}

impl Default for HookSettings {
    fn default() -> Self {
        Self { tools: None, timeout_ms: 1000, on_failure: OnFailure::Stop, mode: HookMode::Enforce }
    }
}

impl HookSettings {
    /// The longest that a hook may take.
    pub const MAX_TIMEOUT_MS: u64 = 60_000;

    /// The same, as the gate understands it.
    pub fn terms(&self) -> Result<HookTerms, ToolPatternError> {
        let tools = match &self.tools {
            Some(patterns) => ToolPatterns::only(patterns.iter().map(String::as_str))?,
            None => ToolPatterns::default(),
        };
        Ok(HookTerms {
            tools,
            time: Duration::from_millis(self.timeout_ms.min(Self::MAX_TIMEOUT_MS)),
            on_failure: self.on_failure,
            mode: self.mode,
        })
    }
}
