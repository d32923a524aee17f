//! A pack: its tools, and what the gateway is told about them.
//!
//! What a tool is lies in `tool`, what it is given in `call`, and how calls come in and answers go
//! out in `client` and `connection`.

mod answer;
mod call;
mod client;
mod connection;
mod definition;
mod execution;
mod tool;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::proto;

pub use answer::{Answer, ToolError};
pub use call::Call;
pub use client::PackClient;
pub use definition::{Definition, NoInput, tool};
pub use tool::{FnTool, Tool};

use tool::AnyTool;

/// How many calls run at once unless the pack says otherwise.
const DEFAULT_CONCURRENCY: u32 = 64;
/// How long a cancelled call may clean up.
const DEFAULT_CANCEL_GRACE: Duration = Duration::from_secs(1);

/// A pack: an id, a version and tools.
///
/// ```
/// use drawgate_sdk::{Call, NoInput, Pack, ToolError, tool};
///
/// async fn uptime(_: NoInput, _: Call) -> Result<String, ToolError> {
///     Ok(std::fs::read_to_string("/proc/uptime")?)
/// }
///
/// let pack = Pack::new("machine-room", "1.0.0")
///     .tool(tool("uptime", "Says how long the machine has been running.").run(uptime))
///     .tool(
///         tool("double", "Doubles a number.")
///             .capability("math")
///             .run(|number: Number, _| async move { Ok::<_, ToolError>(number.value * 2.0) }),
///     );
/// assert_eq!(pack.manifest().tools.len(), 2);
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Number {
///     /// What is to be doubled.
///     value: f64,
/// }
/// ```
pub struct Pack {
    id: String,
    version: String,
    definitions: Vec<proto::ToolDefinition>,
    tools: BTreeMap<String, Arc<dyn AnyTool>>,
    concurrency: u32,
    cancel_grace: Duration,
}

impl Pack {
    /// A pack without tools. The id must be the name that the gateway knows its key by.
    #[must_use]
    pub fn new(id: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            version: version.into(),
            definitions: Vec::new(),
            tools: BTreeMap::new(),
            concurrency: DEFAULT_CONCURRENCY,
            cancel_grace: DEFAULT_CANCEL_GRACE,
        }
    }

    /// Adds a tool. Its definition is asked for once, here; the gateway judges it.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Self {
        let definition = tool.definition().into_proto();
        self.tools.insert(definition.name.clone(), Arc::new(tool));
        self.definitions.push(definition);
        self
    }

    /// Runs at most this many calls at once; the gateway keeps further ones waiting.
    #[must_use]
    pub fn max_concurrent_calls(mut self, limit: u32) -> Self {
        self.concurrency = limit.max(1);
        self
    }

    /// How long a call that was cancelled may go on, to clean up after itself. Then its future is
    /// dropped.
    #[must_use]
    pub const fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace;
        self
    }

    /// The pack's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the gateway is told.
    #[must_use]
    pub fn manifest(&self) -> proto::PackManifest {
        let features = [
            proto::PackFeature::Cancel,
            proto::PackFeature::Heartbeat,
            proto::PackFeature::Shutdown,
        ];
        proto::PackManifest {
            pack_id: self.id.clone(),
            version: self.version.clone(),
            tools: self.definitions.clone(),
            features: features.map(i32::from).to_vec(),
            max_concurrent_calls: self.concurrency,
        }
    }
}

impl std::fmt::Debug for Pack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pack")
            .field("id", &self.id)
            .field("version", &self.version)
            .field("tools", &self.tools.keys())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "pack_tests.rs"]
mod tests;
