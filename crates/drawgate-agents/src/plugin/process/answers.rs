//! What the answers of a plugin amount to.

use drawgate_core::model::ToolOutput;
use drawgate_core::source::SourceError;
use serde_json::{Map, Value};

use crate::plugin::{Hook, HookAnswer, PluginError};

/// The result of a call.
pub(super) fn output(
    plugin: &str,
    mut result: Map<String, Value>,
) -> Result<ToolOutput, SourceError> {
    let Some(Value::Array(content)) = result.shift_remove("content") else {
        return Err(SourceError::Protocol(format!(
            "the plugin `{plugin}` answered a call without a list `content`"
        )));
    };
    if !content.iter().all(Value::is_object) {
        return Err(SourceError::Protocol(format!(
            "the plugin `{plugin}` answered a call with `content` that is not made of objects"
        )));
    }
    let structured = result.shift_remove("structuredContent");
    let is_error = result.get("isError") == Some(&Value::Bool(true));
    Ok(ToolOutput { content, structured, is_error, ..ToolOutput::default() })
}

/// What a plugin answered at a hook that is not around calls.
pub(super) fn at_hook(
    plugin: &str,
    hook: Hook,
    answer: &Map<String, Value>,
) -> Result<HookAnswer, PluginError> {
    let wrong =
        |what: &str| Err(PluginError(format!("the plugin `{plugin}` answered {hook} {what}")));
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
