//! A source made of a closure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::model::{McpManifest, McpToolSpec, Offer, Operation, SourceId, ToolOutput};
use crate::source::{CallContext, PermittedCall, SourceError, ToolSource};

type Handler = dyn Fn(&str, Map<String, Value>) -> Result<ToolOutput, SourceError> + Send + Sync;

/// A source whose tools all run one closure.
pub struct FakeSource {
    id: SourceId,
    tools: parking_lot::Mutex<Vec<McpToolSpec>>,
    handler: Box<Handler>,
    changes: watch::Sender<u64>,
    calls: AtomicUsize,
}

impl FakeSource {
    /// A source with these tools.
    pub fn new(
        id: &str,
        tools: Vec<McpToolSpec>,
        handler: impl Fn(&str, Map<String, Value>) -> Result<ToolOutput, SourceError>
        + Send
        + Sync
        + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            id: SourceId::new(id).unwrap_or_else(|error| panic!("{error}")),
            tools: parking_lot::Mutex::new(tools),
            handler: Box::new(handler),
            changes: watch::Sender::new(0),
            calls: AtomicUsize::new(0),
        })
    }

    /// Changes the tools and announces it.
    pub fn set_tools(&self, tools: Vec<McpToolSpec>) {
        *self.tools.lock() = tools;
        self.changes.send_modify(|count| *count += 1);
    }

    /// How often a tool was run.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The manifest, without asking.
    pub fn describe(&self) -> McpManifest {
        McpManifest {
            server_id: self.id.clone(),
            name: "fake".to_owned(),
            version: "1".to_owned(),
            description: None,
            tools: self.tools.lock().clone(),
            offer: Offer::default(),
        }
    }
}

#[async_trait]
impl ToolSource for FakeSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Ok(self.describe())
    }

    async fn call(
        &self,
        call: PermittedCall,
        _cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let name = call.tool().to_owned();
        (self.handler)(&name, call.into_arguments())
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.changes.subscribe())
    }
}

/// A tool that takes anything, with these annotations (`null` for none).
#[must_use]
pub fn tool(name: &str, annotations: &Value) -> McpToolSpec {
    let mut spec =
        json!({ "name": name, "description": "a tool", "inputSchema": { "type": "object" } });
    if !annotations.is_null() {
        spec["annotations"] = annotations.clone();
    }
    serde_json::from_value(spec).unwrap_or_else(|error| panic!("{error}"))
}

/// Operations beside tools, under names that a source might give them.
pub fn operations(wanted: impl IntoIterator<Item = Operation>) -> BTreeMap<Operation, String> {
    wanted.into_iter().map(|operation| (operation, operation_name(operation).to_owned())).collect()
}

/// The name of an operation beside tools, as a source might give it.
#[must_use]
pub const fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::CallTool => "tools/call",
        Operation::ReadResource => "resources/read",
        Operation::Subscribe => "resources/subscribe",
        Operation::Unsubscribe => "resources/unsubscribe",
        Operation::GetPrompt => "prompts/get",
        Operation::Complete => "completion/complete",
        Operation::SetLogLevel => "logging/setLevel",
    }
}
