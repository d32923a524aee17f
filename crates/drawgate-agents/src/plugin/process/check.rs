//! What is known of a plugin that was loaded only to see whether it can be.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Value, json};

use crate::plugin::{
    Hook, InvokeOptions, InvokeResult, NewTask, PluginContext, PluginError, PluginManifest,
    TaskView,
};

/// A plugin that can be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Its manifest.
    #[serde(flatten)]
    pub manifest: PluginManifest,
    /// Its tools, by their own names.
    pub tools: Vec<String>,
    /// Its hooks.
    pub hooks: BTreeSet<Hook>,
}

/// Stands for the gateway while a plugin is checked, and does nothing for it.
pub(super) struct NoGateway;

fn refused() -> PluginError {
    PluginError("the plugin is only being checked; do this in `start` or later".to_owned())
}

#[async_trait]
impl PluginContext for NoGateway {
    async fn invoke(&self, _prompt: String, _options: InvokeOptions) -> InvokeResult {
        InvokeResult { error: Some(refused().0), exit_code: 1, ..InvokeResult::default() }
    }

    async fn send_to_thread(&self, _thread: &str, _message: String) -> Result<(), PluginError> {
        Err(refused())
    }

    async fn broadcast(&self, _event: String, _data: Value) -> Result<(), PluginError> {
        Err(refused())
    }

    async fn delegate(&self, _task: NewTask) -> Result<TaskView, PluginError> {
        Err(refused())
    }

    async fn task(&self, _id: &str) -> Result<TaskView, PluginError> {
        Err(refused())
    }

    async fn check_in(&self, _thread: &str, _message: String) -> Result<(), PluginError> {
        Err(refused())
    }

    async fn load(&self, _key: &str) -> Result<Option<Value>, PluginError> {
        Ok(None)
    }

    async fn save(&self, _key: &str, _value: Option<Value>) -> Result<(), PluginError> {
        Err(refused())
    }

    fn settings(&self) -> Value {
        json!({})
    }
}
