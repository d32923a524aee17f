//! One call as the program sees it: a future that cancels the call when it is dropped.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::state::{OnProgress, Outcome, Pending, State};
use super::{Agent, CallError, Progress};
use crate::gateway::MAX_MESSAGE;
use crate::proto;
use crate::proto::agent_message::Message;

/// Leaves room for the rest of the message.
const MAX_ARGUMENTS: usize = MAX_MESSAGE - 64 * 1024;

/// A call that is not sent yet. Await it.
#[must_use = "nothing is called before this is awaited"]
pub struct ToolCall {
    agent: Agent,
    tool: String,
    arguments: serde_json::Result<String>,
    timeout: Option<Duration>,
    traceparent: String,
    progress: Option<OnProgress>,
    grants: Option<Vec<String>>,
    redact_keys: Vec<String>,
    run_id: String,
}

impl ToolCall {
    pub(super) fn new(agent: Agent, tool: String, arguments: serde_json::Result<String>) -> Self {
        Self {
            agent,
            tool,
            arguments,
            timeout: None,
            traceparent: String::new(),
            progress: None,
            grants: None,
            redact_keys: Vec::new(),
            run_id: String::new(),
        }
    }

    /// A shorter limit than the tool's own.
    pub const fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// The only grants to use, by their ids, instead of all that the agent holds.
    pub fn grants(mut self, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.grants = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// A key whose value is redacted wherever the call is recorded, beside those that always are.
    pub fn redact(mut self, key: impl Into<String>) -> Self {
        self.redact_keys.push(key.into());
        self
    }

    /// The run that the call belongs to, for the audit log.
    pub fn run(mut self, id: impl Into<String>) -> Self {
        self.run_id = id.into();
        self
    }

    /// W3C trace context.
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.traceparent = traceparent.into();
        self
    }

    /// Is told how far the call is. It must not block; to have a stream, send into a channel.
    pub fn on_progress(mut self, progress: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    async fn send(self) -> Outcome {
        let refused = |text| CallError::new(CallError::INVALID_ARGUMENTS, text);
        let input_json = self
            .arguments
            .map_err(|error| refused(format!("the arguments are no JSON: {error}")))?;
        if input_json.len() > MAX_ARGUMENTS {
            // The gateway would end the whole conversation.
            return Err(refused(format!("the arguments are larger than {MAX_ARGUMENTS} bytes")));
        }
        let state = self.agent.state();
        let (answer, coming) = oneshot::channel();
        let progress = self.progress.is_some();
        let (request_id, outgoing) = state.begin(Pending { answer, progress: self.progress })?;
        // From here on, dropping the future cancels the call.
        let _guard = Guard { state: Arc::clone(state), id: request_id.clone() };
        let call = proto::ToolCall {
            request_id,
            tool_name: self.tool,
            input_json,
            timeout_ms: self.timeout.map_or(0, milliseconds),
            progress,
            traceparent: self.traceparent,
            grants: self.grants.map(|ids| proto::GrantIds { ids }),
            redact_keys: self.redact_keys,
            run_id: self.run_id,
        };
        let gone = || CallError::unavailable("the connection to the gateway was lost");
        outgoing.send(Message::Call(call)).await.map_err(|_| gone())?;
        drop(outgoing);
        coming.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl IntoFuture for ToolCall {
    type Output = Outcome;
    type IntoFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl std::fmt::Debug for ToolCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCall").field("tool", &self.tool).finish_non_exhaustive()
    }
}

/// At least one, for nought would mean no limit.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

struct Guard {
    state: Arc<State>,
    id: String,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.state.abandon(&self.id);
    }
}
