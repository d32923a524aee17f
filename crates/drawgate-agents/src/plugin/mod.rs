//! Plugins: tools and hooks that an operator adds to a gateway.
//!
//! A [`Plugin`] is hosted natively, or in a sandboxed process that speaks a protocol over its standard
//! streams. What it may ask of the gateway it gets as a [`PluginContext`].

pub mod bound;
mod declared;
pub mod manifest;
mod problems;
pub mod process;
mod wire;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
pub use declared::MAX_TOOLS;
use drawgate_core::hooks::CallHook;
use drawgate_core::model::{SourceId, ToolOutput};
use drawgate_core::source::{CallContext, SourceError};
pub use manifest::{PluginManifest, PluginPermissions, Runtime};
pub use problems::{Problem, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A plugin at work.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// Its name, which is also the id of the source of its tools.
    fn name(&self) -> &SourceId;

    /// Its version.
    fn version(&self) -> &str;

    /// Its tools. They do not change while it is at work.
    fn tools(&self) -> Vec<PluginTool>;

    /// Its tools that may be called again where nobody knows whether a call was made: a second one does
    /// nothing more. Only plugins that come with the gateway can say so.
    fn repeatable(&self) -> &'static [&'static str] {
        &[]
    }

    /// The hooks that it wants to be asked.
    fn hooks(&self) -> BTreeSet<Hook>;

    /// Begins its work, after its tools and hooks have been validated.
    async fn start(&self) -> Result<(), PluginError> {
        Ok(())
    }

    /// Ends its work.
    async fn stop(&self) {}

    /// Performs a call of one of its tools. The input has been validated.
    async fn call(
        &self,
        tool: &str,
        _input: Map<String, Value>,
        _meta: &CallMeta,
        _cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        Err(SourceError::Protocol(format!("there is no tool `{tool}`")))
    }

    /// Is told or asked at a hook that it wanted. Whoever calls keeps the time.
    async fn hook(&self, event: &HookEvent) -> Result<HookAnswer, PluginError>;

    /// What is asked around calls, if it wants [`Hook::RewriteCall`], [`Hook::BeforeCall`] or
    /// [`Hook::AfterCall`].
    fn call_hook(&self) -> Option<Arc<dyn CallHook>> {
        None
    }
}

/// A tool of a plugin, as it declares it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginTool {
    /// Its name within the plugin.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its input.
    pub schema: Value,
}

/// What a tool of a plugin is told beside its input. From the lineage of the caller, never from what the
/// caller says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallMeta {
    /// The conversation in which the call is made.
    pub thread_id: String,
    /// The task that the caller works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
}

/// The points at which a plugin can be asked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Hook {
    /// A message came into a conversation.
    OnMessage,
    /// A model is about to be asked; the prompt may be rewritten.
    OnBeforeInvoke,
    /// A model was asked.
    OnAfterInvoke,
    /// A task was created.
    OnTaskCreate,
    /// The work on a task is done, and may be reviewed.
    OnTaskComplete,
    /// A task failed.
    OnTaskFailed,
    /// Something was announced to all plugins.
    OnBroadcast,
    /// A tool is about to be called; its arguments may be changed.
    RewriteCall,
    /// A tool is about to be called, which may be refused.
    BeforeCall,
    /// A tool was called; its result may be changed or withheld.
    AfterCall,
}

impl Hook {
    /// All, in their order.
    pub const ALL: [Self; 10] = [
        Self::OnMessage,
        Self::OnBeforeInvoke,
        Self::OnAfterInvoke,
        Self::OnTaskCreate,
        Self::OnTaskComplete,
        Self::OnTaskFailed,
        Self::OnBroadcast,
        Self::RewriteCall,
        Self::BeforeCall,
        Self::AfterCall,
    ];

    /// The word in manifests, messages and code of plugins.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OnMessage => "onMessage",
            Self::OnBeforeInvoke => "onBeforeInvoke",
            Self::OnAfterInvoke => "onAfterInvoke",
            Self::OnTaskCreate => "onTaskCreate",
            Self::OnTaskComplete => "onTaskComplete",
            Self::OnTaskFailed => "onTaskFailed",
            Self::OnBroadcast => "onBroadcast",
            Self::RewriteCall => "rewriteCall",
            Self::BeforeCall => "beforeCall",
            Self::AfterCall => "afterCall",
        }
    }

    /// The hook of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.as_str() == name)
    }

    /// Whether the plugin is only told, so that the gateway does not wait for its answer.
    #[must_use]
    pub const fn observes(self) -> bool {
        match self {
            Self::OnMessage
            | Self::OnAfterInvoke
            | Self::OnTaskCreate
            | Self::OnTaskFailed
            | Self::OnBroadcast => true,
            Self::OnBeforeInvoke
            | Self::OnTaskComplete
            | Self::RewriteCall
            | Self::BeforeCall
            | Self::AfterCall => false,
        }
    }
}

impl std::fmt::Display for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a plugin is told or asked at one of the hooks that are not around calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "hook", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum HookEvent {
    /// A message came into a conversation.
    OnMessage {
        /// The conversation.
        thread_id: String,
        /// Who speaks: `user`, `assistant` or `tool`.
        role: String,
        /// What is said.
        content: String,
    },
    /// A model is about to be asked.
    OnBeforeInvoke {
        /// The conversation.
        thread_id: String,
        /// What it is asked.
        prompt: String,
    },
    /// A model was asked.
    OnAfterInvoke {
        /// The conversation.
        thread_id: String,
        /// What came of it.
        result: InvokeResult,
    },
    /// A task was created.
    OnTaskCreate {
        /// The conversation of the task.
        thread_id: String,
        /// The task.
        task_id: String,
    },
    /// The work on a task is done.
    OnTaskComplete {
        /// The conversation of the task.
        thread_id: String,
        /// The task.
        task_id: String,
        /// The result.
        result: String,
    },
    /// A task failed.
    OnTaskFailed {
        /// The conversation of the task.
        thread_id: String,
        /// The task.
        task_id: String,
        /// Why.
        error: String,
    },
    /// Something was announced.
    OnBroadcast {
        /// What.
        event: String,
        /// Data about it.
        data: Value,
    },
}

impl HookEvent {
    /// The hook that it belongs to.
    #[must_use]
    pub const fn hook(&self) -> Hook {
        match self {
            Self::OnMessage { .. } => Hook::OnMessage,
            Self::OnBeforeInvoke { .. } => Hook::OnBeforeInvoke,
            Self::OnAfterInvoke { .. } => Hook::OnAfterInvoke,
            Self::OnTaskCreate { .. } => Hook::OnTaskCreate,
            Self::OnTaskComplete { .. } => Hook::OnTaskComplete,
            Self::OnTaskFailed { .. } => Hook::OnTaskFailed,
            Self::OnBroadcast { .. } => Hook::OnBroadcast,
        }
    }
}

/// What a plugin answers at a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// Nothing.
    Nothing,
    /// Another prompt, at [`Hook::OnBeforeInvoke`].
    Prompt(String),
    /// What it thinks of a result, at [`Hook::OnTaskComplete`].
    Verdict {
        /// Whether the result is good enough.
        accepted: bool,
        /// What is to be done better.
        feedback: Option<String>,
    },
}

/// Why a plugin could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PluginError(pub String);

/// What a plugin may ask of the gateway, always in its own name.
#[async_trait]
pub trait PluginContext: Send + Sync + 'static {
    /// Has a model work on a prompt, in a run of its own, and waits for the result.
    async fn invoke(&self, prompt: String, options: InvokeOptions) -> InvokeResult;

    /// Puts a message into a conversation.
    async fn send_to_thread(&self, thread: &str, message: String) -> Result<(), PluginError>;

    /// Announces something to all plugins.
    async fn broadcast(&self, event: String, data: Value) -> Result<(), PluginError>;

    /// Creates a task: work that is delegated from a conversation, done by a run of its own in a
    /// conversation of its own, and reviewed. Returns at once.
    async fn delegate(&self, task: NewTask) -> Result<TaskView, PluginError>;

    /// A task that this plugin or a caller of its tools created.
    async fn task(&self, id: &str) -> Result<TaskView, PluginError>;

    /// Tells the conversation from which a task was delegated how it gets on. `thread` is the task's own.
    async fn check_in(&self, thread: &str, message: String) -> Result<(), PluginError>;

    /// A value that the plugin has stored.
    async fn load(&self, key: &str) -> Result<Option<Value>, PluginError>;

    /// Stores a value, or removes it.
    async fn save(&self, key: &str, value: Option<Value>) -> Result<(), PluginError>;

    /// The operator's settings for the plugin.
    fn settings(&self) -> Value;
}

/// How a model is to work on a prompt for a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InvokeOptions {
    /// The model; the default one without.
    pub model: Option<String>,
    /// Milliseconds that it may take.
    pub timeout: Option<u64>,
    /// The tools that it may use; none without.
    pub allowed_tools: Vec<String>,
    /// JSON Schema of the answer: the output is JSON then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// What came of work on a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvokeResult {
    /// The last text of the model.
    pub output: String,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Milliseconds that it took.
    pub duration_ms: u64,
    /// 0, or 1 if it failed.
    pub exit_code: i32,
    /// Tokens that were read.
    pub input_tokens: u64,
    /// Tokens that were written.
    pub output_tokens: u64,
}

/// Work that is to be delegated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTask {
    /// The conversation from which it is delegated, and which hears of its end.
    pub parent_thread_id: String,
    /// What is to be done.
    pub prompt: String,
    /// The model; the delegating run's without.
    #[serde(default)]
    pub model: Option<String>,
    /// How often it may be tried.
    #[serde(default)]
    pub max_iterations: Option<u32>,
}

/// A task, as plugins and people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// Its id.
    pub id: String,
    /// Its own conversation.
    pub thread_id: String,
    /// The conversation from which it was delegated.
    pub parent_thread_id: String,
    /// What is to be done.
    pub prompt: String,
    /// How far it is: `working`, `reviewing`, `complete`, `unreviewed`, `rejected`, `failed`.
    pub state: String,
    /// Which try this is, from 1.
    pub iteration: u32,
    /// How often it may be tried.
    pub max_iterations: u32,
    /// What came of the last try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What the reviewers said last, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// What was said to the conversation from which it was delegated, where no run is there to hear it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<String>,
}
