//! What a plugin says about calls: asked by `drawgate/hook` like at every other hook.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::hooks::{CallHook, HookCall, HookError, Opinion, PatchOperation, Review};
use serde_json::{Map, Value};

use super::Shared;
use crate::plugin::manifest::FILE;
use crate::plugin::{Hook, wire};

/// A plugin's hooks around calls.
pub(super) struct CallHooks {
    pub(super) shared: Arc<Shared>,
    pub(super) hooks: BTreeSet<Hook>,
}

impl CallHooks {
    /// Asks the plugin, if it wants to be asked.
    async fn ask(
        &self,
        hook: Hook,
        call: &HookCall<'_>,
        result: Option<&Value>,
    ) -> Result<Map<String, Value>, HookError> {
        if !self.hooks.contains(&hook) {
            return Ok(Map::new());
        }
        let params = wire::call_event(hook, call, result);
        let session = self.shared.ready().await.map_err(|error| HookError(error.to_string()))?;
        let answer = session.ask("drawgate/hook", &params).await;
        answer.map_err(|error| HookError(format!("{hook} failed: {error}")))
    }

    /// A patch needs a permission.
    fn permitted(
        &self,
        hook: Hook,
        patch: Vec<PatchOperation>,
    ) -> Result<Vec<PatchOperation>, HookError> {
        if patch.is_empty() || self.shared.manifest.permissions.rewrite {
            return Ok(patch);
        }
        Err(HookError(format!(
            "{hook} answered with a patch, for which the plugin lacks the permission `rewrite` in its {FILE}"
        )))
    }
}

#[async_trait]
impl CallHook for CallHooks {
    async fn rewrite(&self, call: &HookCall<'_>) -> Result<Vec<PatchOperation>, HookError> {
        let hook = Hook::RewriteCall;
        self.permitted(hook, wire::changes(self.ask(hook, call, None).await?)?)
    }

    async fn check(&self, call: &HookCall<'_>) -> Result<Opinion, HookError> {
        wire::opinion(self.ask(Hook::BeforeCall, call, None).await?)
    }

    async fn after(&self, call: &HookCall<'_>, result: &Value) -> Result<Review, HookError> {
        let hook = Hook::AfterCall;
        match wire::review(self.ask(hook, call, Some(result)).await?)? {
            Review::Change(patch) => self.permitted(hook, patch).map(Review::Change),
            review @ (Review::Pass | Review::Withhold(_)) => Ok(review),
        }
    }
}
