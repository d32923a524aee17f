//! A connected pack, as a source of tools.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use drawgate_core::model::{McpManifest, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, Sent, SourceError, ToolSource};
use serde_json::{Value, json};

use super::answer;
use super::connection::{PackConnection, ToolCall};
use super::ending::{Ending, unavailable};
use super::manifest::Features;
use super::outgoing::Outgoing;

/// A pack on one connection. A pack that connects again is another one.
pub struct PackSource {
    manifest: McpManifest,
    connection: Arc<PackConnection>,
}

impl PackSource {
    /// A pack with this manifest, and what is sent to it. `stamp` differs for every connection;
    /// `calls` is how many may be under way at once.
    #[must_use]
    pub fn new(
        manifest: McpManifest,
        features: Features,
        calls: usize,
        stamp: String,
    ) -> (Arc<Self>, Outgoing) {
        let (connection, outgoing) = PackConnection::new(stamp, features, calls);
        (Arc::new(Self { manifest, connection }), outgoing)
    }

    /// Its connection.
    #[must_use]
    pub fn connection(&self) -> &Arc<PackConnection> {
        &self.connection
    }

    fn unavailable(&self, sent: Sent) -> SourceError {
        unavailable(self.manifest.server_id.as_str(), sent)
    }
}

#[async_trait]
impl ToolSource for PackSource {
    fn id(&self) -> &SourceId {
        &self.manifest.server_id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        match self.connection.ending() {
            None => Ok(self.manifest.clone()),
            Some(_) => Err(self.unavailable(Sent::Nothing)),
        }
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        let left = cx.deadline.at().saturating_duration_since(Instant::now());
        let input_json = serde_json::to_string(call.arguments())
            .map_err(|error| SourceError::Protocol(format!("the arguments: {error}")))?;
        let wanted = ToolCall {
            tool: call.tool().to_owned(),
            input_json,
            timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            traceparent: cx
                .trace
                .as_ref()
                .map(|trace| trace.as_str().to_owned())
                .unwrap_or_default(),
            progress: cx.progress.clone(),
        };
        match self.connection.call(wanted).await {
            Ok(given) => answer::read(given),
            Err(sent) => Err(self.unavailable(sent)),
        }
    }

    fn diagnostics(&self) -> Value {
        json!({
            "connected": self.connection.ending().is_none(),
            "callsUnderWay": self.connection.calls_under_way(),
            "answersDropped": self.connection.answers_dropped(),
        })
    }

    async fn close(&self) {
        self.connection.end(Ending::Replaced);
    }
}
