//! From the gate's types to the contract's: definitions, results, progress.

use std::time::Duration;

use drawgate_core::model::{ErrorCode, ToolError, ToolResult};
use drawgate_core::registry::Entry;
use drawgate_sdk::proto::gateway_message::Message;
use drawgate_sdk::proto::tool_call_result::Result as Outcome;
use drawgate_sdk::proto::{ToolCallResult, ToolDefinition, ToolFailure, ToolProgress};
use serde_json::{Map, Value};

/// What a message's fields cost beside their content.
const FIELDS: usize = 64;

/// A tool as an agent is told it: under its wire name, as `listing` shows it.
pub(super) fn definition(entry: &Entry, listing: &Value, longest: Duration) -> ToolDefinition {
    let text = |key: &str| listing.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let json = |key: &str| listing.get(key).map(Value::to_string).unwrap_or_default();
    let timeout = entry.limits.timeout.min(longest).as_millis().div_ceil(1000);
    ToolDefinition {
        name: entry.wire.to_string(),
        description: text("description"),
        input_schema_json: json("inputSchema"),
        required_capabilities: entry.requires.iter().map(ToString::to_string).collect(),
        timeout_seconds: i32::try_from(timeout).unwrap_or(i32::MAX),
        output_schema_json: json("outputSchema"),
        title: text("title"),
        annotations_json: json("annotations"),
    }
}

/// About how many bytes a definition takes in a message.
pub(super) fn size(tool: &ToolDefinition) -> usize {
    let texts = [
        &tool.name,
        &tool.description,
        &tool.input_schema_json,
        &tool.output_schema_json,
        &tool.title,
        &tool.annotations_json,
    ];
    let needs = tool.required_capabilities.iter().map(|text| text.len() + 4);
    texts.into_iter().map(String::len).chain(needs).sum::<usize>() + FIELDS
}

/// The answer to a call.
pub(super) fn result(request_id: String, result: &ToolResult) -> Message {
    let outcome = match &result.error {
        Some(error) => Outcome::Error(failure(error)),
        None if result.success => Outcome::OutputJson(output(result)),
        // The gate asks nobody who did not say that it can answer.
        None => Outcome::Error(failure(&ToolError::new(
            ErrorCode::ExecutionFailed,
            "the tool wants answers, which an agent over gRPC can't give",
        ))),
    };
    let content_json = match result.content.as_slice() {
        [] => String::new(),
        content => serde_json::to_string(content).unwrap_or_default(),
    };
    Message::Result(ToolCallResult { request_id, result: Some(outcome), content_json })
}

fn failure(error: &ToolError) -> ToolFailure {
    ToolFailure {
        code: error.code.as_str().to_owned(),
        message: error.message.clone(),
        details_json: error.details.as_ref().map(Value::to_string).unwrap_or_default(),
    }
}

/// The structured output if the tool has one, and else its text as a JSON string.
fn output(result: &ToolResult) -> String {
    if let Some(structured) = &result.structured_content {
        return structured.to_string();
    }
    let mut texts = result.content.iter().filter_map(|block| block.get("text")?.as_str());
    let text = match (texts.next(), texts.next()) {
        (None, _) => serde_json::to_string(""),
        (Some(only), None) => serde_json::to_string(only),
        (Some(first), Some(second)) => {
            let all: Vec<&str> = [first, second].into_iter().chain(texts).collect();
            serde_json::to_string(&all.join("\n"))
        }
    };
    text.unwrap_or_default()
}

/// News of a call under way, from MCP's form.
pub(super) fn progress(request_id: String, report: &Map<String, Value>) -> Message {
    let number = |key: &str| report.get(key).and_then(Value::as_f64);
    Message::Progress(ToolProgress {
        request_id,
        progress: number("progress").unwrap_or_default(),
        total: number("total"),
        message: report.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
    })
}
