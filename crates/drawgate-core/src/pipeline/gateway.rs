//! The gate: what it is made of, the one function that every call passes through, and what surfaces may
//! read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::audit::Trace;
use super::authorize::Authorized;
use super::continuation::Continuations;
use super::execute::Performed;
use super::held_calls::HeldCalls;
use super::load::{Load, check_size};
use super::spool::Spooled;
use super::view::View;
use super::{Refusal, refuse};
use crate::audit::{EventDraft, EventKind};
use crate::clock::{Clock, Ids};
use crate::hooks::Hooks;
use crate::model::{
    Caller, Client, ErrorCode, Lineage, Operation, Principal, SourceId, ToolError, ToolInvocation,
    ToolResult, TraceParent, check_narrowing,
};
use crate::policy::{Approval, Approvals, ApprovalsConfig, Expose, Exposures, Grants, Rules};
use crate::redact::Redactor;
use crate::registry::{Entry, Registry, Snapshot};
use crate::source::ProgressSink;
use crate::store::{ArtifactInfo, Artifacts, AuditLog, StoreError};

/// Settings that may change while the gateway runs.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// The longest time of a call, whatever the tool's own limit.
    pub max_timeout: Duration,
    /// The longest time of a task.
    pub max_task_time: Duration,
    /// Calls under way at once.
    pub max_calls: usize,
    /// Calls of one caller under way at once.
    pub max_calls_per_caller: usize,
    /// Bytes of a call's arguments.
    pub max_argument_bytes: u64,
    /// How people are asked.
    pub approvals: ApprovalsConfig,
    /// Where they answer: an approval's page is this, `/` and its id. `None` where no page is served.
    pub approval_page: Option<String>,
    /// Whether callers may have values of theirs masked in what is kept of a call.
    pub caller_redaction: bool,
    /// Whether decision events carry the redacted arguments, or only their hash.
    pub keep_payloads: bool,
    /// Bytes of redacted arguments that an event itself carries; larger ones are kept beside it.
    pub payload_bytes: usize,
    /// Bytes of redacted arguments that may be kept beside events, those of one event included.
    pub payload_quota_bytes: u64,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            max_timeout: Duration::from_mins(10),
            max_task_time: Duration::from_hours(1),
            max_calls: 1024,
            max_calls_per_caller: 256,
            max_argument_bytes: 1024 * 1024,
            approvals: ApprovalsConfig::default(),
            approval_page: None,
            caller_redaction: true,
            keep_payloads: true,
            payload_bytes: 16 * 1024,
            payload_quota_bytes: 256 * 1024 * 1024,
        }
    }
}

/// What a gate is made of.
#[derive(Clone)]
pub struct GatewayParts {
    /// The tools.
    pub registry: Arc<Registry>,
    /// The capabilities that callers hold.
    pub grants: Arc<Grants>,
    /// The approvals that people are asked for.
    pub approvals: Arc<Approvals>,
    /// Which callers see the full tool list instead of search.
    pub exposures: Arc<Exposures>,
    /// The rules, replaced as a whole.
    pub rules: Arc<ArcSwap<Rules>>,
    /// The hooks around calls, replaced as a whole.
    pub hooks: Arc<ArcSwap<Hooks>>,
    /// The redactor, replaced when a secret becomes known.
    pub redactor: Arc<ArcSwap<Redactor>>,
    /// Settings, replaced as a whole.
    pub settings: Arc<ArcSwap<GatewaySettings>>,
    /// Where events go.
    pub audit: Arc<dyn AuditLog>,
    /// Where large outputs go.
    pub artifacts: Arc<dyn Artifacts>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Generates unique ids.
    pub ids: Arc<dyn Ids>,
}

/// Makes the request, in the caller's protocol, to open the page where a person decides about a call.
pub type PageRequest = fn(&ApprovalPage<'_>) -> Value;

/// The page where a person decides about a call.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalPage<'a> {
    /// The approval's id.
    pub approval: &'a str,
    /// The page's address.
    pub url: &'a str,
    /// What the person is told.
    pub message: &'a str,
}

/// What a call does while a person is asked about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhileAsked {
    /// It waits for the decision, as long as `approvals` say.
    #[default]
    Wait,
    /// It returns at once: the caller follows the approval itself.
    Return,
}

impl WhileAsked {
    /// How long it waits, if calls that wait do it so long.
    pub(super) const fn hold(self, configured: Duration) -> Duration {
        match self {
            Self::Wait => configured,
            Self::Return => Duration::ZERO,
        }
    }
}

/// How a caller wants a call to be performed.
#[derive(Clone, Default)]
pub struct CallOptions {
    /// Where progress goes.
    pub progress: Option<Arc<dyn ProgressSink>>,
    /// Cancelled when the caller gives up.
    pub cancel: CancellationToken,
    /// The trace it belongs to.
    pub trace: Option<TraceParent>,
    /// What the program on the caller's side can do.
    pub client: Arc<Client>,
    /// How the caller is asked to open a page; `None` if it can't.
    pub page_request: Option<PageRequest>,
    /// The call is a task: it may take as long as tasks may.
    pub as_task: bool,
    /// What it does while a person is asked about it.
    pub while_asked: WhileAsked,
    /// Takes up a call that was permitted and begun before a restart, by its source's handle. From the
    /// gateway's own records only, never from a caller.
    pub resume: Option<Arc<str>>,
}

/// What stands for the tool in the outcome of a call of which not even that could be read. No tool
/// can have this name.
pub const UNREAD: &str = "(unread)";

/// The gate, as surfaces use it: they call, list and read, and can change nothing that decides about
/// calls. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    pub(super) parts: Arc<GatewayParts>,
    pub(super) load: Arc<Load>,
    pub(super) continuations: Arc<Continuations>,
    pub(super) held_calls: Arc<HeldCalls>,
    stopped: CancellationToken,
}

impl Gateway {
    /// Only [`GatewayControl`](super::GatewayControl) makes one.
    pub(super) fn new(parts: GatewayParts) -> Self {
        let key = Sha256::digest(parts.ids.secret()).into();
        Self {
            parts: Arc::new(parts),
            load: Arc::default(),
            continuations: Arc::new(Continuations::new(key)),
            held_calls: Arc::default(),
            stopped: CancellationToken::new(),
        }
    }

    /// Calls under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.load.now()
    }

    /// Performs a call. Always answers; an answer is given only after its event is stored. Dropping
    /// the future cancels the call, and that is recorded too.
    pub fn call(
        &self,
        caller: &Caller,
        call: impl Into<Box<ToolInvocation>>,
        options: CallOptions,
    ) -> impl Future<Output = ToolResult> + Send {
        // On the heap before there is a future: all that it passes through would hold it.
        self.traced(caller, call.into(), options)
    }

    async fn traced(
        &self,
        caller: &Caller,
        call: Box<ToolInvocation>,
        options: CallOptions,
    ) -> ToolResult {
        let mut trace = Trace::start(self, caller, &call);
        let span = trace.span();
        // A task may be resumed by the next process, so it is not answered when this one stops.
        let goes_on = options.as_task;
        let outcome = tokio::select! {
            biased;
            () = self.stopped.cancelled(), if !goes_on => {
                Err(refuse(ErrorCode::Cancelled, trace.cut_short()))
            }
            outcome = self.run(caller, call, options, &mut trace).instrument(span.clone()) => outcome,
        };
        trace.finish(outcome).instrument(span).await
    }

    /// Answers a call that a surface could not read as one: it is refused, with an outcome in the audit
    /// log like any other. `tool` is what the caller seems to have asked for.
    pub async fn refuse(
        &self,
        caller: &Caller,
        tool: &str,
        request_id: &str,
        error: ToolError,
    ) -> ToolResult {
        let call = ToolInvocation {
            tool_id: tool.to_owned(),
            request_id: request_id.to_owned(),
            ..ToolInvocation::default()
        };
        Trace::start(self, caller, &call).finish(Err(error)).await
    }

    /// Whether a call waits for this approval at the moment.
    #[must_use]
    pub fn is_awaited(&self, approval: &str) -> bool {
        self.held_calls.is_awaited(approval)
    }

    /// Answers calls that wait for a person, now and from now on: their approvals stay open for the next try.
    pub fn release_held(&self) {
        self.held_calls.release();
    }

    /// Ends the calls under way: their callers are answered, and so are later callers.
    /// Tasks are left alone.
    pub fn stop(&self) {
        self.stopped.cancel();
    }

    /// Waits until the gate is stopped.
    pub async fn stopped(&self) {
        self.stopped.cancelled().await;
    }

    async fn run(
        &self,
        caller: &Caller,
        call: Box<ToolInvocation>,
        options: CallOptions,
        trace: &mut Trace,
    ) -> Result<Spooled, Refusal> {
        let settings = self.parts.settings.load();
        let (all, own) = (settings.max_calls, settings.max_calls_per_caller);
        let (max_bytes, redaction) = (settings.max_argument_bytes, settings.caller_redaction);
        drop(settings);
        // What costs little comes first: a flood is refused before its arguments are redacted.
        let mut slot = Some(self.load.enter(&caller.principal, all, own)?);
        check_size(&call.arguments, max_bytes)?;
        check_narrowing(&call, redaction)?;
        trace.input(&call.arguments, &call.redact_keys);
        if self.parts.registry.has_unknown_starting() {
            Box::pin(self.await_unknown(caller, &call, &options)).await?;
        }
        let resolved = self.resolve(caller, call, trace)?;
        let resolved = self.rewrite(caller, resolved, trace).await?;
        let validated = self.validate(resolved)?;
        let mut authorized = self.authorize(caller, validated, &options, trace).await?;
        loop {
            let permitted = match authorized {
                Authorized::Permitted(permitted) => permitted,
                Authorized::Asked(required) => return Ok(Spooled::question(required)),
            };
            slot = slot.filter(|_| !permitted.waits());
            let performed = match self.execute(caller, permitted, &options, trace).await {
                Ok(performed) => performed,
                Err(failure) => {
                    return Err(Box::pin(self.review_failure(caller, failure, trace)).await);
                }
            };
            match performed {
                Performed::Done(executed) => {
                    let late = executed.time.late(&executed.entry, &options.cancel);
                    return tokio::select! {
                        biased;
                        spooled = self.spool(caller, executed, trace) => spooled,
                        refusal = late => Err(refusal),
                    };
                }
                Performed::Outdated(call) => {
                    authorized = Box::pin(self.reconsider(caller, call, &options, trace)).await?;
                }
            }
        }
    }

    /// Forgets a call that waits for answers which will not come.
    pub fn abandon(&self, state: &str) {
        let Some((tool, inner)) = self.continuations.inner(state) else { return };
        let source = tool.split_once(':').and_then(|(source, _)| SourceId::new(source).ok());
        let snapshot = self.parts.registry.snapshot();
        if let Some(source) = source.and_then(|id| snapshot.source(&id)) {
            source.abandon(&inner);
        }
    }

    /// The sources that do this for a caller with this view.
    #[must_use]
    pub fn open_sources(
        &self,
        view: &View,
        snapshot: &Snapshot,
        operation: Operation,
    ) -> BTreeSet<SourceId> {
        snapshot.open_sources(operation, |entry| view.admits(entry))
    }

    /// The sources of which a caller with this view may use anything.
    #[must_use]
    pub fn usable_sources(&self, view: &View, snapshot: &Snapshot) -> BTreeSet<SourceId> {
        let mut sources: BTreeSet<SourceId> = snapshot
            .available()
            .filter(|entry| view.admits(entry))
            .map(|entry| entry.id.source().clone())
            .collect();
        for operation in [Operation::ReadResource, Operation::GetPrompt] {
            sources.extend(self.open_sources(view, snapshot, operation));
        }
        sources
    }

    /// The tools that a caller may see and call, ordered by source, then name.
    #[must_use]
    pub fn tools(&self, caller: &Caller) -> Vec<Arc<Entry>> {
        self.visible(&self.view(caller), &self.registry())
    }

    /// The tools that a caller with this view may see, in one revision of the registry.
    #[must_use]
    pub fn visible(&self, view: &View, snapshot: &Snapshot) -> Vec<Arc<Entry>> {
        snapshot.available().filter(|entry| view.admits(entry)).cloned().collect()
    }

    /// The definitions that a caller with this view may see, in one revision of the registry; what
    /// the gateway knows to be secret is masked in them.
    #[must_use]
    pub fn listings(&self, view: &View, snapshot: &Snapshot) -> Vec<Value> {
        let visible = snapshot.available().filter(|entry| view.admits(entry));
        visible.map(|entry| self.shown(entry, snapshot, view.lineage())).collect()
    }

    /// The definitions that fit some words best, among those that a caller with this view may see.
    #[must_use]
    pub fn search(
        &self,
        view: &View,
        snapshot: &Snapshot,
        query: &str,
        limit: usize,
    ) -> Vec<Value> {
        let found = snapshot.search(query, |entry| view.admits(entry), limit);
        found.iter().map(|entry| self.shown(entry, snapshot, view.lineage())).collect()
    }

    /// The definition of one tool as it is listed: what the gateway knows to be secret is masked in it.
    #[must_use]
    pub fn listing(&self, entry: &Entry, snapshot: &Snapshot) -> Value {
        self.shown(entry, snapshot, None)
    }

    fn shown(&self, entry: &Entry, snapshot: &Snapshot, run: Option<&Lineage>) -> Value {
        let mut listing = entry.listing.clone();
        snapshot.show_uris(entry.id.source(), &mut listing);
        if let Some(run) = run {
            entry.source.show_to_run(entry.own_name(), run, &mut listing);
        }
        self.parts.redactor.load().mask_known_in(&mut listing);
        listing
    }

    /// The tools and everything else that sources offer, as they are now.
    #[must_use]
    pub fn registry(&self) -> Arc<Snapshot> {
        self.parts.registry.snapshot()
    }

    /// Changes with every revision of the registry.
    #[must_use]
    pub fn registry_changes(&self) -> watch::Receiver<u64> {
        self.parts.registry.subscribe()
    }

    /// What a caller may see now.
    #[must_use]
    pub fn view(&self, caller: &Caller) -> View {
        let held = self.parts.grants.held(caller, self.parts.clock.now_ms());
        View::new(held, caller.lineage.clone())
    }

    /// Whether a caller may see and call a tool now.
    #[must_use]
    pub fn is_open(&self, caller: &Caller, entry: &Entry) -> bool {
        let now = self.parts.clock.now_ms();
        entry.is_for(caller.lineage.as_deref())
            && self.parts.grants.cover(caller, &entry.requires, None, now).is_ok()
    }

    /// Changes whenever a grant is issued or revoked.
    #[must_use]
    pub fn grant_changes(&self) -> watch::Receiver<u64> {
        self.parts.grants.subscribe()
    }

    /// Whether a caller sees the full tool list, or search instead.
    #[must_use]
    pub fn exposure(&self, principal: &Principal) -> Expose {
        self.parts.exposures.of(principal)
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> Arc<GatewaySettings> {
        self.parts.settings.load_full()
    }

    /// The redactor in force.
    #[must_use]
    pub fn redactor(&self) -> Arc<Redactor> {
        self.parts.redactor.load_full()
    }

    /// All approvals that are remembered, oldest first.
    #[must_use]
    pub fn approvals(&self) -> Vec<Approval> {
        self.parts.approvals.list()
    }

    /// The approval with this id.
    #[must_use]
    pub fn approval(&self, id: &str) -> Option<Approval> {
        self.approvals().into_iter().find(|approval| approval.id == id)
    }

    /// The approvals that are asked for from now on.
    #[must_use]
    pub fn approval_requests(&self) -> broadcast::Receiver<Approval> {
        self.parts.approvals.subscribe()
    }

    /// Changes whenever an approval is decided.
    #[must_use]
    pub fn approval_changes(&self) -> watch::Receiver<u64> {
        self.parts.approvals.decisions()
    }

    /// The artifacts that a reader may read, newest first.
    pub async fn artifacts(&self, reader: &Principal) -> Result<Vec<ArtifactInfo>, StoreError> {
        self.parts.artifacts.list(reader).await
    }

    /// An artifact and its bytes, if this reader may read it.
    pub async fn artifact(
        &self,
        sha256: &str,
        reader: &Principal,
    ) -> Result<Option<(ArtifactInfo, Vec<u8>)>, StoreError> {
        self.parts.artifacts.get(sha256, reader).await
    }

    /// Records that a surface turned a caller away before there was a call. The caller is refused
    /// whether or not that can be written.
    pub async fn record_refused_caller(&self, principal: Option<&Principal>, reason: &str) {
        let draft = EventDraft::new(EventKind::CallerRefused, self.parts.clock.now_ms())
            .maybe_text("principal", principal.map(Principal::as_str))
            .text("reason", reason);
        if let Err(error) = self.parts.audit.append(draft).await {
            tracing::error!(%error, "a refused caller could not be written to the audit log");
        }
    }

    /// The newest sequence of the audit log.
    #[must_use]
    pub fn audit_head(&self) -> u64 {
        self.parts.audit.head()
    }

    /// The gate's clock.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.parts.clock
    }

    /// The gate's generator of ids.
    #[must_use]
    pub fn ids(&self) -> &dyn Ids {
        &*self.parts.ids
    }
}
