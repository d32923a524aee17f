//! What a tool answers.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::proto::execute_tool_response::Result as Wire;

/// A tool's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Json(String),
    Mcp(String),
}

impl Answer {
    /// Any value: a string becomes text, all else structured output, with its JSON as text beside it.
    pub fn json(value: &impl Serialize) -> Result<Self, ToolError> {
        Ok(Self(Form::Json(serde_json::to_string(value)?)))
    }

    /// Text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self(Form::Json(Value::String(text.into()).to_string()))
    }

    /// A result as MCP has it: an object with `content`, `structuredContent`, `isError`.
    #[must_use]
    pub fn mcp(result: &Value) -> Self {
        Self(Form::Mcp(result.to_string()))
    }

    pub(super) fn into_wire(self) -> Wire {
        match self.0 {
            Form::Json(json) => Wire::OutputJson(json),
            Form::Mcp(json) => Wire::McpResultJson(json),
        }
    }
}

/// Why a tool failed. The text goes to the caller as it is, so it should say what to do about it and
/// hold no secrets.
///
/// Every error type becomes one by `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError(String);

impl ToolError {
    /// With these words.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
