//! One call of a tool, as the tool sees it.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::ToolError;
use crate::gateway::Line;
use crate::proto::ToolProgress;
use crate::proto::pack_service_client::PackServiceClient;

/// One call of a tool: its arguments, its time, and a way to tell how it is getting on.
#[derive(Debug, Clone)]
pub struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) deadline: Option<Instant>,
    pub(super) traceparent: Option<String>,
    pub(super) cancelled: CancellationToken,
    pub(super) gateway: Option<PackServiceClient<Line>>,
}

impl Call {
    /// A call that no gateway made, to try a tool in a test.
    #[must_use]
    pub fn detached(tool: impl Into<String>, arguments: Value) -> Self {
        Self {
            id: String::new(),
            tool: tool.into(),
            arguments,
            deadline: None,
            traceparent: None,
            cancelled: CancellationToken::new(),
            gateway: None,
        }
    }

    /// The gateway's id of this call.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name of the tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The arguments, which the gateway has checked against the tool's schema.
    #[must_use]
    pub const fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// The arguments as a type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        T::deserialize(&self.arguments)
            .map_err(|error| ToolError::new(format!("invalid arguments: {error}")))
    }

    /// Until when the gateway waits for the answer, if it said so.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How long the gateway still waits for the answer, if it said so.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// The W3C trace context of the call, if it has one.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// Ends when nobody waits for the answer any more: the caller cancelled, the time is over, or
    /// the gateway is lost.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// The token behind [`Call::cancelled`], for code that wants one.
    #[must_use]
    pub const fn cancellation(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Tells the caller how far the call is: `progress` of `total`, if that is known. It comes back
    /// once the gateway has it, so a tool can't flood it; news that get lost don't fail the call.
    pub async fn progress(&self, progress: f64, total: Option<f64>, message: &str) {
        let Some(mut gateway) = self.gateway.clone() else { return };
        let news = ToolProgress {
            request_id: self.id.clone(),
            progress,
            total,
            message: message.to_owned(),
        };
        tokio::select! {
            () = self.cancelled.cancelled() => {}
            sent = gateway.progress(news) => {
                if let Err(error) = sent {
                    tracing::debug!(%error, "progress was not delivered");
                }
            }
        }
    }
}
