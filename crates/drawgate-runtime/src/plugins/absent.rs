//! Stands in for the hooks of a plugin that should be at work and is not: they fail.

use async_trait::async_trait;
use drawgate_core::hooks::{CallHook, HookCall, HookError, Opinion, PatchOperation, Review};
use serde_json::Value;

pub(super) struct AbsentPlugin;

fn absent() -> HookError {
    HookError("the plugin is not at work; `plugins` of the gateway say why".to_owned())
}

#[async_trait]
impl CallHook for AbsentPlugin {
    async fn rewrite(&self, _call: &HookCall<'_>) -> Result<Vec<PatchOperation>, HookError> {
        Err(absent())
    }

    async fn check(&self, _call: &HookCall<'_>) -> Result<Opinion, HookError> {
        Err(absent())
    }

    async fn after(&self, _call: &HookCall<'_>, _result: &Value) -> Result<Review, HookError> {
        Err(absent())
    }
}
