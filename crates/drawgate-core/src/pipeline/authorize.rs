//! Authorize: rules and confirmation, on the actual arguments; then the decision event.
//!
//! Only this file can make a [`PermittedCall`], and no source can be called without one. A call that
//! has waited since, while the rules changed, comes back here and is decided anew.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::audit::Trace;
use super::confirm::{Answer, Asking, Page};
use super::continuation::{Bound, Handle};
use super::gateway::{CallOptions, Gateway};
use super::intercept::{Asked, HOOK_RULE};
use super::resolve::not_for;
use super::time::{Longest, TimeLimit};
use super::validate::Validated;
use super::{Refusal, refuse};
use crate::canonical;
use crate::hooks::Hooks;
use crate::model::{
    Caller, ErrorCode, GrantId, InputGiven, InputRequired, Operation, PolicyDecision, ToolId,
    ToolInvocation, Verdict,
};
use crate::policy::{Cover, PolicyRequest, Rules, decide};
use crate::registry::{Entry, Validation};

/// A call that may be made: named, valid, allowed, and written down. What it consists of is on the heap,
/// because it passes through many futures, each of which would hold it.
pub struct PermittedCall(pub(super) Box<Permitted>);

/// What a permitted call consists of.
#[derive(Clone)]
pub(super) struct Permitted {
    pub(super) entry: Arc<Entry>,
    /// The rules and hooks that it was decided by.
    pub(super) rules: Arc<Rules>,
    pub(super) hooks: Arc<Hooks>,
    /// The approval that it was made with; a call that goes on after a question has it already.
    pub(super) approval: Option<String>,
    /// The hash of the arguments, which binds the state of a call that is interrupted.
    pub(super) binding: String,
    pub(super) input: Option<InputGiven>,
    /// The source's handle of a call that was begun before.
    pub(super) resume: Option<Arc<str>>,
    pub(super) call_id: String,
    arguments: Map<String, Value>,
    pub(super) meta: Map<String, Value>,
    pub(super) limit: TimeLimit,
    /// When the time is over that the caller gave it.
    pub(super) asked_until: Option<Instant>,
    pub(super) grant_ids: Option<Vec<GrantId>>,
    pub(super) confirmed_by: Confirmed,
    /// Another name, for a source within a bundle.
    inner: Option<Arc<str>>,
}

/// What became of a valid call.
pub(crate) enum Authorized {
    Permitted(PermittedCall),
    /// A person must be asked first, and the caller can show them where.
    Asked(InputRequired),
}

/// What satisfied a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confirmed {
    /// A grant with an approval behind it, which must still be there at the start.
    Grant,
    /// A person's approval of this call, also one that it got before it went on.
    Person,
    /// Nothing: no confirmation was needed.
    Nothing,
}

impl PermittedCall {
    /// The source's own name for the tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.0.inner.as_deref().unwrap_or_else(|| self.0.entry.own_name())
    }

    /// The same call under the name that a source within a bundle has for the tool. A bundle passes
    /// calls on; what was decided about them stays as it is.
    #[must_use]
    pub fn under(mut self, name: Arc<str>) -> Self {
        self.0.inner = Some(name);
        self
    }

    /// What is asked for.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.entry.operation
    }

    /// The tool's id.
    #[must_use]
    pub fn tool_id(&self) -> &ToolId {
        &self.0.entry.id
    }

    /// Unique to this call; the same in its audit events.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.0.call_id
    }

    /// The arguments, as validated and allowed.
    #[must_use]
    pub fn arguments(&self) -> &Map<String, Value> {
        &self.0.arguments
    }

    /// The arguments, for a source that consumes them.
    #[must_use]
    pub fn into_arguments(self) -> Map<String, Value> {
        self.0.arguments
    }

    /// Whether it waits for other runs, and so holds no slots.
    pub(super) fn waits(&self) -> bool {
        self.0.entry.source.waits(self.0.entry.own_name())
    }

    /// The same call once more: for the one retry that the gate may make, and for those that a bundle's
    /// author allows where nothing was sent.
    #[must_use]
    pub fn again(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Gateway {
    pub(super) async fn authorize(
        &self,
        caller: &Caller,
        validated: Validated,
        options: &CallOptions,
        trace: &mut Trace,
    ) -> Result<Authorized, Refusal> {
        let Validated { entry, mut call, cover } = validated;
        let Decided { rules, hooks, decision } =
            self.decide(caller, &entry, &call.arguments, trace).await?;
        // Only a caller that can be asked, or that answers, needs what binds a state to its call.
        let can_wait = call.input.is_some() || !options.client.capabilities.is_empty();
        let binding = if can_wait { hash_of(&call.arguments) } else { String::new() };
        let resume = options.resume.as_ref().map(|handle| Handle::open(handle, &entry));
        let (resume, resumed_by) = resume.transpose()?.unzip();
        let before = self.continued(caller, &entry, &mut call, &binding)?;
        let was_approved = before.approval.is_some() || resumed_by == Some(Confirmed::Person);
        let limit = self.time_for(&entry, &call, options);
        let permitted = Permitted {
            rules,
            hooks,
            approval: before.approval,
            binding,
            call_id: trace.call_id().to_owned(),
            limit,
            asked_until: limit.asked_until(),
            arguments: call.arguments,
            meta: call.meta,
            input: call.input,
            resume,
            grant_ids: call.grant_ids,
            confirmed_by: if was_approved { Confirmed::Person } else { Confirmed::Nothing },
            inner: None,
            entry,
        };
        let page = if before.shown { None } else { self.page(options) };
        let terms = Terms { decision, granted: cover.approval, page };
        self.confirmed(caller, PermittedCall(Box::new(permitted)), terms, options, trace).await
    }

    /// Decides once more about a call that has not begun, on the rules in force now.
    pub(super) async fn reconsider(
        &self,
        caller: &Caller,
        mut call: PermittedCall,
        options: &CallOptions,
        trace: &mut Trace,
    ) -> Result<Authorized, Refusal> {
        call.0.entry = self.current(&call.0.entry)?;
        let Decided { rules, hooks, decision } =
            self.decide(caller, &call.0.entry, &call.0.arguments, trace).await?;
        (call.0.rules, call.0.hooks) = (rules, hooks);
        if call.0.confirmed_by == Confirmed::Grant {
            call.0.confirmed_by = Confirmed::Nothing;
        }
        let cover = self.cover_again(caller, &call, &call.0.entry)?;
        // The answers to a source's question would be lost on the way to a page and back.
        let page = self.page(options).filter(|_| call.0.input.is_none());
        let terms = Terms { decision, granted: cover.approval, page };
        self.confirmed(caller, call, terms, options, trace).await
    }

    /// What the rules and hooks in force say, and which these are. A no is written down and refuses the
    /// call.
    async fn decide(
        &self,
        caller: &Caller,
        entry: &Entry,
        arguments: &Map<String, Value>,
        trace: &Trace,
    ) -> Result<Decided, Refusal> {
        let request = PolicyRequest {
            tool_id: &entry.id,
            action: entry.action.as_deref(),
            claimed: entry.claimed.as_deref(),
            principal: &caller.principal,
            lineage: caller.lineage.as_deref(),
            arguments,
            fits: fits(entry, arguments),
            size: trace.input_size(),
        };
        let (rules, hooks) = (self.parts.rules.load_full(), self.parts.hooks.load_full());
        let mut decision = decide(&rules, &request);
        confirm_if_asked(entry, &mut decision);
        let mut failed = None;
        if decision.decision != Verdict::Deny && !hooks.check.is_empty() {
            let asked = Asked { caller, entry, trace, arguments };
            let consulted = Box::pin(self.consult(&hooks, asked, &mut decision)).await;
            failed = consulted.err();
        }
        if decision.decision == Verdict::Deny {
            trace.decided(&decision, None).await?;
        }
        match (failed, decision.decision) {
            (Some(failed), _) => Err(failed),
            (None, Verdict::Deny) => Err(refuse(ErrorCode::PermissionDenied, denial(&decision))),
            (None, Verdict::Allow | Verdict::AllowWithConfirm) => {
                Ok(Decided { rules, hooks, decision })
            }
        }
    }

    /// Gets the confirmation that is demanded, unless the call has it, and writes the decision.
    async fn confirmed(
        &self,
        caller: &Caller,
        mut call: PermittedCall,
        terms: Terms,
        options: &CallOptions,
        trace: &Trace,
    ) -> Result<Authorized, Refusal> {
        let Terms { decision, granted, page } = terms;
        let mut stands_for = None;
        match (decision.requires_confirmation, call.0.confirmed_by, granted) {
            (false, _, _) | (true, Confirmed::Person | Confirmed::Grant, _) => {}
            (true, Confirmed::Nothing, Some(approval)) => {
                call.0.confirmed_by = Confirmed::Grant;
                stands_for = Some(approval);
            }
            (true, Confirmed::Nothing, None) => {
                let asking = Asking {
                    caller,
                    entry: &call.0.entry,
                    arguments: &call.0.arguments,
                    decision: &decision,
                    time: (call.0.limit, call.0.asked_until),
                };
                match Box::pin(self.confirm(&asking, options, page, trace)).await? {
                    Answer::Yes(Some(approval)) => {
                        call.0.approval = Some(approval);
                        call.0.confirmed_by = Confirmed::Person;
                    }
                    // Nobody is asked at present.
                    Answer::Yes(None) => {}
                    Answer::Ask(required) => return Ok(Authorized::Asked(required)),
                }
            }
        }
        trace.decided(&decision, stands_for.as_deref().or(call.0.approval.as_deref())).await?;
        Ok(Authorized::Permitted(call))
    }

    /// What covers a call that was decided before, if its tool, as it is registered now, is still open
    /// to the caller.
    pub(super) fn cover_again(
        &self,
        caller: &Caller,
        call: &PermittedCall,
        entry: &Entry,
    ) -> Result<Cover, Refusal> {
        if !entry.is_for(caller.lineage.as_deref()) {
            return Err(not_for(entry.id.as_str()));
        }
        let now = self.parts.clock.now_ms();
        let cover =
            self.parts.grants.cover(caller, &entry.requires, call.0.grant_ids.as_deref(), now);
        cover.map_err(|_| {
            refuse(ErrorCode::PermissionDenied, "the grant was revoked or has expired")
        })
    }

    /// The tool as it is registered now, if it is still the one that was decided about.
    pub(super) fn current(&self, decided: &Entry) -> Result<Arc<Entry>, Refusal> {
        match self.parts.registry.peek().entry(&decided.id) {
            Some(entry) if entry.definition == decided.definition => Ok(Arc::clone(entry)),
            Some(_) => {
                let message = "the tool's definition has changed; list the tools again";
                Err(refuse(ErrorCode::Conflict, message))
            }
            None => Err(refuse(ErrorCode::Unavailable, "the tool has gone away")),
        }
    }

    /// Opens the state that a caller brings back: the source gets its own part, and an approval that
    /// the call had got counts again.
    fn continued(
        &self,
        caller: &Caller,
        entry: &Entry,
        call: &mut ToolInvocation,
        arguments: &str,
    ) -> Result<Before, Refusal> {
        let Some(input) = &mut call.input else { return Ok(Before::default()) };
        let Some(state) = input.state.take() else { return Ok(Before::default()) };
        let bound = Bound { principal: &caller.principal, entry, arguments };
        let claims = self.continuations.open(&state, &bound, self.parts.clock.now_ms())?;
        input.state = claims.inner;
        if claims.page {
            // The question was the gate's own, and so is the answer.
            call.input = None;
        }
        Ok(Before { approval: claims.approval, shown: claims.page })
    }

    /// Where a person can be sent by this caller.
    fn page(&self, options: &CallOptions) -> Option<Page> {
        let request = options.page_request?;
        Some(Page { address: self.parts.settings.load().approval_page.clone()?, request })
    }

    fn time_for(&self, entry: &Entry, call: &ToolInvocation, options: &CallOptions) -> TimeLimit {
        let asked = call.timeout_ms.map(Duration::from_millis);
        let settings = self.parts.settings.load();
        if options.as_task {
            let most = settings.max_task_time;
            TimeLimit::new(most, (most, Longest::Task), asked)
        } else {
            TimeLimit::new(entry.limits.timeout, (settings.max_timeout, Longest::Call), asked)
        }
    }
}

/// Whether the source can read the arguments in one way only.
fn fits(entry: &Entry, arguments: &Map<String, Value>) -> bool {
    match entry.validation {
        Validation::Gate => true,
        Validation::Source => entry.arguments.check(&Value::Object(arguments.clone())).is_ok(),
    }
}

/// What a caller hears of a no. Hooks are named in their own reasons.
fn denial(decision: &PolicyDecision) -> String {
    let by_hook = decision.rule_id.as_deref().is_some_and(|rule| rule.starts_with(HOOK_RULE));
    if by_hook { decision.reason.clone() } else { format!("policy denies it: {}", decision.reason) }
}

/// A tool's own demand for confirmation is as good as a rule's.
fn confirm_if_asked(entry: &Entry, decision: &mut PolicyDecision) {
    if entry.confirm && decision.decision == Verdict::Allow {
        decision.decision = Verdict::AllowWithConfirm;
        decision.requires_confirmation = true;
        "the tool requires confirmation".clone_into(&mut decision.reason);
    }
}

/// A decision that lets a call go on, and what it was made by.
struct Decided {
    rules: Arc<Rules>,
    hooks: Arc<Hooks>,
    decision: PolicyDecision,
}

/// What a confirmation depends on.
struct Terms {
    decision: PolicyDecision,
    /// The approval behind the caller's grants.
    granted: Option<String>,
    /// Where the caller can send a person.
    page: Option<Page>,
}

/// What an earlier call of the same has settled.
#[derive(Default)]
struct Before {
    approval: Option<String>,
    /// The caller has been sent to the page where a person decides.
    shown: bool,
}

pub(super) fn hash_of(arguments: &Map<String, Value>) -> String {
    let mut bytes = Vec::new();
    canonical::write_map(arguments, &mut bytes);
    canonical::sha256_hex(&bytes)
}
