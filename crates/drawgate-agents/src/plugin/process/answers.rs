//! The result of a call, as a plugin answers it.

use drawgate_core::model::ToolOutput;
use drawgate_core::source::SourceError;
use serde_json::{Map, Value};

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
