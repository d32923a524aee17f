//! Servers that make a task of a call. In the era without sessions the task is followed to its end, also
//! after a restart of the gateway; in the other one, a tool may say that it works as a task only.

use std::time::{Duration, Instant};

use drawgate_core::model::{InputGiven, InputRequired, ToolOutput};
use drawgate_core::source::{CallContext, SourceError};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::{Peer, too_late, wire};

/// The extension's name.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// What tells a task's id from a server's own state.
const STATE: &str = "task:";
/// How often a task is looked at, at the most, at the least, and if the server does not say.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(10);
const USUAL: Duration = Duration::from_secs(1);
/// How long it may take to tell a server that a task is not wanted any more.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest id that is taken.
const MAX_ID: usize = 1024;

/// The task that answers belong to, if they belong to one.
pub(super) fn answered(input: Option<&InputGiven>) -> Option<&str> {
    input?.state.as_deref()?.strip_prefix(STATE)
}

/// The id of a task that a server made.
pub(super) fn id_of(result: &Map<String, Value>) -> Result<String, SourceError> {
    let id = result.get("taskId").and_then(Value::as_str);
    match id.filter(|id| !id.is_empty() && id.len() <= MAX_ID) {
        Some(id) => Ok(id.to_owned()),
        None => Err(SourceError::Protocol("the server's task has no `taskId`".to_owned())),
    }
}

/// Gives a task the answers that it waits for.
pub(super) async fn answer(
    peer: &Peer,
    id: &str,
    input: &InputGiven,
    cx: &CallContext,
) -> Result<(), SourceError> {
    let mut params = named(id);
    params.insert("inputResponses".to_owned(), Value::Object(input.responses.clone()));
    peer.ask("tasks/update", &params, cx.deadline.latest()).await.map(drop)
}

/// Waits for a task's end, or its next questions.
pub(super) async fn follow(
    peer: &Peer,
    id: &str,
    cx: &CallContext,
) -> Result<ToolOutput, SourceError> {
    if let Some(progress) = &cx.progress {
        progress.handle(id);
    }
    let guard = Unwanted::new(peer, id, cx);
    let followed = cx.deadline.bound(until_over(peer, id, cx)).await;
    let followed = followed.map_err(|_| too_late())?;
    guard.disarm();
    followed
}

async fn until_over(peer: &Peer, id: &str, cx: &CallContext) -> Result<ToolOutput, SourceError> {
    loop {
        let mut task = peer.ask("tasks/get", &named(id), cx.deadline.latest()).await?.result;
        match task.get("status").and_then(Value::as_str) {
            Some("working") => sleep(pause(&task)).await,
            Some("input_required") => {
                let requests = match task.shift_remove("inputRequests") {
                    Some(Value::Object(requests)) if !requests.is_empty() => requests,
                    _ => {
                        // The answers are on their way.
                        sleep(pause(&task)).await;
                        continue;
                    }
                };
                let state = Some(format!("{STATE}{id}"));
                return Ok(ToolOutput::question(InputRequired { requests, state }));
            }
            Some("completed") => {
                return match task.shift_remove("result") {
                    Some(Value::Object(mut result)) => {
                        result.shift_remove("resultType");
                        wire::output(result)
                    }
                    _ => Err(SourceError::Protocol("the server's task has no result".to_owned())),
                };
            }
            Some("failed") => {
                let error = task.shift_remove("error").unwrap_or_default();
                return Err(wire::failure(error));
            }
            Some("cancelled") => {
                let message = "the server has cancelled the task".to_owned();
                return Err(SourceError::Failed { message, details: None });
            }
            _ => return Err(SourceError::Protocol("the server's task has no status".to_owned())),
        }
    }
}

fn pause(task: &Map<String, Value>) -> Duration {
    let asked = task.get("pollIntervalMs").and_then(Value::as_u64);
    asked.map_or(USUAL, Duration::from_millis).clamp(SHORTEST, LONGEST)
}

fn named(id: &str) -> Map<String, Value> {
    Map::from_iter([("taskId".to_owned(), json!(id))])
}

/// Tells the server when a caller gives its call up or time runs out. A gateway that ends does not:
/// its successor takes the task up again.
pub(super) struct Unwanted<'a> {
    peer: &'a Peer,
    id: &'a str,
    cx: &'a CallContext,
    armed: bool,
}

impl<'a> Unwanted<'a> {
    pub(super) fn new(peer: &'a Peer, id: &'a str, cx: &'a CallContext) -> Self {
        Self { peer, id, cx, armed: true }
    }

    /// The task is over, or its caller is asked.
    pub(super) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Unwanted<'_> {
    fn drop(&mut self) {
        let late = self.cx.deadline.at() <= Instant::now();
        if !self.armed || !(late || self.cx.cancel.is_cancelled()) {
            return;
        }
        let (peer, params) = (self.peer.clone(), named(self.id));
        // There is no runtime to send with while the program ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let deadline = Instant::now() + CANCEL_TIMEOUT;
                if let Err(error) = peer.ask("tasks/cancel", &params, deadline).await {
                    tracing::debug!(%error, "a server was not told that a task is not wanted");
                }
            });
        }
    }
}
