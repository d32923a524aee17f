//! What plugins outside of the gateway are told, and what they answer, as JSON. Answers are read strictly: a
//! hook that says something else than it may has failed.

use drawgate_core::hooks::{HookCall, HookError, Opinion, PatchOperation, Review};
use serde_json::{Map, Value, json};

use super::{Hook, HookAnswer, PluginError};

/// The longest reason that is passed on, in characters.
const MAX_REASON: usize = 1000;

/// What a plugin is told at one of the hooks around calls.
pub(crate) fn call_event(hook: Hook, call: &HookCall<'_>, result: Option<&Value>) -> Value {
    let mut event = json!({ "hook": hook, "call": told(call) });
    if let (Some(result), Value::Object(event)) = (result, &mut event) {
        event.insert("result".to_owned(), result.clone());
    }
    event
}

fn told(call: &HookCall<'_>) -> Value {
    let mut told = json!({
        "callId": call.call_id,
        "tool": call.tool.as_str(),
        "name": call.name,
        "operation": call.operation,
        "principal": call.principal.as_str(),
        "arguments": call.arguments,
    });
    if let (Some(run), Value::Object(told)) = (call.lineage, &mut told) {
        told.insert("runId".to_owned(), json!(run.run));
        told.insert("agent".to_owned(), json!(run.profile));
        told.insert("threadId".to_owned(), json!(run.thread));
        if let Some(task) = &run.task {
            told.insert("taskId".to_owned(), json!(task));
        }
    }
    told
}

/// The answer at `rewriteCall`.
pub(crate) fn changes(answer: Map<String, Value>) -> Result<Vec<PatchOperation>, HookError> {
    let hook = Hook::RewriteCall;
    match only(hook, answer, &["patch"])? {
        None => Ok(Vec::new()),
        Some((_, patch)) => operations(hook, patch),
    }
}

/// The answer at `beforeCall`.
pub(crate) fn opinion(answer: Map<String, Value>) -> Result<Opinion, HookError> {
    let hook = Hook::BeforeCall;
    match only(hook, answer, &["refuse", "confirm"])? {
        None => Ok(Opinion::Pass),
        Some((key, reason)) => {
            let reason = reason_of(hook, &key, &reason)?;
            Ok(if key == "refuse" { Opinion::Refuse(reason) } else { Opinion::Confirm(reason) })
        }
    }
}

/// The answer at `afterCall`.
pub(crate) fn review(answer: Map<String, Value>) -> Result<Review, HookError> {
    let hook = Hook::AfterCall;
    match only(hook, answer, &["patch", "withhold"])? {
        None => Ok(Review::Pass),
        Some((key, patch)) if key == "patch" => operations(hook, patch).map(Review::Change),
        Some((key, reason)) => Ok(Review::Withhold(reason_of(hook, &key, &reason)?)),
    }
}

fn operations(hook: Hook, patch: Value) -> Result<Vec<PatchOperation>, HookError> {
    serde_json::from_value(patch)
        .map_err(|error| HookError(format!("the patch of {hook} can't be read: {error}")))
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

/// The answer at a hook that is not around calls.
pub(crate) fn answer(hook: Hook, answer: &Map<String, Value>) -> Result<HookAnswer, PluginError> {
    let wrong = |what: &str| Err(PluginError(format!("{hook} answered {what}")));
    match hook {
        Hook::OnBeforeInvoke => match answer.get("prompt") {
            None if answer.is_empty() => Ok(HookAnswer::Nothing),
            Some(Value::String(prompt)) if !prompt.is_empty() => {
                Ok(HookAnswer::Prompt(prompt.clone()))
            }
            Some(_) | None => wrong("with something else than a prompt; return a string"),
        },
        Hook::OnTaskComplete => match (answer.get("accepted"), answer.get("feedback")) {
            (None, None) if answer.is_empty() => Ok(HookAnswer::Nothing),
            (Some(Value::Bool(accepted)), None | Some(Value::Null)) => {
                Ok(HookAnswer::Verdict { accepted: *accepted, feedback: None })
            }
            (Some(Value::Bool(accepted)), Some(Value::String(feedback))) => {
                Ok(HookAnswer::Verdict { accepted: *accepted, feedback: Some(feedback.clone()) })
            }
            _ => wrong("with something else than a verdict; return `{accepted, feedback}`"),
        },
        Hook::OnMessage
        | Hook::OnAfterInvoke
        | Hook::OnTaskCreate
        | Hook::OnTaskFailed
        | Hook::OnBroadcast
        | Hook::RewriteCall
        | Hook::BeforeCall
        | Hook::AfterCall => Ok(HookAnswer::Nothing),
    }
}
