//! Tools of the program itself: JavaScript functions, or a manifest whose calls nobody performs yet.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use drawgate_core::clock::Clock;
use drawgate_core::model::{McpManifest, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::calls::ToolCalls;
use crate::mailbox::{Full, Mailbox};

/// The longest answer of a JavaScript tool.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// Tools that are JavaScript functions.
///
/// A function can't be stopped from here. When nobody waits for it any more, its `signal` is told; what it
/// answers after that is dropped.
pub(crate) struct JsSource {
    pub(crate) manifest: McpManifest,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) calls: Arc<ToolCalls>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// A call that JavaScript has been asked to make.
struct Asked<'a> {
    source: &'a JsSource,
    id: u32,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.source.calls.end(self.id) {
            self.source.mailbox.abort_tool_call(self.id);
        }
    }
}

#[async_trait]
impl ToolSource for JsSource {
    fn id(&self) -> &SourceId {
        &self.manifest.server_id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Ok(self.manifest.clone())
    }

    fn confinement(&self, _tool: &str) -> Option<&'static str> {
        Some("none")
    }

    fn after_timeout(&self) -> Option<&'static str> {
        Some("its JavaScript may go on, since it can't be stopped")
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        let left = cx.deadline.at().saturating_duration_since(Instant::now());
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let asked = json!({
            "server": self.manifest.server_id,
            "tool": call.tool(),
            "callId": call.call_id(),
            "deadline": self.clock.now_ms().saturating_add(left),
            "arguments": call.into_arguments(),
        });
        let (id, answer) = self.calls.begin(cx.progress.clone());
        let _asked = Asked { source: self, id };
        self.mailbox.tool_call(id, &asked).map_err(|Full| {
            SourceError::unreachable("too many calls wait for JavaScript; try again later")
        })?;
        let ended = |_| SourceError::lost("the JavaScript that performs this tool has ended");
        read(&answer.await.map_err(ended)?)
    }
}

/// What the handler came to.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    value: Value,
    error: Option<String>,
}

fn read(text: &str) -> Result<ToolOutput, SourceError> {
    if text.len() > MAX_ANSWER {
        let most = MAX_ANSWER / 1024 / 1024;
        return Err(SourceError::Protocol(format!("the tool's result is larger than {most} MiB")));
    }
    let answer: Answer = serde_json::from_str(text).map_err(|error| {
        SourceError::Protocol(format!("the tool's result is not JSON: {error}"))
    })?;
    if let Some(message) = answer.error {
        return Err(SourceError::Failed { message, details: None });
    }
    match answer.value {
        Value::Null => Ok(ToolOutput::default()),
        Value::String(text) => Ok(ToolOutput::text(text)),
        Value::Object(result) if result.contains_key("content") => whole(result),
        Value::Object(result) => {
            let structured = Value::Object(result);
            let output = ToolOutput::text(structured.to_string());
            Ok(ToolOutput { structured: Some(structured), ..output })
        }
        other => Ok(ToolOutput::text(other.to_string())),
    }
}

/// A result in the form of MCP.
fn whole(mut result: Map<String, Value>) -> Result<ToolOutput, SourceError> {
    let content = match result.shift_remove("content") {
        Some(Value::Array(content)) if content.iter().all(is_block) => content,
        _ => {
            let message = "the tool's result has a `content` that is not a list of content blocks";
            return Err(SourceError::Invalid(message.to_owned()));
        }
    };
    let is_error = result.shift_remove("isError").is_some_and(|it| it == Value::Bool(true));
    let structured = result.shift_remove("structuredContent");
    Ok(ToolOutput { content, structured, is_error, rest: result, input_required: None })
}

fn is_block(block: &Value) -> bool {
    block.get("type").is_some_and(Value::is_string)
}

/// A manifest whose calls nobody performs yet.
pub(crate) struct Promised(pub(crate) McpManifest);

#[async_trait]
impl ToolSource for Promised {
    fn id(&self) -> &SourceId {
        &self.0.server_id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Ok(self.0.clone())
    }

    async fn call(&self, _: PermittedCall, _: &CallContext) -> Result<ToolOutput, SourceError> {
        Err(SourceError::unreachable(format!(
            "only the manifest of `{}` is registered; call `registerServer` or `registerTools` with that id",
            self.0.server_id
        )))
    }
}
