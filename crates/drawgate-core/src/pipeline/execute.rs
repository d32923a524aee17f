//! Execute: the call, within its slots, its time and the caller's patience.

use std::pin::pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::audit::Trace;
use super::authorize::{Confirmed, PermittedCall};
use super::continuation::Handle;
use super::gateway::{CallOptions, Gateway};
use super::time::{CallTime, TimeLimit};
use super::{Refusal, refuse};
use crate::deadline::Deadline;
use crate::fair::FairSlot;
use crate::guard;
use crate::model::{Caller, ErrorCode, ToolOutput};
use crate::policy::Starting;
use crate::redact::Redactor;
use crate::registry::Entry;
use crate::source::{CallContext, ProgressSink, Sent, SourceError, ToolSource};

/// A call that was made.
pub(crate) struct Executed {
    pub(super) entry: Arc<Entry>,
    pub(super) output: ToolOutput,
    /// For the state of a call that is interrupted by a question.
    pub(super) approval: Option<String>,
    pub(super) binding: String,
    pub(super) time: CallTime,
}

/// What became of a permitted call.
#[expect(clippy::large_enum_variant, reason = "the large one is what nearly every call comes to")]
pub(crate) enum Performed {
    Done(Executed),
    /// The rules have changed since the decision, and the source was not called.
    Outdated(PermittedCall),
}

/// Why a call does not start.
enum NotStarted {
    Refused(Refusal),
    Outdated(PermittedCall),
}

impl From<Refusal> for NotStarted {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The slots that a call takes up at its source, and alone at its tool where calls must not overlap.
async fn slots(entry: &Entry, caller: &str) -> (FairSlot, Option<FairSlot>) {
    let slot = entry.slots.acquire(caller).await;
    let alone = match &entry.exclusive {
        Some(exclusive) => Some(exclusive.acquire(caller).await),
        None => None,
    };
    (slot, alone)
}

/// One client, as sources that keep state for each tell them apart.
fn affinity(caller: &Caller) -> Arc<str> {
    match &caller.session {
        Some(session) => [caller.principal.as_str(), "/", session].concat().into(),
        None => caller.principal.as_str().into(),
    }
}

impl Gateway {
    pub(super) async fn execute(
        &self,
        caller: &Caller,
        call: PermittedCall,
        options: &CallOptions,
        trace: &mut Trace,
    ) -> Result<Performed, Refusal> {
        let entry = Arc::clone(&call.0.entry);
        if self.parts.registry.is_starting(entry.id.source()) {
            Box::pin(self.await_start(&entry, call.0.limit, &options.cancel)).await?;
        }
        let (approval, binding) = (call.0.approval.clone(), call.0.binding.clone());
        let answers = !options.client.capabilities.is_empty();
        let limit = call.0.limit;
        let deadline = limit.begin(call.0.asked_until);
        let first_end = tokio::time::Instant::from_std(deadline.at());
        let cancel = options.cancel.clone();
        let progress = options.progress.clone();
        let context = CallContext {
            deadline: deadline.clone(),
            cancel: cancel.clone(),
            progress: progress
                .map(|sink| self.guard_progress(sink, &entry, call.0.confirmed_by, &deadline)),
            trace: options.trace.clone(),
            meta: without_progress_token(call.0.meta.clone()),
            client: Arc::clone(&options.client),
            resume: call.0.resume.clone(),
            input: call.0.input.clone(),
            affinity: affinity(caller),
            lineage: caller.lineage.clone(),
            carried: Arc::clone(&caller.carried),
        };
        let work = async {
            let _slots =
                if call.waits() { None } else { Some(slots(&entry, context.caller()).await) };
            self.perform(caller, call, &context, trace).await
        };
        let output = tokio::select! {
            biased;
            done = work => match done {
                Ok(output) => output,
                // A source may notice first that the time is over, but does not know the limit.
                Err(NotStarted::Refused(refusal))
                    if refusal.code == ErrorCode::Timeout
                        && tokio::time::Instant::now() >= first_end =>
                {
                    return Err(limit.refusal(&entry, &deadline));
                }
                Err(NotStarted::Refused(refusal)) => return Err(refusal),
                Err(NotStarted::Outdated(call)) => return Ok(Performed::Outdated(call)),
            },
            () = cancel.cancelled() => return Err(refuse(ErrorCode::Cancelled, "the caller cancelled the call")),
            () = deadline.passed() => return Err(self.overdue(&entry, limit, &deadline)),
        };
        if output.input_required.is_some() && !answers {
            let message = "the tool asks for input during a call, which this caller can't give";
            return Err(refuse(ErrorCode::ExecutionFailed, message));
        }
        Ok(Performed::Done(Executed {
            entry,
            output,
            approval,
            binding,
            time: CallTime { limit, deadline },
        }))
    }

    /// Waits for a source that is starting, before the call's own time begins and without its slots.
    async fn await_start(
        &self,
        entry: &Entry,
        limit: TimeLimit,
        cancel: &CancellationToken,
    ) -> Result<(), Refusal> {
        let id = entry.id.source();
        tokio::select! {
            biased;
            () = self.parts.registry.started(id) => Ok(()),
            () = cancel.cancelled() => Err(refuse(ErrorCode::Cancelled, "the caller cancelled the call")),
            () = tokio::time::sleep(limit.patience) => {
                Err(refuse(ErrorCode::Unavailable, format!("`{id}` is starting")))
            }
        }
    }

    /// What is said when a call has taken too long: perhaps it waited for its source alone.
    fn overdue(&self, entry: &Entry, limit: TimeLimit, deadline: &Deadline) -> Refusal {
        let id = entry.id.source();
        if self.parts.registry.is_starting(id) {
            return refuse(ErrorCode::Unavailable, format!("`{id}` is starting"));
        }
        limit.refusal(entry, deadline)
    }

    /// Calls the source, and once more where that can't do a thing twice.
    async fn perform(
        &self,
        caller: &Caller,
        call: PermittedCall,
        context: &CallContext,
        trace: &mut Trace,
    ) -> Result<ToolOutput, NotStarted> {
        let again = call.0.entry.idempotent.then(|| call.again());
        match (self.attempt(caller, call, context, trace).await?, again) {
            (Err(first @ SourceError::Unavailable { .. }), Some(again)) => {
                Box::pin(self.retry(caller, again, context, trace, first)).await
            }
            (done, _) => Ok(done.map_err(refusal)?),
        }
    }

    /// Calls a source once more that was not there at `first`.
    async fn retry(
        &self,
        caller: &Caller,
        again: PermittedCall,
        context: &CallContext,
        trace: &mut Trace,
        first: SourceError,
    ) -> Result<ToolOutput, NotStarted> {
        match (self.attempt(caller, again, context, trace).await, &first) {
            // The first attempt may have been carried out, so this is no refusal.
            (Err(_), SourceError::Unavailable { sent: Sent::Perhaps, .. }) => {
                Err(refusal(first).into())
            }
            (done, _) => Ok(done?.map_err(refusal)?),
        }
    }

    /// The outer error is the gate's: the call was not made.
    async fn attempt(
        &self,
        caller: &Caller,
        call: PermittedCall,
        context: &CallContext,
        trace: &mut Trace,
    ) -> Result<Result<ToolOutput, SourceError>, NotStarted> {
        let source = call.0.entry.id.source();
        if self.parts.registry.is_starting(source) {
            Box::pin(self.parts.registry.started(source)).await;
        }
        let starting = self.parts.grants.starting().await;
        let entry = self.current(&call.0.entry)?;
        self.still_covered(caller, &call, &entry)?;
        if context.cancel.is_cancelled() {
            return Err(refuse(ErrorCode::Cancelled, "the caller cancelled the call").into());
        }
        if self.is_outdated(&call, &entry) {
            return Err(NotStarted::Outdated(call));
        }
        // The source that serves the tool now: a program that came back meanwhile is another source
        // with the same definition.
        let source = Arc::clone(&entry.source);
        trace.started();
        // The source consumes them, and the hooks behind it see what it got.
        if !call.0.hooks.after.is_empty() {
            trace.keep_exact(call.arguments().clone());
        }
        Ok(guarded(&*source, call, context, starting).await)
    }

    /// Between the decision and the start lies a commit, perhaps a queue or a person's pause: what was
    /// revoked, expired or redefined meanwhile does not start.
    fn still_covered(
        &self,
        caller: &Caller,
        call: &PermittedCall,
        entry: &Entry,
    ) -> Result<(), Refusal> {
        let cover = self.cover_again(caller, call, entry)?;
        if call.0.confirmed_by == Confirmed::Grant && cover.approval.is_none() {
            let message = "the grant that stood for a person's approval was revoked or has expired";
            return Err(refuse(ErrorCode::PermissionDenied, message));
        }
        Ok(())
    }

    /// Whether the decision was made by other rules or hooks than those in force, or about a tool whose
    /// terms have changed. As long as nothing has, this costs three comparisons of addresses.
    fn is_outdated(&self, call: &PermittedCall, entry: &Arc<Entry>) -> bool {
        let other_rules = !Arc::ptr_eq(&self.parts.rules.load(), &call.0.rules)
            || !Arc::ptr_eq(&self.parts.hooks.load(), &call.0.hooks);
        let decided = &call.0.entry;
        let same_terms = Arc::ptr_eq(entry, decided)
            || (&entry.action, &entry.claimed, entry.confirm)
                == (&decided.action, &decided.claimed, decided.confirm);
        other_rules || !same_terms
    }
}

/// A panic in a source fails its call, not the gateway. `starting` ends with the source's first step:
/// from then on the call is under way.
async fn guarded(
    source: &dyn ToolSource,
    call: PermittedCall,
    context: &CallContext,
    starting: Starting<'_>,
) -> Result<ToolOutput, SourceError> {
    let mut future = pin!(guard::catch(source.call(call, context)));
    let mut starting = Some(starting);
    let done = std::future::poll_fn(move |cx| {
        let poll = future.as_mut().poll(cx);
        drop(starting.take());
        poll
    });
    done.await.unwrap_or_else(|guard::Panicked| {
        tracing::error!(source = %source.id(), "a source panicked in a call");
        Err(SourceError::Protocol("the source failed inside".to_owned()))
    })
}

fn refusal(error: SourceError) -> Refusal {
    let message = error.to_string();
    match error {
        SourceError::Unavailable { sent: Sent::Nothing | Sent::Perhaps, .. } => {
            refuse(ErrorCode::Unavailable, message)
        }
        SourceError::Failed { details, .. } => {
            detailed(refuse(ErrorCode::ExecutionFailed, message), details)
        }
        SourceError::Arguments { details, .. } => {
            detailed(refuse(ErrorCode::InvalidArguments, message), details)
        }
        SourceError::Protocol(_) => refuse(ErrorCode::ExecutionFailed, message),
        SourceError::Invalid(_) => refuse(ErrorCode::ValidationError, message),
        SourceError::Timeout(_) => refuse(ErrorCode::Timeout, message),
        SourceError::Sandbox(_) => refuse(ErrorCode::SandboxViolation, message),
    }
}

fn detailed(refusal: Refusal, details: Option<Value>) -> Refusal {
    match details {
        Some(details) => refusal.with_details(details),
        None => refusal,
    }
}

/// Progress on its way out: what the gateway knows to be secret is masked, and a report that is no
/// report is dropped.
struct GuardedProgress {
    sink: Arc<dyn ProgressSink>,
    redactor: Arc<ArcSwap<Redactor>>,
    entry: Arc<Entry>,
    /// Whether a confirmation that a later rule demands has been given.
    confirmed_by: Confirmed,
    deadline: Deadline,
}

/// Bytes of a report.
const MAX_REPORT: usize = 8 * 1024;

impl ProgressSink for GuardedProgress {
    fn report(&self, progress: Map<String, Value>) {
        self.deadline.extend();
        let mut report = Value::Object(progress);
        self.redactor.load().mask_known_in(&mut report);
        let small = serde_json::to_string(&report).is_ok_and(|text| text.len() <= MAX_REPORT);
        if let (true, Value::Object(progress)) = (small, report) {
            self.sink.report(progress);
        }
    }

    fn log(&self, message: Map<String, Value>) {
        let mut message = Value::Object(message);
        self.redactor.load().mask_known_in(&mut message);
        let small = serde_json::to_string(&message).is_ok_and(|text| text.len() <= MAX_REPORT);
        if let (true, Value::Object(message)) = (small, message) {
            self.sink.log(message);
        }
    }

    fn handle(&self, handle: &str) {
        let Entry { id, definition, .. } = &*self.entry;
        let confirmed = self.confirmed_by != Confirmed::Nothing;
        self.sink.handle(&Handle::of(id.as_str(), definition, handle, confirmed));
    }
}

impl Gateway {
    fn guard_progress(
        &self,
        sink: Arc<dyn ProgressSink>,
        entry: &Arc<Entry>,
        confirmed_by: Confirmed,
        deadline: &Deadline,
    ) -> Arc<dyn ProgressSink> {
        let (redactor, entry) = (Arc::clone(&self.parts.redactor), Arc::clone(entry));
        let deadline = deadline.clone();
        Arc::new(GuardedProgress { sink, redactor, entry, confirmed_by, deadline })
    }
}

/// The caller's progress token means nothing to the source, which makes its own.
fn without_progress_token(mut meta: Map<String, Value>) -> Map<String, Value> {
    meta.shift_remove("progressToken");
    meta
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;
    use crate::testing::{FakeSource, TestGate, tool};

    #[derive(Default)]
    struct Kept(parking_lot::Mutex<Vec<Map<String, Value>>>);

    impl ProgressSink for Kept {
        fn report(&self, progress: Map<String, Value>) {
            self.0.lock().push(progress);
        }
    }

    #[tokio::test]
    async fn progress_holds_no_known_secret_and_is_small() {
        let gate = TestGate::new().await;
        let tools = vec![tool("work", &json!({}))];
        let source = FakeSource::new("source", tools, |_, _| Ok(ToolOutput::default()));
        gate.register(source).await.unwrap();
        let entry = Arc::clone(gate.gateway.registry().available().next().unwrap());
        let kept = Arc::new(Kept::default());
        let redactor = Arc::new(ArcSwap::from_pointee(Redactor::new(["hunter-known-secret"])));
        let guarded = GuardedProgress {
            sink: kept.clone(),
            redactor,
            entry,
            confirmed_by: Confirmed::Nothing,
            deadline: Instant::now().into(),
        };
        for message in ["the key is hunter-known-secret", &"x".repeat(MAX_REPORT)] {
            let report = json!({ "progress": 1, "message": message });
            guarded.report(report.as_object().cloned().unwrap_or_default());
        }
        let reports = kept.0.lock().clone();
        let text = serde_json::to_string(&reports).unwrap_or_default();
        assert_eq!(reports.len(), 1, "the long one is dropped");
        assert!(text.contains("the key is") && !text.contains("hunter"), "{text}");
    }
}
