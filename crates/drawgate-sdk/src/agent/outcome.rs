//! What comes of a call.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::proto;
use crate::proto::tool_call_result::Result as Wire;

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    value: Value,
    content: Vec<Value>,
}

impl ToolOutput {
    /// The structured output if the tool has one, and else its text.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.value
    }

    /// The structured output as a type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.value)
    }

    /// All text of the answer, blocks in lines of their own; the JSON of the output if there is none.
    #[must_use]
    pub fn text(&self) -> String {
        let blocks: Vec<_> =
            self.content.iter().filter_map(|block| block["text"].as_str()).collect();
        match (&self.value, blocks.is_empty()) {
            (_, false) => blocks.join("\n"),
            (Value::String(text), true) => text.clone(),
            (value, true) => value.to_string(),
        }
    }

    /// MCP's content blocks.
    #[must_use]
    pub fn content(&self) -> &[Value] {
        &self.content
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct CallError {
    /// The gateway's code, such as [`CallError::TIMEOUT`].
    pub code: String,
    /// For people and models.
    pub message: String,
    /// More for programs; null if there is nothing.
    pub details: Value,
}

impl CallError {
    /// The tool's time was over.
    pub const TIMEOUT: &'static str = "TIMEOUT";
    /// The tool's source is gone, or the gateway is.
    pub const UNAVAILABLE: &'static str = "UNAVAILABLE";
    /// The agent may not call this tool, or there is none of this name.
    pub const PERMISSION_DENIED: &'static str = "PERMISSION_DENIED";
    /// The arguments don't fit the tool's schema.
    pub const INVALID_ARGUMENTS: &'static str = "INVALID_ARGUMENTS";
    /// There is no such artifact, or none any more.
    pub const RESOURCE_NOT_FOUND: &'static str = "RESOURCE_NOT_FOUND";
    /// The tool itself failed.
    pub const EXECUTION_FAILED: &'static str = "EXECUTION_FAILED";

    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), details: Value::Null }
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Self::UNAVAILABLE, message)
    }
}

/// News of a call under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How much is done.
    pub progress: f64,
    /// Of how much, if that is known.
    pub total: Option<f64>,
    /// What is being done; may be empty.
    pub message: String,
}

impl From<proto::ToolProgress> for Progress {
    fn from(news: proto::ToolProgress) -> Self {
        Self { progress: news.progress, total: news.total, message: news.message }
    }
}

/// Reads the gateway's answer.
pub(super) fn read(result: proto::ToolCallResult) -> Result<ToolOutput, CallError> {
    let unreadable =
        |error| CallError::unavailable(format!("the gateway's answer cannot be read: {error}"));
    match result.result {
        Some(Wire::OutputJson(json)) => Ok(ToolOutput {
            value: serde_json::from_str(&json).map_err(unreadable)?,
            content: optional(&result.content_json).map_err(unreadable)?,
        }),
        Some(Wire::Error(failure)) => Err(CallError {
            code: failure.code,
            message: failure.message,
            details: optional(&failure.details_json).map_err(unreadable)?,
        }),
        None => Err(CallError::unavailable("the gateway's answer is empty")),
    }
}

fn optional<T: DeserializeOwned + Default>(json: &str) -> serde_json::Result<T> {
    if json.is_empty() { Ok(T::default()) } else { serde_json::from_str(json) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(result: Option<Wire>, content: &str) -> proto::ToolCallResult {
        let content_json = content.to_owned();
        proto::ToolCallResult { request_id: "1".to_owned(), result, content_json }
    }

    #[test]
    fn an_output_is_value_content_and_text() {
        let cases = [
            (r#""hi""#, "", json!("hi"), "hi"),
            (r#"{"a":1}"#, "", json!({ "a": 1 }), r#"{"a":1}"#),
            (
                r#"{"a":1}"#,
                r#"[{"type":"text","text":"one"},{"type":"image","data":""},{"type":"text","text":"two"}]"#,
                json!({ "a": 1 }),
                "one\ntwo",
            ),
        ];
        for (output, content, value, text) in cases {
            let output = read(result(Some(Wire::OutputJson(output.to_owned())), content)).unwrap();
            assert_eq!(output.value(), &value);
            assert_eq!(output.text(), text);
        }
    }

    #[test]
    fn a_failure_keeps_its_code_and_details() {
        let failure = proto::ToolFailure {
            code: "TIMEOUT".to_owned(),
            message: "too slow".to_owned(),
            details_json: r#"{"limit_ms":5}"#.to_owned(),
        };
        let error = read(result(Some(Wire::Error(failure)), "")).unwrap_err();
        assert_eq!(error.code, CallError::TIMEOUT);
        assert_eq!(error.to_string(), "TIMEOUT: too slow");
        assert_eq!(error.details, json!({ "limit_ms": 5 }));
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_no_output() {
        for broken in [
            result(None, ""),
            result(Some(Wire::OutputJson("{".to_owned())), ""),
            result(Some(Wire::OutputJson("1".to_owned())), "{}"),
        ] {
            assert_eq!(read(broken).unwrap_err().code, CallError::UNAVAILABLE);
        }
    }
}
