//! Audit: what is written down about a call, and the answer that leaves afterwards.
//!
//! A [`Trace`] follows one call. It writes the decision before the tool runs and the outcome before
//! the answer leaves; if the call's future is dropped, it still writes the outcome, as cancelled.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tracing::Span;
use tracing::field::{Empty, display};

use super::gateway::Gateway;
use super::spool::Spooled;
use super::{Refusal, refuse};
use crate::audit::{EventDraft, EventKind, Payload};
use crate::canonical;
use crate::hooks::{HookAt, HookMode, HookPoint, PatchOperation};
use crate::model::{
    Caller, Ending, ErrorCode, GrantId, Lineage, PolicyDecision, Principal, ResultMeta, Surface,
    ToolError, ToolInvocation, ToolOutput, ToolResult, shown_name,
};
use crate::policy::{Approval, Cover};
use crate::redact::{MASK, Redactor, describe_masks};
use crate::registry::Entry;
use crate::store::StoreError;

/// Caller's names for calls are cut to this.
const MAX_REQUEST_ID: usize = 256;
/// At most this many masked parts of the arguments are described in the log, each with so many
/// characters of its place.
const MAX_DESCRIBED: usize = 32;
const MAX_PLACE: usize = 128;

/// One call's way through the gate.
pub(crate) struct Trace {
    gate: Gateway,
    call_id: String,
    request_id: String,
    /// What a caller that is no run says about itself.
    run_id: Option<String>,
    lineage: Option<Arc<Lineage>>,
    principal: Principal,
    surface: Surface,
    tool: String,
    entry: Option<Arc<Entry>>,
    sandbox: Option<&'static str>,
    grants: Vec<GrantId>,
    redact_keys: Vec<String>,
    input: Option<Input>,
    /// For hooks behind the tool, where there are some.
    exact: Option<Map<String, Value>>,
    output_hash: Option<String>,
    /// What the gate found wrong with the tool's answer, which is an error for that reason.
    fault: Option<ToolError>,
    /// Whether the log has a decision about the call, with its arguments.
    is_decided: AtomicBool,
    started: bool,
    finished: bool,
    /// The outcome on its way into the log. The lock is never contended; it makes the trace `Sync`.
    writing: Mutex<Option<Writing>>,
    began: Instant,
}

type Writing = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>>;

struct Input {
    canonical: String,
    hash: String,
    size: u64,
    /// What the masks in it hide.
    masked: Vec<String>,
}

impl Trace {
    /// On the heap, since the futures of the call and of its end would both hold it.
    pub(super) fn start(gate: &Gateway, caller: &Caller, call: &ToolInvocation) -> Box<Self> {
        let redactor = gate.parts.redactor.load();
        Box::new(Self {
            gate: gate.clone(),
            call_id: gate.parts.ids.unique(),
            request_id: label(&redactor, &call.request_id),
            run_id: call.run_id.as_ref().map(|id| label(&redactor, id)),
            lineage: caller.lineage.clone(),
            principal: caller.principal.clone(),
            surface: caller.surface.clone(),
            tool: call.tool_id.clone(),
            entry: None,
            sandbox: None,
            grants: Vec::new(),
            redact_keys: Vec::new(),
            input: None,
            exact: None,
            output_hash: None,
            fault: None,
            is_decided: AtomicBool::new(false),
            started: false,
            finished: false,
            writing: Mutex::new(None),
            began: Instant::now(),
        })
    }

    /// The span in which the call is performed, by which its log lines are found. It is an error span,
    /// so that lines of every level carry it. Its fields are displayed, not debugged: they are formatted
    /// with every call, and quoting looks at each character.
    pub(super) fn span(&self) -> Span {
        tracing::error_span!(
            "call", call_id = %self.call_id, tool = Empty, principal = %self.principal
        )
    }

    /// The tool's id, or what the caller asked for, made fit to be kept.
    fn tool_label(&self) -> Cow<'_, str> {
        match self.entry {
            Some(_) => Cow::Borrowed(&self.tool),
            None => Cow::Owned(
                self.gate.parts.redactor.load().redact_text(&shown_name(&self.tool)).into_owned(),
            ),
        }
    }

    pub(super) fn call_id(&self) -> &str {
        &self.call_id
    }

    pub(super) fn resolved(&mut self, entry: &Arc<Entry>, cover: Option<&Cover>) {
        entry.id.as_str().clone_into(&mut self.tool);
        Span::current().record("tool", display(entry.id.as_str()));
        self.sandbox = entry.source.confinement(entry.own_name());
        self.entry = Some(Arc::clone(entry));
        self.grants = cover.map(|cover| cover.grants.clone()).unwrap_or_default();
    }

    /// Redacts and hashes the arguments.
    pub(super) fn input(&mut self, arguments: &Map<String, Value>, redact_keys: &[String]) {
        self.redact_keys = redact_keys.to_vec();
        let redactor = self.gate.parts.redactor.load();
        let redacted = redactor.redact_map(arguments, &self.redact_keys);
        let mut bytes = Vec::with_capacity(256);
        canonical::write_map(&redacted, &mut bytes);
        let hash = canonical::sha256_hex(&bytes);
        let (size, masked) = match &redacted {
            Cow::Borrowed(_) => (bytes.len() as u64, Vec::new()),
            // A rule about the size is about what the tool gets, not about what is left to show.
            Cow::Owned(redacted) => {
                (canonical_size(arguments), self.masked_parts(arguments, redacted))
            }
        };
        // Canonical JSON is UTF-8 by construction.
        let canonical = String::from_utf8(bytes).unwrap_or_default();
        drop(redactor);
        self.input = Some(Input { canonical, hash, size, masked });
    }

    /// What the masks hide, for the log: where, how many characters, and a digest.
    fn masked_parts(
        &self,
        arguments: &Map<String, Value>,
        redacted: &Map<String, Value>,
    ) -> Vec<String> {
        let (mut parts, mut count, mut rest) = (Vec::new(), 0_usize, String::new());
        // Only what is said about the masks counts here, not where it would be put.
        let _ = describe_masks(arguments, redacted, &mut |place, hidden| {
            count += 1;
            if count <= MAX_DESCRIBED {
                let place: String = place.chars().take(MAX_PLACE).collect();
                parts.push(format!("{place}: {}", self.describe(hidden)));
            } else {
                rest.push_str(hidden);
            }
            String::new()
        });
        if count > MAX_DESCRIBED {
            parts.push(format!("{} more: {}", count - MAX_DESCRIBED, self.describe(&rest)));
        }
        parts
    }

    /// Words about a call by one who has seen its arguments: what is masked of these in the log is masked
    /// here, too.
    pub(super) fn masked_words(&self, arguments: &Map<String, Value>, words: &str) -> String {
        let redactor = self.gate.parts.redactor.load();
        let mut shown = words.to_owned();
        if let Cow::Owned(redacted) = redactor.redact_map(arguments, &self.redact_keys) {
            let _ = describe_masks(arguments, &redacted, &mut |_, part| {
                if !part.is_empty() && shown.contains(part) {
                    shown = shown.replace(part, MASK);
                }
                String::new()
            });
        }
        redactor.redact_text_with(&shown, &self.redact_keys).into_owned()
    }

    /// The arguments as a person sees them who is asked about the call: each mask says how much it
    /// hides.
    pub(super) fn shown_input(&self, arguments: &Map<String, Value>) -> Map<String, Value> {
        let redactor = self.gate.parts.redactor.load();
        match redactor.redact_map(arguments, &self.redact_keys) {
            Cow::Borrowed(arguments) => arguments.clone(),
            Cow::Owned(redacted) => {
                describe_masks(arguments, &redacted, &mut |_, hidden| self.describe(hidden))
            }
        }
    }

    fn describe(&self, hidden: &str) -> String {
        let digest = self.gate.parts.approvals.digest(hidden);
        format!("{} characters, digest {digest}", hidden.chars().count())
    }

    /// The keys that this call has redacted beside those that always are.
    pub(super) fn redact_keys(&self) -> &[String] {
        &self.redact_keys
    }

    /// A value as it may be kept.
    pub(super) fn redacted_value(&self, value: &Value) -> Value {
        self.gate.parts.redactor.load().redact(value, &self.redact_keys).into_owned()
    }

    /// The hash that arguments have in the log.
    pub(super) fn hash_of(&self, arguments: &Map<String, Value>) -> String {
        let mut bytes = Vec::new();
        let redactor = self.gate.parts.redactor.load();
        canonical::write_map(&redactor.redact_map(arguments, &self.redact_keys), &mut bytes);
        canonical::sha256_hex(&bytes)
    }

    /// Keeps the arguments that the tool gets.
    pub(super) fn keep_exact(&mut self, arguments: Map<String, Value>) {
        self.exact = Some(arguments);
    }

    /// The arguments that the tool got, where they were kept.
    pub(super) const fn exact_arguments(&self) -> Option<&Map<String, Value>> {
        self.exact.as_ref()
    }

    /// The tool, once it has begun to work.
    pub(super) fn started_entry(&self) -> Option<&Arc<Entry>> {
        self.entry.as_ref().filter(|_| self.started)
    }

    /// Writes what a hook changes, or would change if it were enforced: where, and the hashes before and
    /// after.
    pub(super) async fn hook_changed(
        &self,
        at: &HookAt,
        point: HookPoint,
        patch: &[PatchOperation],
        [before, after]: [String; 2],
    ) -> Result<(), Refusal> {
        let redactor = self.gate.parts.redactor.load_full();
        let places: Vec<String> = patch
            .iter()
            .take(MAX_DESCRIBED)
            .map(|operation| label(&redactor, operation.path().as_str()))
            .collect();
        let draft = self
            .hook_draft(EventKind::HookChanged, &at.name, point)
            .texts("changed", places.iter().map(String::as_str))
            .text("hashBefore", before)
            .text("hashAfter", after)
            .flag("enforced", at.terms.mode == HookMode::Enforce);
        self.append(draft).await
    }

    /// Writes what a hook demands, and why.
    pub(super) async fn hook_objected(
        &self,
        at: &HookAt,
        point: HookPoint,
        (demand, reason): (&str, &str),
    ) -> Result<(), Refusal> {
        let draft = self
            .hook_draft(EventKind::HookObjected, &at.name, point)
            .text("demand", demand)
            .text("reason", reason)
            .flag("enforced", at.terms.mode == HookMode::Enforce);
        self.append(draft).await
    }

    /// Writes that a hook failed, and whether that stops the call.
    pub(super) async fn hook_failed(
        &self,
        hook: &str,
        point: HookPoint,
        reason: &str,
        stops: bool,
    ) -> Result<(), Refusal> {
        let draft = self
            .hook_draft(EventKind::HookFailed, hook, point)
            .text("reason", reason)
            .flag("stops", stops);
        self.append(draft).await
    }

    fn hook_draft(&self, kind: EventKind, hook: &str, point: HookPoint) -> EventDraft {
        self.draft(kind).text("hook", hook).text("point", point.as_str())
    }

    pub(super) fn input_size(&self) -> u64 {
        self.input.as_ref().map_or(0, |input| input.size)
    }

    /// Hashes the redacted output, and hands the output on.
    pub(super) fn output(&mut self, output: ToolOutput) -> ToolOutput {
        let (output, hash) =
            hash_output(output, &self.gate.parts.redactor.load(), &self.redact_keys);
        self.output_hash = Some(hash);
        output
    }

    /// The same for a large output, off the threads that serve other calls.
    pub(super) async fn output_heavy(&mut self, output: ToolOutput) -> ToolOutput {
        let redactor = self.gate.parts.redactor.load_full();
        let keys = self.redact_keys.clone();
        let work = tokio::task::spawn_blocking(move || hash_output(output, &redactor, &keys));
        match work.await {
            Ok((output, hash)) => {
                self.output_hash = Some(hash);
                output
            }
            // Only a panic while hashing leads here; what can't be accounted for is not passed on.
            Err(_) => ToolOutput::failure("the output could not be processed"),
        }
    }

    /// Writes the decision. A call that can't be written down does not go on.
    pub(super) async fn decided(
        &self,
        decision: &PolicyDecision,
        approval: Option<&str>,
    ) -> Result<(), Refusal> {
        let mut draft = self.draft(EventKind::Decision).maybe_text("approvalId", approval);
        draft = draft.canonical("decision", decision_json(decision));
        if let Some(entry) = &self.entry {
            draft = draft.text("definitionHash", &entry.definition);
        }
        if !self.redact_keys.is_empty() {
            let redactor = self.gate.parts.redactor.load_full();
            let keys: Vec<String> =
                self.redact_keys.iter().map(|key| label(&redactor, key)).collect();
            draft = draft.texts("redactKeys", keys.iter().map(String::as_str));
        }
        self.append(self.keep_input(draft)).await?;
        self.is_decided.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps the redacted arguments in the event, or beside it when they are large.
    fn keep_input(&self, draft: EventDraft) -> EventDraft {
        let Some(input) = &self.input else { return draft };
        let mut draft = draft.text("inputHash", &input.hash);
        if !input.masked.is_empty() {
            draft = draft.texts("masked", input.masked.iter().map(String::as_str));
        }
        let settings = self.gate.parts.settings.load();
        let size = input.canonical.len();
        if !settings.keep_payloads {
            return draft;
        }
        if size <= settings.payload_bytes {
            return draft.canonical("input", &input.canonical);
        }
        let draft = draft.number("inputBytes", size as u64);
        if size as u64 > settings.payload_quota_bytes {
            return draft.flag("inputKept", false);
        }
        draft.with_payload(Payload {
            hash: input.hash.clone(),
            text: Arc::from(input.canonical.as_str()),
        })
    }

    /// Writes that a person is asked.
    pub(super) async fn asked(&self, approval: &Approval) -> Result<(), Refusal> {
        let draft = self
            .draft(EventKind::ApprovalRequired)
            .text("approvalId", &approval.id)
            .text("reason", &approval.reason)
            .number("expiresAt", approval.expires_at);
        self.append(self.keep_input(draft)).await
    }

    /// What a caller is told when the gateway stops during the call.
    pub(super) const fn cut_short(&self) -> &'static str {
        if self.started {
            "the gateway stopped before the call had ended; whether it was carried out is not known"
        } else {
            "the gateway stopped before the call was begun; nothing was done"
        }
    }

    pub(super) fn started(&mut self) {
        self.started = true;
    }

    /// The answer breaks what the tool itself promised.
    pub(super) fn answer_is_at_fault(&mut self, fault: ToolError) {
        self.fault = Some(fault);
    }

    /// Writes the outcome and makes the answer.
    pub(super) async fn finish(
        mut self: Box<Self>,
        outcome: Result<Spooled, Refusal>,
    ) -> ToolResult {
        let took = self.began.elapsed();
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let mut result = match outcome {
            Ok(spooled) => succeeded(spooled, self.fault.take()),
            Err(refusal) => self.refused(refusal),
        };
        result.meta.duration_ms = duration_ms;
        result.meta.sandboxed = self.sandbox.is_some_and(|profile| profile != "none");
        result.meta.tool_name = self.tool_label().into_owned();
        let ending = result.ending();
        if let (Ending::Failed(code), false) = (ending, self.started) {
            tracing::info!(code = code.as_str(), "a call was refused");
        }
        let mut draft = self.outcome(ending, duration_ms);
        if let Some(required) = &result.input_required {
            let asked = required.requests.values().filter_map(|request| request["method"].as_str());
            draft = draft.texts("inputRequired", asked);
        }
        if let Some(artifact) = &result.meta.output_spool {
            draft = draft.text("artifact", &artifact.sha256).number("artifactBytes", artifact.size);
        }
        let stored = self.write_outcome(draft).await;
        if let Some(entry) = &self.entry {
            entry.meter.record(ending, took);
        }
        match stored {
            Ok(()) => result,
            Err(error) => failed(error, result.meta),
        }
    }

    /// Appends the outcome, exactly once: if the call's future is dropped meanwhile, the writing goes on.
    async fn write_outcome(&mut self, draft: EventDraft) -> Result<(), Refusal> {
        let audit = Arc::clone(&self.gate.parts.audit);
        self.finished = true;
        *self.writing.get_mut() = Some(Box::pin(async move { audit.append(draft).await }));
        let stored = std::future::poll_fn(|cx| match self.writing.get_mut() {
            Some(writing) => writing.as_mut().poll(cx),
            None => Poll::Ready(Ok(0)),
        })
        .await;
        *self.writing.get_mut() = None;
        stored.map(drop).map_err(|error| self.not_written(&error))
    }

    fn refused(&mut self, refusal: Refusal) -> ToolResult {
        let redactor = self.gate.parts.redactor.load();
        let keys = &self.redact_keys;
        let message = redactor.redact_text_with(&refusal.message, keys).into_owned();
        let details = refusal.details.map(|details| redactor.redact(&details, keys).into_owned());
        self.output_hash = Some(canonical::hash(&serde_json::json!({ "error": message })));
        failed(ToolError { message, details, ..refusal }, ResultMeta::default())
    }

    /// The outcome. That of a call without a decision, which was refused before or never approved, has the arguments.
    fn outcome(&self, ending: Ending, duration_ms: u64) -> EventDraft {
        let success = ending == Ending::Done;
        let draft = self
            .draft(EventKind::Outcome)
            .flag("success", success)
            .flag("started", self.started)
            .maybe_text("code", (!success).then_some(ending.as_str()))
            .number("durationMs", duration_ms)
            .maybe_text("outputHash", self.output_hash.as_deref());
        if self.is_decided.load(Ordering::Relaxed) {
            draft.maybe_text("inputHash", self.input.as_ref().map(|input| input.hash.as_str()))
        } else {
            self.keep_input(draft)
        }
    }

    fn draft(&self, kind: EventKind) -> EventDraft {
        let draft = EventDraft::new(kind, self.gate.parts.clock.now_ms())
            .text("callId", &self.call_id)
            .text("requestId", &self.request_id)
            .text("principal", self.principal.as_str())
            .text("surface", self.surface.name())
            .text("toolId", self.tool_label())
            .maybe_text("sandbox", self.sandbox)
            .texts("grantIds", self.grants.iter().map(AsRef::as_ref));
        match &self.lineage {
            Some(run) => draft
                .text("runId", &run.run)
                .text("rootRunId", &run.root)
                .text("agent", &run.profile)
                .number("depth", run.depth.into()),
            None => draft.maybe_text("runId", self.run_id.as_deref()),
        }
    }

    async fn append(&self, draft: EventDraft) -> Result<(), Refusal> {
        let stored = self.gate.parts.audit.append(draft).await;
        stored.map(drop).map_err(|error| self.not_written(&error))
    }

    /// What a caller hears when an event can't be stored. What has begun is not undone by that.
    fn not_written(&self, error: &StoreError) -> Refusal {
        tracing::error!(error = %error, "the audit log can't be written");
        let message = if self.started {
            "the tool was started, and what became of the call can't be written to the audit log: its result is \
             withheld, and it may have been carried out"
        } else {
            "the audit log can't be written, so the call is refused"
        };
        refuse(ErrorCode::Unavailable, message)
    }
}

fn canonical_size(arguments: &Map<String, Value>) -> u64 {
    let mut bytes = Vec::new();
    canonical::write_map(arguments, &mut bytes);
    bytes.len() as u64
}

impl Drop for Trace {
    fn drop(&mut self) {
        if let Some(writing) = self.writing.get_mut().take() {
            in_background(writing);
        }
        if self.finished {
            return;
        }
        self.output_hash =
            Some(canonical::hash(&serde_json::json!({ "error": "the call was given up" })));
        let took = self.began.elapsed();
        if let Some(entry) = &self.entry {
            entry.meter.record(Ending::Failed(ErrorCode::Cancelled), took);
        }
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let draft = self.outcome(Ending::Failed(ErrorCode::Cancelled), duration_ms);
        let audit = Arc::clone(&self.gate.parts.audit);
        in_background(Box::pin(async move { audit.append(draft).await }));
    }
}

fn in_background(writing: Writing) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            if let Err(error) = writing.await {
                tracing::error!(error = %error, "the outcome of a call could not be written down");
            }
        });
    }
}

/// A caller's name for something, made fit to be kept.
fn label(redactor: &Redactor, text: &str) -> String {
    if text.len() <= MAX_REQUEST_ID {
        return redactor.redact_text(text).into_owned();
    }
    // Cut after redaction, so that no secret is cut into a part that nothing recognises.
    let bounded: String = text.chars().take(16 * MAX_REQUEST_ID).collect();
    redactor.redact_text(&bounded).chars().take(MAX_REQUEST_ID).collect()
}

fn hash_output(output: ToolOutput, redactor: &Redactor, keys: &[String]) -> (ToolOutput, String) {
    let mut whole = Map::new();
    let ToolOutput { content, structured, is_error, rest, input_required } = output;
    whole.insert("content".to_owned(), Value::Array(content));
    if let Some(structured) = structured {
        whole.insert("structuredContent".to_owned(), structured);
    }
    let mut bytes = Vec::with_capacity(256);
    canonical::write_map(&redactor.redact_map(&whole, keys), &mut bytes);
    let hash = canonical::sha256_hex(&bytes);
    let structured = whole.shift_remove("structuredContent");
    let content = match whole.shift_remove("content") {
        Some(Value::Array(content)) => content,
        _ => Vec::new(),
    };
    (ToolOutput { content, structured, is_error, rest, input_required }, hash)
}

/// Canonical JSON of a decision, written directly: there is one per call.
fn decision_json(decision: &PolicyDecision) -> String {
    let mut out = Vec::with_capacity(160);
    out.extend_from_slice(b"{\"decision\":");
    canonical::write_text(decision.decision.as_str(), &mut out);
    out.extend_from_slice(b",\"reason\":");
    canonical::write_text(&decision.reason, &mut out);
    out.extend_from_slice(b",\"requiresConfirmation\":");
    out.extend_from_slice(if decision.requires_confirmation { b"true" } else { b"false" });
    out.extend_from_slice(b",\"riskTags\":[");
    for (at, tag) in decision.risk_tags.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        canonical::write_text(tag.as_str(), &mut out);
    }
    out.push(b']');
    if let Some(rule) = &decision.rule_id {
        out.extend_from_slice(b",\"ruleId\":");
        canonical::write_text(rule, &mut out);
    }
    out.push(b'}');
    canonical::into_text(out)
}

fn succeeded(spooled: Spooled, fault: Option<ToolError>) -> ToolResult {
    let Spooled { output, artifact } = spooled;
    // The tool's own words stay in the content; the code lets programs act.
    let reported = || {
        let text = output.content.iter().find_map(|block| block.get("text")?.as_str());
        ToolError::new(ErrorCode::ExecutionFailed, text.unwrap_or("the tool reports a failure"))
    };
    let error = fault.or_else(|| output.is_error.then(reported));
    ToolResult {
        success: !output.is_error && output.input_required.is_none(),
        content: output.content,
        structured_content: output.structured,
        error,
        meta: ResultMeta { output_spool: artifact.clone(), ..ResultMeta::default() },
        artifacts: artifact.into_iter().collect(),
        rest: output.rest,
        input_required: output.input_required,
    }
}

fn failed(error: ToolError, meta: ResultMeta) -> ToolResult {
    ToolResult {
        success: false,
        content: Vec::new(),
        structured_content: None,
        error: Some(error),
        meta,
        artifacts: Vec::new(),
        rest: Map::new(),
        input_required: None,
    }
}
