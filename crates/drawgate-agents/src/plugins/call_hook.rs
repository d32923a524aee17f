//! A plugin's hooks around calls. What they are told of a conversation the plugin knows from then on.

use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::hooks::{CallHook, HookCall, HookError, Opinion, PatchOperation, Review};
use serde_json::Value;

use super::known::Known;

pub(super) struct KnowingHook {
    pub(super) known: Arc<Known>,
    pub(super) hook: Arc<dyn CallHook>,
}

impl KnowingHook {
    fn learn(&self, call: &HookCall<'_>) {
        if let Some(run) = call.lineage {
            self.known.learn(&run.thread);
        }
    }
}

#[async_trait]
impl CallHook for KnowingHook {
    async fn rewrite(&self, call: &HookCall<'_>) -> Result<Vec<PatchOperation>, HookError> {
        self.learn(call);
        self.hook.rewrite(call).await
    }

    async fn check(&self, call: &HookCall<'_>) -> Result<Opinion, HookError> {
        self.learn(call);
        self.hook.check(call).await
    }

    async fn after(&self, call: &HookCall<'_>, result: &Value) -> Result<Review, HookError> {
        self.learn(call);
        self.hook.after(call, result).await
    }
}
