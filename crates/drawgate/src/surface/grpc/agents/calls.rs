//! The calls of one conversation: started, cancelled, answered.

use std::collections::HashMap;
use std::sync::Arc;

use drawgate_core::json;
use drawgate_core::model::{Caller, ErrorCode, Narrowing, ToolError, ToolInvocation, TraceParent};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::source::ProgressSink;
use drawgate_sdk::proto::ToolCall;
use drawgate_sdk::proto::gateway_message::Message;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::outbox::Outbox;
use super::{Shared, convert};
use crate::telemetry::Span;

/// The calls of one agent that are under way.
pub(super) struct Calls {
    shared: Arc<Shared>,
    caller: Arc<Caller>,
    outbox: Outbox,
    open: Arc<Mutex<HashMap<String, CancellationToken>>>,
    /// Permits for calls whose results the agent has not received yet.
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
}

/// A call under way, until this is dropped.
struct ActiveCall {
    open: Arc<Mutex<HashMap<String, CancellationToken>>>,
    id: String,
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.open.lock().remove(&self.id);
    }
}

impl Calls {
    pub(super) fn new(shared: Arc<Shared>, caller: Arc<Caller>, outbox: Outbox) -> Self {
        // More than the gate lets this caller have under way would only wait to be refused.
        let permits = shared.gateway.settings().max_calls_per_caller;
        Self {
            shared,
            caller,
            outbox,
            open: Arc::default(),
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            tasks: TaskTracker::new(),
        }
    }

    /// Starts a call. One that can't be started is answered at once, by the message returned.
    pub(super) async fn start(&self, call: ToolCall) -> Result<(), Message> {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            let message = "too many of your calls are under way; wait for some to end";
            return Err(self.refuse(call, ErrorCode::RateLimited, message).await);
        };
        let cancel = self.outbox.until_over();
        let Some(active) = self.enter(&call.request_id, &cancel) else {
            let message = "a call with this `request_id` is under way; choose another";
            return Err(self.refuse(call, ErrorCode::Conflict, message).await);
        };
        let (shared, caller, outbox) =
            (Arc::clone(&self.shared), Arc::clone(&self.caller), self.outbox.clone());
        self.tasks.spawn(async move {
            let answer = perform(&shared, &caller, call, cancel, &outbox).await;
            deliver(active, permit, &outbox, answer).await;
        });
        Ok(())
    }

    /// Has the gate refuse a call, so that it is in the audit log like any other.
    pub(super) async fn refuse(&self, call: ToolCall, code: ErrorCode, message: &str) -> Message {
        refuse(&self.shared, &self.caller, call, ToolError::new(code, message)).await
    }

    fn enter(&self, id: &str, cancel: &CancellationToken) -> Option<ActiveCall> {
        let mut open = self.open.lock();
        if open.contains_key(id) {
            return None;
        }
        open.insert(id.to_owned(), cancel.clone());
        Some(ActiveCall { open: Arc::clone(&self.open), id: id.to_owned() })
    }

    /// Cancels a call. One that has ended meanwhile has been answered.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(cancel) = self.open.lock().get(id) {
            cancel.cancel();
        }
    }

    /// From now on [`Self::ended`] waits for the end of the last call.
    pub(super) fn last(&self) {
        self.tasks.close();
    }

    /// Waits until all calls have been answered, once none is to come.
    pub(super) async fn ended(&self) {
        self.tasks.wait().await;
    }
}

/// Hands a result over. Its id is free by then: the agent may use it again as soon as it reads this.
async fn deliver(
    active: ActiveCall,
    permit: OwnedSemaphorePermit,
    outbox: &Outbox,
    answer: Message,
) {
    drop(active);
    // If nobody listens, the result is in the audit log at least.
    let _ = outbox.send(answer).await;
    drop(permit);
}

async fn perform(
    shared: &Shared,
    caller: &Caller,
    call: ToolCall,
    cancel: CancellationToken,
    outbox: &Outbox,
) -> Message {
    let max = shared.gateway.settings().max_argument_bytes;
    let arguments = match arguments(&call.input_json, max) {
        Ok(arguments) => arguments,
        Err(message) => {
            let error = ToolError::new(ErrorCode::InvalidArguments, message);
            return refuse(shared, caller, call, error).await;
        }
    };
    let trace = TraceParent::parse(&call.traceparent);
    let span = shared.spans.start(trace.as_ref());
    let reports = call.progress.then(|| Arc::new(Reports::new(&call.request_id, outbox)));
    let options = CallOptions {
        progress: reports.clone().map(|reports| reports as Arc<dyn ProgressSink>),
        cancel,
        trace: span.as_ref().map(Span::context).or(trace),
        ..CallOptions::default()
    };
    let narrowing = Narrowing {
        grant_ids: call.grants.map(|grants| grants.ids.into_iter().map(Into::into).collect()),
        redact_keys: call.redact_keys,
        run_id: Some(call.run_id).filter(|id| !id.is_empty()),
        timeout_ms: Some(call.timeout_ms).filter(|limit| *limit > 0),
    };
    let invocation = narrowing.of(ToolInvocation {
        tool_id: call.tool_name,
        request_id: call.request_id.clone(),
        arguments,
        ..ToolInvocation::default()
    });
    let result = shared.gateway.call(caller, invocation, options).await;
    if let Some(span) = span {
        span.end(caller, &result);
    }
    if let Some(last) = reports.and_then(|reports| reports.held.lock().take()) {
        // If nobody listens, there is nobody to tell.
        let _ = outbox.send(last).await;
    }
    convert::result(call.request_id, &result)
}

async fn refuse(shared: &Shared, caller: &Caller, call: ToolCall, error: ToolError) -> Message {
    let ToolCall { request_id, tool_name, .. } = call;
    let result = shared.gateway.refuse(caller, &tool_name, &request_id, error).await;
    convert::result(request_id, &result)
}

/// The arguments of a call; none at all is an empty object.
fn arguments(text: &str, max: u64) -> Result<Map<String, Value>, String> {
    // Before it is parsed: a value takes many times the memory of its text.
    if text.len() as u64 > max {
        return Err(format!("the arguments are larger than {max} bytes"));
    }
    if text.is_empty() {
        return Ok(Map::new());
    }
    match json::parse(text.as_bytes()) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("`input_json` must be a JSON object".to_owned()),
        Err(error) => Err(format!("`input_json`: {error}")),
    }
}

struct Reports {
    id: String,
    outbox: Outbox,
    /// The last report, if there was no room for it: it comes before the result.
    held: Mutex<Option<Message>>,
}

impl Reports {
    fn new(id: &str, outbox: &Outbox) -> Self {
        Self { id: id.to_owned(), outbox: outbox.clone(), held: Mutex::default() }
    }
}

impl ProgressSink for Reports {
    fn report(&self, progress: Map<String, Value>) {
        let report = convert::progress(self.id.clone(), &progress);
        *self.held.lock() = self.outbox.send_or_return(report);
    }
}
