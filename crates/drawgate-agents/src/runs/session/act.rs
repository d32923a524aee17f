//! Making the calls that a model asks for, through the gate like any other caller. They are made in the order
//! of the model; side by side only where no call could change what another one finds.

use std::sync::Arc;

use drawgate_core::model::{ErrorCode, ToolInvocation, ToolResult};
use drawgate_core::pipeline::{CallOptions, WhileAsked};
use drawgate_core::policy::ApprovalState;
use drawgate_core::store::{NewArtifact, StoreError};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Map, Value};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Session;
use super::answer::{CORRECTIONS, RETURN_RESULT};
use super::conversation::work_reply;
use crate::model::{Arguments, Reply, Stop, ToolCall};
use crate::runs::ended::{Finish, describe_end};
use crate::runs::feed::Happened;
use crate::runs::live::{Live, Phase};
use crate::runs::pool::Amount;
use crate::runs::record::{CallOutcome, End, Ending, Report, Step, StepBody};
use crate::runs::store::Change;

/// Calls of one run at once.
const CALLS_AT_ONCE: usize = 8;
/// Bytes of a result that a model reads; of a longer one it reads the beginning and the end.
const MAX_RESULT: usize = 48 * 1024;
const HEAD: usize = 32 * 1024;
const TAIL: usize = 8 * 1024;
/// Bytes of a result that those who watch see.
const SHOWN: usize = 400;
/// How often the same call may fail in the same way before the model is warned, and before the run ends.
const WARNED_AT: usize = 3;
const STUCK_AT: usize = 5;

/// The tool by which a run reads long results.
pub(crate) const READ: &str = "artifact_read";

/// The member of a call's metadata that holds the step it belongs to.
pub(crate) const STEP_KEY: &str = "drawgate/step";

/// With what a call may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overlap {
    /// It changes nothing: with others that change nothing.
    Reads,
    /// It starts an agent and waits for it: with other agents, which is what they are started for.
    Agents,
    /// With nothing.
    None,
}

impl Session {
    /// Stores the calls of a reply; none of them has begun yet.
    pub(super) async fn begin_calls(&self, reply: &Reply) -> Result<Option<Finish>, StoreError> {
        let calls: Vec<&ToolCall> = reply.calls().collect();
        let amount = Amount::calls(calls.len());
        if let Err(error) = self.runs.0.pools.reserve(&self.run.path, amount) {
            return Ok(Some(Finish::because(Ending::Budget, error.to_string())));
        }
        let first = self.new_step(StepBody::Trimmed { before: 0 }, None);
        let steps: Vec<Step> = (first.seq..)
            .zip(calls)
            .map(|(seq, call)| Step {
                seq,
                at: first.at,
                until: None,
                body: StepBody::Call { call: call.clone(), outcome: None },
            })
            .collect();
        let changes: Vec<Change<'_>> =
            steps.iter().map(|step| Change::Step(&self.run.id, step)).collect();
        let stored = self.runs.0.store.commit(&changes).await;
        let spent = if stored.is_ok() { amount } else { Amount::default() };
        self.runs.0.pools.settle(&self.run.path, amount, spent);
        stored?;
        self.run.steps.lock().extend(steps);
        Ok(None)
    }

    /// Makes calls and stores their outcomes. Calls that were under way when the gateway stopped are
    /// `taken_up`.
    pub(super) async fn perform(
        &self,
        open: Vec<u32>,
        taken_up: bool,
    ) -> Result<Option<Finish>, StoreError> {
        self.run.set_phase(Phase::Acting, self.now());
        let calls = self.overlaps(&open);
        for batch in calls.chunk_by(|one, next| one.1 == next.1 && one.1 != Overlap::None) {
            self.perform_at_once(batch.iter().map(|(seq, _)| *seq), taken_up).await?;
        }
        Ok(self.given_answer(&open).or_else(|| self.stuck(&open)))
    }

    async fn perform_at_once(
        &self,
        mut waiting: impl Iterator<Item = u32>,
        taken_up: bool,
    ) -> Result<(), StoreError> {
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < CALLS_AT_ONCE
                && let Some(seq) = waiting.next()
            {
                running.push(self.perform_one(seq, taken_up));
            }
            match running.next().await {
                Some(outcome) => outcome?,
                None => return Ok(()),
            }
        }
    }

    /// With which of its neighbours each of these calls may overlap.
    fn overlaps(&self, open: &[u32]) -> Vec<(u32, Overlap)> {
        let entries = self.runs.0.gateway.tools(&self.caller);
        let overlap = |name: &str| {
            let entry = entries.iter().find(|entry| entry.wire.as_str() == name);
            match entry {
                Some(entry) if entry.is_read_only() => Overlap::Reads,
                Some(entry) if entry.waits() => Overlap::Agents,
                Some(_) | None => Overlap::None,
            }
        };
        let of = |seq: &u32| {
            let call = self.call_of(*seq);
            (*seq, call.map_or(Overlap::None, |call| overlap(&call.name)))
        };
        open.iter().map(of).collect()
    }

    async fn perform_one(&self, seq: u32, taken_up: bool) -> Result<(), StoreError> {
        let Some(call) = self.call_of(seq) else { return Ok(()) };
        // Held until the outcome is stored.
        let (outcome, _acting) = match (self.cut(&call), &call.arguments) {
            (Some(message), _) => {
                (CallOutcome::failed(ErrorCode::InvalidArguments, &message), None)
            }
            (None, Arguments::Malformed(_)) => {
                let message = "the arguments are not a JSON object; write them again";
                (CallOutcome::failed(ErrorCode::InvalidArguments, message), None)
            }
            (None, Arguments::Object(arguments)) => {
                self.show_call(seq, &call, arguments);
                self.outcome_of(seq, &call, arguments, taken_up).await
            }
        };
        let outcome = self.warned(&call, outcome);
        self.show_result(seq, &call, &outcome);
        self.finish_step(seq, |body| {
            if let StepBody::Call { outcome: kept, .. } = body {
                *kept = Some(outcome);
            }
        })
        .await
    }

    fn call_of(&self, seq: u32) -> Option<ToolCall> {
        let steps = self.run.steps.lock();
        let step = steps.iter().find(|step| step.seq == seq)?;
        match &step.body {
            StepBody::Call { call, .. } => Some(call.clone()),
            StepBody::Message { .. }
            | StepBody::Model { .. }
            | StepBody::Turn { .. }
            | StepBody::Trimmed { .. }
            | StepBody::Summary { .. } => None,
        }
    }

    /// What the model is told of a call that was cut: the last one of a reply that reached the limit of output,
    /// unless its arguments are there. Without any, they may not have been begun.
    fn cut(&self, call: &ToolCall) -> Option<String> {
        let is_whole = match &call.arguments {
            Arguments::Object(arguments) => !arguments.is_empty(),
            Arguments::Malformed(_) => false,
        };
        if is_whole {
            return None;
        }
        let steps = self.run.steps.lock();
        let (_, reply) = steps.iter().rev().find_map(work_reply)?;
        let is_last = reply.calls().last().is_some_and(|last| last.id == call.id);
        (is_last && reply.stop == Stop::MaxOutput).then(|| {
            format!(
                "your reply was cut at its limit of output, after {} tokens, before the arguments were complete; \
                nothing was called. Write less in one reply, or split the work into several calls",
                reply.usage.output
            )
        })
    }

    async fn outcome_of(
        &self,
        seq: u32,
        call: &ToolCall,
        arguments: &Map<String, Value>,
        taken_up: bool,
    ) -> (CallOutcome, Option<TaskTrackerToken>) {
        if let (Some(form), RETURN_RESULT) = (&self.answer, call.name.as_str()) {
            let outcome = match form.of_call(arguments.clone()) {
                Ok(_) => CallOutcome::ok("accepted"),
                Err(fault) => CallOutcome::failed(ErrorCode::ValidationError, &fault),
            };
            return (outcome, None);
        }
        if taken_up {
            if let Some(child) = self.runs.0.child_of(&self.run.id, seq) {
                return (rejoined(&child).await, None);
            }
            if !self.can_be_repeated(&call.name) {
                let message = "the gateway was restarted while the tool was called, and nobody knows \
                    whether it did its work; find out before you call it again";
                return (CallOutcome::failed(ErrorCode::Unavailable, message), None);
            }
        }
        self.through_the_gate(seq, call, arguments).await
    }

    /// Whether a call may be made a second time: the operator says so of the tool, or it only starts and
    /// awaits runs, and none was started.
    fn can_be_repeated(&self, name: &str) -> bool {
        let entries = self.runs.0.gateway.tools(&self.caller);
        let entry = entries.iter().find(|entry| entry.wire.as_str() == name);
        entry.is_some_and(|entry| entry.idempotent || entry.waits())
    }

    /// Calls a tool, and once more each time that a person has approved it.
    async fn through_the_gate(
        &self,
        seq: u32,
        call: &ToolCall,
        arguments: &Map<String, Value>,
    ) -> (CallOutcome, Option<TaskTrackerToken>) {
        let invocation = ToolInvocation {
            tool_id: call.name.clone(),
            request_id: format!("{}/{seq}", self.run.id),
            run_id: Some(self.run.id.to_string()),
            arguments: arguments.clone(),
            meta: Map::from_iter([(STEP_KEY.to_owned(), seq.into())]),
            ..ToolInvocation::default()
        };
        let options = CallOptions { cancel: self.run.cancel.clone(), ..CallOptions::default() };
        let (result, acting) = self.gated(seq, invocation, options).await;
        (self.rendered(call, &result).await, acting)
    }

    /// Makes a call, and once more each time that a person has approved it. A gateway that stops waits for the
    /// token to be dropped, which is when the outcome is stored.
    pub(crate) async fn gated(
        &self,
        seq: u32,
        call: ToolInvocation,
        options: CallOptions,
    ) -> (ToolResult, Option<TaskTrackerToken>) {
        let gateway = &self.runs.0.gateway;
        loop {
            let entries = gateway.tools(&self.caller);
            let waits =
                entries.iter().any(|entry| entry.wire.as_str() == call.tool_id && entry.waits());
            let options = CallOptions {
                trace: self.runs.0.call_context(&self.run, seq).or_else(|| options.trace.clone()),
                as_task: waits,
                // The run's time stands still from the moment at which a person is asked.
                while_asked: WhileAsked::Return,
                ..options.clone()
            };
            let acting = (!waits).then(|| self.runs.0.acting.token());
            let result = gateway.call(&self.caller, call.clone(), options).await;
            let Some(approval) = awaited_approval(&result) else { return (result, acting) };
            drop(acting);
            if !self.is_approved(approval).await {
                return (result, None);
            }
        }
    }

    /// Waits until a person has decided, while the run's time stands still; `false` if nobody did in
    /// time. A call that was denied is made again all the same, and hears so from the gate.
    async fn is_approved(&self, approval: &str) -> bool {
        let pause = self.run.time.pause();
        self.run.set_phase(Phase::Asking, self.now());
        let gateway = &self.runs.0.gateway;
        let mut decisions = gateway.approval_changes();
        let decided = loop {
            match gateway.approval(approval).map(|approval| (approval.state, approval.expires_at)) {
                Some((ApprovalState::Pending, expires_at)) => {
                    let left = expires_at.saturating_sub(self.now());
                    if left == 0 {
                        break false;
                    }
                    let left = std::time::Duration::from_millis(left);
                    // Either somebody decides, or the time runs out; both are looked at above.
                    let _ = tokio::time::timeout(left, decisions.changed()).await;
                }
                Some((ApprovalState::Approved | ApprovalState::Denied, _)) => break true,
                Some((ApprovalState::Used | ApprovalState::Expired, _)) | None => break false,
            }
        };
        drop(pause);
        if !self.run.time.is_paused() {
            self.run.set_phase(Phase::Acting, self.now());
        }
        decided
    }

    /// The result as the model reads it. Of a long one it reads both ends, and where the whole is.
    async fn rendered(&self, call: &ToolCall, result: &ToolResult) -> CallOutcome {
        if let Some(outcome) = rendered_error(result) {
            return outcome;
        }
        let text = text_of(result);
        if text.len() <= MAX_RESULT {
            return CallOutcome::ok(text);
        }
        let artifact = NewArtifact {
            bytes: text.clone().into_bytes(),
            mime_type: "text/plain".to_owned(),
            owner: self.caller.principal.clone(),
            tool_id: result.meta.tool_name.clone(),
            created_at: self.now(),
        };
        let place = match self.runs.0.artifacts.put(artifact).await {
            Ok(artifact) => {
                format!("the whole is `{}`; read it with `{READ}`", artifact.uri)
            }
            Err(error) => {
                tracing::warn!(%error, tool = call.name, "a long result could not be stored");
                "the rest could not be stored".to_owned()
            }
        };
        let (head, tail) = ends(&text);
        let left_out = text.len().saturating_sub(head.len()).saturating_sub(tail.len());
        CallOutcome::ok(format!("{head}\n\n[{left_out} bytes are left out; {place}]\n\n{tail}"))
    }

    /// Adds a warning to a result if the same call failed in the same way before.
    fn warned(&self, call: &ToolCall, outcome: CallOutcome) -> CallOutcome {
        if outcome.error.is_none()
            || self.same_failures(call, &outcome).saturating_add(1) != WARNED_AT
        {
            return outcome;
        }
        let text = format!(
            "{}\n[the same call has failed in the same way {WARNED_AT} times; do something else]",
            outcome.text
        );
        CallOutcome { text, ..outcome }
    }

    /// How often this call has failed with this message.
    fn same_failures(&self, call: &ToolCall, failure: &CallOutcome) -> usize {
        let same = |step: &&Step| match &step.body {
            StepBody::Call { call: other, outcome: Some(outcome) } => {
                (&other.name, &other.arguments) == (&call.name, &call.arguments)
                    && outcome.error == failure.error
                    && outcome.text.starts_with(&failure.text)
            }
            StepBody::Call { outcome: None, .. }
            | StepBody::Message { .. }
            | StepBody::Model { .. }
            | StepBody::Turn { .. }
            | StepBody::Trimmed { .. }
            | StepBody::Summary { .. } => false,
        };
        self.run.steps.lock().iter().filter(same).count()
    }

    /// The end of a run that does the same in vain again and again.
    fn stuck(&self, made: &[u32]) -> Option<Finish> {
        let failed = made.iter().filter_map(|seq| {
            let steps = self.run.steps.lock();
            let step = steps.iter().find(|step| step.seq == *seq)?;
            match &step.body {
                StepBody::Call { call, outcome: Some(outcome) } if outcome.error.is_some() => {
                    Some((call.clone(), outcome.clone()))
                }
                StepBody::Call { .. }
                | StepBody::Message { .. }
                | StepBody::Model { .. }
                | StepBody::Turn { .. }
                | StepBody::Trimmed { .. }
                | StepBody::Summary { .. } => None,
            }
        });
        let stuck = failed
            .into_iter()
            .find(|(call, outcome)| self.same_failures(call, outcome) >= STUCK_AT);
        stuck.map(|(call, _)| {
            let reason =
                format!("`{}` was called in vain {STUCK_AT} times, in the same way", call.name);
            Finish::because(Ending::Stuck, reason)
        })
    }

    /// The end of a run whose answer was given by one of these calls, or was wrong too often.
    fn given_answer(&self, made: &[u32]) -> Option<Finish> {
        let form = self.answer.as_ref()?;
        let calls = made.iter().filter_map(|seq| self.call_of(*seq));
        let mut fault = None;
        for call in calls.filter(|call| call.name == RETURN_RESULT) {
            let Arguments::Object(arguments) = call.arguments else { continue };
            match form.of_call(arguments) {
                Ok(answer) => return Some(Finish::answered(answer)),
                Err(wrong) => fault = Some(wrong),
            }
        }
        let fault = fault.filter(|_| self.faults() > CORRECTIONS)?;
        Some(Finish::because(Ending::Invalid, fault))
    }

    pub(crate) fn show_call(&self, step: u32, call: &ToolCall, arguments: &Map<String, Value>) {
        let mut arguments = Value::Object(arguments.clone());
        self.runs.0.gateway.redactor().mask_known_in(&mut arguments);
        self.run.tell(self.now(), Happened::Call { step, tool: call.name.clone(), arguments });
    }

    pub(crate) fn show_result(&self, step: u32, call: &ToolCall, outcome: &CallOutcome) {
        let text: String = outcome.text.chars().take(SHOWN).collect();
        let (tool, error) = (call.name.clone(), outcome.error);
        self.run.tell(self.now(), Happened::Result { step, tool, error, text });
    }
}

/// The outcome of a call whose child was started before a restart.
async fn rejoined(child: &Arc<Live>) -> CallOutcome {
    let report = child.record.lock().parent.as_ref().map(|parent| parent.report);
    match report {
        Some(Report::Message) => CallOutcome::ok(started(&child.id)),
        Some(Report::Task) => CallOutcome::ok(delegated(child.lineage.task.as_deref())),
        Some(Report::Result) | None => match child.ended().await {
            Some(end) => outcome_of_end(&end),
            None => CallOutcome::failed(ErrorCode::Unavailable, "the run is gone"),
        },
    }
}

/// What a run is told whose delegated work was found again after a restart.
fn delegated(task: Option<&str>) -> String {
    let task = task.unwrap_or_default();
    format!("task `{task}` was delegated; its end will come as a message")
}

/// What a run is told that has started another one and does not wait for it.
pub(crate) fn started(run: &str) -> String {
    format!(
        "started run `{run}`; its end will come as a message, or wait for it with `wait_agents`"
    )
}

fn outcome_of_end(end: &End) -> CallOutcome {
    let text = describe_end(end);
    match end.ending {
        Ending::Done => CallOutcome::ok(text),
        Ending::Invalid => CallOutcome::failed(ErrorCode::ValidationError, &text),
        Ending::Cancelled => CallOutcome::failed(ErrorCode::Cancelled, &text),
        Ending::Deadline => CallOutcome::failed(ErrorCode::Timeout, &text),
        Ending::Failed | Ending::Budget | Ending::Context | Ending::Stuck => {
            CallOutcome::failed(ErrorCode::ExecutionFailed, &text)
        }
    }
}

/// The approval that a refused call waits for.
fn awaited_approval(result: &ToolResult) -> Option<&str> {
    let error = result.error.as_ref()?;
    if error.code != ErrorCode::PermissionEscalationRequired {
        return None;
    }
    error.details.as_ref()?.get("approvalId")?.as_str()
}

/// A result in short, for the steps of a run whose program reads the whole.
pub(crate) fn outlined(result: &ToolResult) -> CallOutcome {
    if let Some(outcome) = rendered_error(result) {
        return outcome;
    }
    let mut text = text_of(result);
    if text.len() > MAX_RESULT {
        let (head, tail) = ends(&text);
        text = format!("{head}\n\n[…]\n\n{tail}");
    }
    CallOutcome::ok(text)
}

fn rendered_error(result: &ToolResult) -> Option<CallOutcome> {
    let error = result.error.as_ref()?;
    let mut outcome = CallOutcome::failed(error.code, &error.message);
    let said = text_of(result);
    if !said.is_empty() && !error.message.contains(&said) {
        let (head, _) = ends(&said);
        outcome.text = format!("{}\n{head}", outcome.text);
    }
    Some(outcome)
}

/// The texts of a result; what is no text is named.
fn text_of(result: &ToolResult) -> String {
    let blocks = result.content.iter().map(|block| {
        let member = |key: &str| block.get(key).and_then(Value::as_str);
        match (member("type"), member("text")) {
            (Some("text"), Some(text)) => text.to_owned(),
            (kind, _) => {
                let mime = member("mimeType").map(|mime| format!(", {mime}")).unwrap_or_default();
                format!("[{}{mime}]", kind.unwrap_or("unknown content"))
            }
        }
    });
    let text = blocks.collect::<Vec<_>>().join("\n");
    match &result.structured_content {
        Some(structured) if text.is_empty() => structured.to_string(),
        Some(_) | None => text,
    }
}

/// The beginning and the end of a long text.
fn ends(text: &str) -> (&str, &str) {
    let head = text.floor_char_boundary(HEAD);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(TAIL)).max(head);
    (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default())
}
