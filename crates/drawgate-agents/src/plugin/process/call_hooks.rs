//! What a plugin says about calls: asked by `drawgate/hook` like at every other hook, read strictly.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::hooks::{CallHook, HookCall, HookError, Opinion, PatchOperation, Review};
use serde_json::{Map, Value, json};

use super::Shared;
use crate::plugin::Hook;
use crate::plugin::manifest::FILE;

/// The longest reason that is passed on, in characters.
const MAX_REASON: usize = 1000;

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
        let mut params = json!({ "hook": hook, "call": shown(call) });
        if let (Some(result), Value::Object(params)) = (result, &mut params) {
            params.insert("result".to_owned(), result.clone());
        }
        let session = self.shared.ready().await.map_err(|error| HookError(error.to_string()))?;
        let answer = session.ask("drawgate/hook", &params).await;
        answer.map_err(|error| HookError(format!("{hook} failed: {error}")))
    }

    /// A patch, which needs a permission.
    fn patch(&self, hook: Hook, patch: Value) -> Result<Vec<PatchOperation>, HookError> {
        if !self.shared.manifest.permissions.rewrite {
            return Err(HookError(format!(
                "{hook} answered with a patch, for which the plugin lacks the permission `rewrite` in its {FILE}"
            )));
        }
        serde_json::from_value(patch)
            .map_err(|error| HookError(format!("the patch of {hook} can't be read: {error}")))
    }
}

#[async_trait]
impl CallHook for CallHooks {
    async fn rewrite(&self, call: &HookCall<'_>) -> Result<Vec<PatchOperation>, HookError> {
        let hook = Hook::RewriteCall;
        match only(hook, self.ask(hook, call, None).await?, &["patch"])? {
            None => Ok(Vec::new()),
            Some((_, patch)) => self.patch(hook, patch),
        }
    }

    async fn check(&self, call: &HookCall<'_>) -> Result<Opinion, HookError> {
        let hook = Hook::BeforeCall;
        match only(hook, self.ask(hook, call, None).await?, &["refuse", "confirm"])? {
            None => Ok(Opinion::Pass),
            Some((key, reason)) => {
                let reason = reason_of(hook, &key, &reason)?;
                Ok(if key == "refuse" { Opinion::Refuse(reason) } else { Opinion::Confirm(reason) })
            }
        }
    }

    async fn after(&self, call: &HookCall<'_>, result: &Value) -> Result<Review, HookError> {
        let hook = Hook::AfterCall;
        match only(hook, self.ask(hook, call, Some(result)).await?, &["patch", "withhold"])? {
            None => Ok(Review::Pass),
            Some((key, patch)) if key == "patch" => self.patch(hook, patch).map(Review::Change),
            Some((key, reason)) => Ok(Review::Withhold(reason_of(hook, &key, &reason)?)),
        }
    }
}

/// The one member of an answer, which must be one of those that the hook may have.
fn only(
    hook: Hook,
    answer: Map<String, Value>,
    may: &[&str],
) -> Result<Option<(String, Value)>, HookError> {
    let names = answer.keys().cloned().collect::<Vec<_>>().join("`, `");
    let mut members = answer.into_iter();
    match (members.next(), members.next()) {
        (None, _) => Ok(None),
        (Some((key, value)), None) if may.contains(&key.as_str()) => Ok(Some((key, value))),
        (Some(_), _) => Err(HookError(format!(
            "{hook} answered with `{}`; it may answer with nothing, or with one of `{}`",
            names.chars().take(MAX_REASON).collect::<String>(),
            may.join("`, `")
        ))),
    }
}

fn reason_of(hook: Hook, key: &str, reason: &Value) -> Result<String, HookError> {
    let text = reason.as_str().filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| {
        HookError(format!("{hook} answered with a `{key}` that is not a reason; write a sentence"))
    })?;
    Ok(text.chars().take(MAX_REASON).collect())
}

fn shown(call: &HookCall<'_>) -> Value {
    let mut shown = json!({
        "callId": call.call_id,
        "tool": call.tool.as_str(),
        "name": call.name,
        "operation": call.operation,
        "principal": call.principal.as_str(),
        "arguments": call.arguments,
    });
    if let (Some(lineage), Value::Object(map)) = (call.lineage, &mut shown) {
        map.insert("threadId".to_owned(), json!(lineage.thread));
        if let Some(task) = &lineage.task {
            map.insert("taskId".to_owned(), json!(task));
        }
    }
    shown
}
