//! One call from the moment it comes in until its answer is with the gateway.
//!
//! The tool runs in a task of its own: a panic ends that task alone.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;
use tonic::Code;

use super::tool::AnyTool;
use super::{Answer, Call, ToolError};
use crate::gateway::{Line, MAX_MESSAGE};
use crate::proto::ExecuteToolResponse;
use crate::proto::execute_tool_response::Result as Wire;
use crate::proto::pack_service_client::PackServiceClient;

type Outcome = Result<Answer, ToolError>;

/// What a call runs with.
pub(super) struct Execution {
    pub(super) tool: Arc<dyn AnyTool>,
    pub(super) call: Call,
    pub(super) places: Arc<Semaphore>,
    pub(super) cancel_grace: Duration,
}

impl Execution {
    /// Waits for a place, runs the tool and delivers what it answers. Nothing is delivered for a
    /// call that was cancelled.
    pub(super) async fn run(self, gateway: PackServiceClient<Line>) {
        let id = self.call.id.clone();
        if let Some(outcome) = self.outcome().await {
            deliver(gateway, id, outcome).await;
        }
    }

    async fn outcome(self) -> Option<Outcome> {
        let Self { tool, call, places, cancel_grace } = self;
        let cancelled = call.cancelled.clone();
        let deadline = call.deadline.map(Instant::from_std);
        let name = call.tool.clone();
        let _place = tokio::select! {
            () = cancelled.cancelled() => return None,
            place = places.acquire() => place.ok()?,
        };
        let mut running =
            AbortOnDropHandle::new(tokio::spawn(async move { tool.call_any(call).await }));
        tokio::select! {
            ended = &mut running => {
                return Some(ended.unwrap_or_else(|_| Err(panicked(&name))));
            }
            () = cancelled.cancelled() => {}
            () = past(deadline) => cancelled.cancel(),
        }
        // Its answer counts no more; it may only clean up.
        let _ = timeout(cancel_grace, running).await;
        None
    }
}

async fn past(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn panicked(tool: &str) -> ToolError {
    ToolError::new(format!("tool `{tool}` panicked; its pack's log says more"))
}

/// Hands the answer over. If the gateway won't have it, the caller hears that instead of waiting.
pub(super) async fn deliver(mut gateway: PackServiceClient<Line>, id: String, outcome: Outcome) {
    let wire = match outcome {
        Ok(answer) => answer.into_wire(),
        Err(error) => Wire::Error(error.to_string()),
    };
    let mut response = ExecuteToolResponse { request_id: id, result: Some(wire) };
    let size = response.encoded_len();
    if size > MAX_MESSAGE {
        let text = format!("the answer is too large: {size} bytes, and {MAX_MESSAGE} are allowed");
        response.result = Some(Wire::Error(text));
    }
    let request_id = response.request_id.clone();
    let Err(status) = gateway.tool_result(response).await else { return };
    tracing::debug!(%status, "an answer was not delivered");
    if matches!(status.code(), Code::ResourceExhausted | Code::OutOfRange | Code::InvalidArgument) {
        let text = format!("the gateway did not take the answer: {}", status.message());
        let response = ExecuteToolResponse { request_id, result: Some(Wire::Error(text)) };
        if let Err(status) = gateway.tool_result(response).await {
            tracing::debug!(%status, "an error was not delivered");
        }
    }
}
