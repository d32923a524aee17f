//! The result of a tool in the protocol's form. What a model can act upon is a result with `isError`; a tool
//! that is not there, and an error of the tool's own server, are errors of the protocol.

use drawgate_core::model::{Disclosure, ErrorCode, OWN_META, ToolError, ToolResult};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::era::Era;
use super::message::{INTERNAL_ERROR, INVALID_PARAMS, RpcError};
use super::stateless::result_meta;

/// Where the gate's own error code and details stand in a result.
const META_ERROR: &str = "drawgate/error";

/// What the result of a task is, which only the era without sessions has.
pub(crate) fn value(asked: &str, result: &ToolResult) -> Result<Value, RpcError> {
    check(asked, result)?;
    if let Some(questions) = questions(result) {
        return Ok(questions);
    }
    serde_json::to_value(ToolView::of(Era::Stateless, result))
        .map_err(|_| RpcError::new(INTERNAL_ERROR, "the result could not be written"))
}

/// Finds what is an error of the protocol.
pub(crate) fn check(asked: &str, result: &ToolResult) -> Result<(), RpcError> {
    let Some(error) = &result.error else { return Ok(()) };
    let hidden =
        error.disclosure == Disclosure::ToolIsHidden || error.code == ErrorCode::ResourceNotFound;
    if hidden {
        return Err(RpcError::new(INVALID_PARAMS, ToolError::unknown_tool(asked).message));
    }
    relayed(error).map_or(Ok(()), Err)
}

/// The questions in a result, as a client without a session gets them.
pub(crate) fn questions(result: &ToolResult) -> Option<Value> {
    let required = result.input_required.as_deref()?;
    let (key, server) = result_meta();
    let mut value = json!({
        "resultType": "input_required",
        "inputRequests": required.requests,
        "_meta": { key: server },
    });
    if let Some(state) = &required.state {
        value["requestState"] = state.as_str().into();
    }
    Some(value)
}

/// An error that the tool's own server gave in the protocol's form goes on in that form.
pub(crate) fn relayed(error: &ToolError) -> Option<RpcError> {
    let details = error.details.as_ref().filter(|_| error.code == ErrorCode::ExecutionFailed)?;
    let code = details.get("code")?.as_i64()?;
    let relayed = RpcError::new(code, error.message.clone());
    Some(match details.get("data") {
        Some(data) if !data.is_null() => relayed.with_data(data.clone()),
        _ => relayed,
    })
}

/// A tool result as MCP writes it.
pub(crate) struct ToolView<'a> {
    era: Era,
    result: &'a ToolResult,
}

impl<'a> ToolView<'a> {
    pub(crate) fn of(era: Era, result: &'a ToolResult) -> Self {
        Self { era, result }
    }
}

impl Serialize for ToolView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let result = self.result;
        let mut map = serializer.serialize_map(None)?;
        if self.era == Era::Stateless {
            map.serialize_entry(
                "resultType",
                result.rest.get("resultType").unwrap_or(&json!("complete")),
            )?;
        }
        // Before 2026-07-28 it had to be an object, and clients refuse anything else.
        let fits = |value: &&Value| self.era == Era::Stateless || value.is_object();
        let structured = result.structured_content.as_ref();
        let text = |text: String| [json!({ "type": "text", "text": text })];
        match (&result.error, structured) {
            (Some(error), _) if result.content.is_empty() => {
                let said = format!("{}: {}", error.code, error.message);
                map.serialize_entry("content", &text(said))?;
            }
            (None, Some(value)) if result.content.is_empty() && !fits(&value) => {
                map.serialize_entry("content", &text(value.to_string()))?;
            }
            _ => map.serialize_entry("content", &result.content)?,
        }
        if let Some(structured) = structured.filter(fits) {
            map.serialize_entry("structuredContent", structured)?;
        }
        if !result.success {
            map.serialize_entry("isError", &true)?;
        }
        for (key, value) in &result.rest {
            let taken =
                ["resultType", "_meta", "content", "structuredContent"].contains(&key.as_str());
            if !taken && (key != "isError" || result.success) {
                map.serialize_entry(key, value)?;
            }
        }
        let meta = self.meta();
        if !meta.is_empty() {
            map.serialize_entry("_meta", &meta)?;
        }
        map.end()
    }
}

impl ToolView<'_> {
    fn meta(&self) -> Map<String, Value> {
        let mut meta = match self.result.rest.get("_meta") {
            Some(Value::Object(meta)) => meta.clone(),
            _ => Map::new(),
        };
        // No server speaks in the gate's name.
        meta.retain(|key, _| !key.starts_with(OWN_META));
        if self.era == Era::Stateless {
            let (key, value) = result_meta();
            meta.insert(key, value);
        }
        // Of a failure of the tool's own, the content says all.
        let is_own = |error: &&ToolError| {
            error.code == ErrorCode::ExecutionFailed && !self.result.content.is_empty()
        };
        if let Some(error) = self.result.error.as_ref().filter(|error| !is_own(error)) {
            meta.insert(META_ERROR.to_owned(), serde_json::to_value(error).unwrap_or_default());
        }
        meta
    }
}
