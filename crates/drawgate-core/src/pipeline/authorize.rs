//! Authorize: rules and confirmation, on the actual arguments; then the decision event.
//!
//! Only this file can make a [`PermittedCall`], and no source can be called without one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::audit::Trace;
use super::gateway::{CallOptions, Gateway};
use super::validate::Validated;
use super::{Refusal, refuse};
use crate::canonical;
use crate::model::{Caller, ErrorCode, GrantId, PolicyDecision, ToolId, ToolInvocation, Verdict};
use crate::policy::{
    Approval, ApprovalError, ApprovalState, ApprovalTicket, Binding, PolicyRequest, decide,
};
use crate::registry::Entry;

/// A call that may be made: named, valid, allowed, and written down.
pub struct PermittedCall {
    pub(super) entry: Arc<Entry>,
    pub(super) call_id: String,
    arguments: Map<String, Value>,
    pub(super) meta: Map<String, Value>,
    pub(super) timeout: Duration,
    pub(super) grant_ids: Vec<GrantId>,
    pub(super) confirmed_by: Confirmed,
}

/// What satisfied a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confirmed {
    /// A grant with an approval behind it, which must still be there at the start.
    Grant,
    /// A person's approval of this call, or no confirmation was needed.
    Otherwise,
}

impl PermittedCall {
    /// The source's own name for the tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.entry.id.tool()
    }

    /// The tool's id.
    #[must_use]
    pub fn tool_id(&self) -> &ToolId {
        &self.entry.id
    }

    /// Unique to this call; the same in its audit events.
    #[must_use]
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// The arguments, as validated and allowed.
    #[must_use]
    pub fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }

    /// The arguments, for a source that consumes them.
    #[must_use]
    pub fn into_arguments(self) -> Map<String, Value> {
        self.arguments
    }

    /// The same call once more, for the one retry that the gate may make.
    pub(super) fn again(&self) -> Self {
        Self {
            entry: Arc::clone(&self.entry),
            call_id: self.call_id.clone(),
            arguments: self.arguments.clone(),
            meta: self.meta.clone(),
            timeout: self.timeout,
            grant_ids: self.grant_ids.clone(),
            confirmed_by: self.confirmed_by,
        }
    }
}

impl Gateway {
    pub(super) async fn authorize(
        &self,
        caller: &Caller,
        validated: Validated,
        options: &CallOptions,
        trace: &mut Trace,
    ) -> Result<PermittedCall, Refusal> {
        let Validated { entry, call, cover } = validated;
        let max = self.parts.settings.load().max_argument_bytes;
        if trace.input_size() > max {
            let message = format!("the arguments are larger than {max} bytes");
            return Err(refuse(ErrorCode::InvalidArguments, message));
        }
        let request = PolicyRequest {
            tool_id: &entry.id,
            action: entry.action.as_deref(),
            claimed: entry.claimed.as_deref(),
            principal: &caller.principal,
            arguments: &call.arguments,
            size: trace.input_size(),
        };
        let mut decision = decide(&self.parts.rules.load(), &request);
        confirm_if_asked(&entry, &mut decision);
        if decision.decision == Verdict::Deny {
            trace.decided(&decision, None).await?;
            return Err(refuse(
                ErrorCode::PermissionDenied,
                format!("policy denies it: {}", decision.reason),
            ));
        }
        let (approval, confirmed_by) = match (decision.requires_confirmation, cover.approval) {
            (true, None) => (
                self.confirm(caller, &entry, &call, &decision, options, trace).await?,
                Confirmed::Otherwise,
            ),
            (true, given @ Some(_)) => (given, Confirmed::Grant),
            (false, _) => (None, Confirmed::Otherwise),
        };
        trace.decided(&decision, approval.as_deref()).await?;
        Ok(PermittedCall {
            call_id: trace.call_id().to_owned(),
            timeout: self.time_for(&entry, &call),
            arguments: call.arguments,
            meta: call.meta,
            grant_ids: call.grant_ids,
            confirmed_by,
            entry,
        })
    }

    fn time_for(&self, entry: &Entry, call: &ToolInvocation) -> Duration {
        let asked = call.timeout_ms.map_or(Duration::MAX, Duration::from_millis);
        entry.limits.timeout.min(asked).min(self.parts.settings.load().max_timeout)
    }

    /// Gets a person's yes, or refuses. The approval is used up when this returns its id.
    async fn confirm(
        &self,
        caller: &Caller,
        entry: &Entry,
        call: &ToolInvocation,
        decision: &PolicyDecision,
        options: &CallOptions,
        trace: &mut Trace,
    ) -> Result<Option<String>, Refusal> {
        let config = self.parts.settings.load().approvals;
        if !config.ask {
            return Ok(None);
        }
        let approvals = &self.parts.approvals;
        let mut arguments = Vec::new();
        canonical::write_map(&call.arguments, &mut arguments);
        let binding = approvals.bind(&entry.id, &entry.definition, &caller.principal, &arguments);
        let mut decisions = approvals.decisions();
        let asked = if let Some(standing) = approvals.find(&binding) {
            standing
        } else {
            let redactor = self.parts.redactor.load();
            let shown = redactor.redact_map(&call.arguments, &call.redact_keys).into_owned();
            drop(redactor);
            let ticket = ticket(caller, entry, binding.clone(), shown, decision);
            let asked =
                approvals.ask(ticket, config.expire).await.map_err(|error| not_asked(&error))?;
            trace.asked(&asked).await?;
            asked
        };
        let answered = async {
            loop {
                match self.answer(&binding) {
                    Some(answer) => return answer,
                    // The sender lives as long as the gate, so an error can't come.
                    None => drop(decisions.changed().await),
                }
            }
        };
        let approved = tokio::select! {
            biased;
            answer = answered => answer?,
            () = options.cancel.cancelled() => {
                return Err(refuse(ErrorCode::Cancelled, "the caller gave up waiting"));
            }
            () = tokio::time::sleep(config.hold) => return Err(needs_approval(&asked)),
        };
        // Not inside the wait: an approval must not be used up by a call that is given up meanwhile.
        let used = approvals.consume(&approved.id).await.map_err(|error| not_used(&error))?;
        Ok(Some(used.id))
    }

    /// What has been decided about this exact call; `None` while it is open.
    fn answer(&self, binding: &Binding) -> Option<Result<Approval, Refusal>> {
        let Some(approval) = self.parts.approvals.find(binding) else {
            return Some(Err(refuse(
                ErrorCode::PermissionEscalationRequired,
                "the approval has expired or was used by another call; call again to ask anew",
            )));
        };
        match approval.state {
            ApprovalState::Denied => {
                Some(Err(refuse(ErrorCode::PermissionDenied, "a person has denied this call")
                    .with_details(json!({ "approvalId": approval.id }))))
            }
            ApprovalState::Approved => Some(Ok(approval)),
            ApprovalState::Pending | ApprovalState::Used | ApprovalState::Expired => None,
        }
    }
}

/// A tool's own demand for confirmation is as good as a rule's.
fn confirm_if_asked(entry: &Entry, decision: &mut PolicyDecision) {
    if entry.confirm && decision.decision == Verdict::Allow {
        decision.decision = Verdict::AllowWithConfirm;
        decision.requires_confirmation = true;
        "the tool requires confirmation".clone_into(&mut decision.reason);
    }
}

fn ticket(
    caller: &Caller,
    entry: &Entry,
    binding: Binding,
    shown: Map<String, Value>,
    decision: &PolicyDecision,
) -> ApprovalTicket {
    ApprovalTicket {
        tool_id: entry.id.clone(),
        principal: caller.principal.clone(),
        binding,
        arguments: Value::Object(shown),
        reason: decision.reason.clone(),
        risk_tags: decision.risk_tags.clone(),
    }
}

fn not_asked(error: &ApprovalError) -> Refusal {
    let code = match error {
        ApprovalError::TooMany(_) => ErrorCode::RateLimited,
        ApprovalError::Store(_) => ErrorCode::Unavailable,
        ApprovalError::Unknown(_) | ApprovalError::Settled { .. } => ErrorCode::Conflict,
    };
    refuse(code, error.to_string())
}

fn not_used(error: &ApprovalError) -> Refusal {
    let code = match error {
        ApprovalError::Store(_) => ErrorCode::Unavailable,
        ApprovalError::TooMany(_) | ApprovalError::Unknown(_) | ApprovalError::Settled { .. } => {
            ErrorCode::PermissionEscalationRequired
        }
    };
    refuse(code, error.to_string())
}

fn needs_approval(approval: &Approval) -> Refusal {
    let message = format!(
        "a person must approve this call: `drawgate approvals approve {}`; then call again with the same arguments",
        approval.id
    );
    refuse(ErrorCode::PermissionEscalationRequired, message)
        .with_details(json!({ "approvalId": approval.id, "expiresAt": approval.expires_at }))
}
