//! What a pack answered, as the result of a call.

use drawgate_core::json;
use drawgate_core::model::ToolOutput;
use drawgate_core::source::SourceError;
use drawgate_sdk::proto::execute_tool_response::Result as Answer;
use serde_json::Value;

/// Turns an answer into the output of the call. An error is passed on as the pack wrote it.
pub(super) fn read(answer: Option<Answer>) -> Result<ToolOutput, SourceError> {
    match answer {
        Some(Answer::OutputJson(text)) => output(text),
        Some(Answer::McpResultJson(text)) => mcp_result(&text),
        Some(Answer::Error(message)) => Ok(ToolOutput::failure(message)),
        None => Err(SourceError::Protocol(
            "the pack's answer is empty; it must have `output_json`, `error` or `mcp_result_json`"
                .to_owned(),
        )),
    }
}

/// A string is the text itself; anything else is structured, and its JSON the text.
fn output(text: String) -> Result<ToolOutput, SourceError> {
    match parse(&text, "output_json")? {
        Value::String(text) => Ok(ToolOutput::text(text)),
        value => {
            // A copy is made only where the pack wrote more than the value needs.
            let compact = if is_spaced(&text) { value.to_string() } else { text };
            Ok(ToolOutput { structured: Some(value), ..ToolOutput::text(compact) })
        }
    }
}

fn mcp_result(text: &str) -> Result<ToolOutput, SourceError> {
    let Value::Object(mut result) = parse(text, "mcp_result_json")? else {
        return Err(wrong("`mcp_result_json` must be an object"));
    };
    if !result.contains_key("content") && !result.contains_key("structuredContent") {
        return Err(wrong("`mcp_result_json` has no `content`"));
    }
    let content = match result.shift_remove("content") {
        Some(Value::Array(blocks)) if blocks.iter().all(Value::is_object) => blocks,
        None => Vec::new(),
        Some(_) => return Err(wrong("`content` in `mcp_result_json` must be an array of objects")),
    };
    let is_error = match result.shift_remove("isError") {
        Some(Value::Bool(is_error)) => is_error,
        None => false,
        Some(_) => return Err(wrong("`isError` in `mcp_result_json` must be true or false")),
    };
    let structured = result.shift_remove("structuredContent");
    Ok(ToolOutput { content, structured, is_error, rest: result, input_required: None })
}

fn parse(text: &str, field: &str) -> Result<Value, SourceError> {
    json::parse_lossy(text.as_bytes()).map_err(|error| {
        SourceError::Protocol(format!("the pack's `{field}`: {}", error.about(text.as_bytes())))
    })
}

fn wrong(message: &str) -> SourceError {
    SourceError::Protocol(format!("the pack's answer can't be used: {message}"))
}

/// Whether there may be white space between the parts of a JSON text.
fn is_spaced(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_whitespace())
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
