//! Confirm: a person's yes to a call that needs one, waited for or asked for on a page.

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::audit::Trace;
use super::authorize::hash_of;
use super::continuation::{Bound, Carried};
use super::gateway::{ApprovalPage, CallOptions, Gateway, PageRequest};
use super::time::TimeLimit;
use super::{Refusal, refuse};
use crate::canonical;
use crate::model::{Caller, ErrorCode, InputRequired, PolicyDecision};
use crate::policy::{Approval, ApprovalError, ApprovalState, ApprovalTicket, Binding};
use crate::registry::Entry;

/// What a person is asked about.
pub(super) struct Asking<'a> {
    pub(super) caller: &'a Caller,
    pub(super) entry: &'a Entry,
    pub(super) arguments: &'a Map<String, Value>,
    pub(super) decision: &'a PolicyDecision,
    /// The time of the call, and when that is over which the caller gave it.
    pub(super) time: (TimeLimit, Option<Instant>),
}

/// Where a caller can send a person, and how it is asked to.
pub(super) struct Page {
    pub(super) address: String,
    pub(super) request: PageRequest,
}

/// A person's answer, or the way to it.
pub(super) enum Answer {
    Yes(Option<String>),
    Ask(InputRequired),
}

impl Gateway {
    /// Gets a person's yes, or refuses. The approval is used up when this returns its id.
    pub(super) async fn confirm(
        &self,
        asking: &Asking<'_>,
        options: &CallOptions,
        page: Option<Page>,
        trace: &Trace,
    ) -> Result<Answer, Refusal> {
        let Asking { caller, entry, .. } = asking;
        let config = self.parts.settings.load().approvals;
        if !config.ask {
            return Ok(Answer::Yes(None));
        }
        let approvals = &self.parts.approvals;
        let mut arguments = Vec::new();
        canonical::write_map(asking.arguments, &mut arguments);
        let binding = approvals.bind(&entry.id, &entry.definition, &caller.principal, &arguments);
        let mut decisions = approvals.decisions();
        let asked = if let Some(standing) = approvals.find(&binding) {
            standing
        } else {
            let shown = trace.shown_input(asking.arguments);
            let ticket = ticket(asking, binding.clone(), shown);
            let asked =
                approvals.ask(ticket, config.expire).await.map_err(|error| not_asked(&error))?;
            trace.asked(&asked).await?;
            asked
        };
        if asked.state == ApprovalState::Pending {
            let times = (self.parts.clock.now_ms(), asked.expires_at);
            self.held_calls.keep(&asked.id, &caller.principal, asking.arguments, times);
        }
        if let Some(page) = page.filter(|_| asked.state == ApprovalState::Pending) {
            return self.show(asking, &asked, &page).map(Answer::Ask);
        }
        let waiting = self.held_calls.wait(&asked.id);
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
            () = until(asking.time.1) => {
                return Err(asking.time.0.too_late(self.needs_approval(&asked)));
            }
            () = tokio::time::sleep(options.while_asked.hold(config.hold)) => return Err(self.needs_approval(&asked)),
            () = self.held_calls.released() => return Err(self.needs_approval(&asked)),
        };
        drop(waiting);
        // Not inside the wait: an approval must not be used up by a call that is given up meanwhile.
        let used = approvals.consume(&approved.id).await.map_err(|error| not_used(&error))?;
        Ok(Answer::Yes(Some(used.id)))
    }

    /// Sends the caller to the page where a person decides. It comes back with the state and, if the
    /// person has not decided by then, waits like any other.
    fn show(
        &self,
        asking: &Asking<'_>,
        asked: &Approval,
        page: &Page,
    ) -> Result<InputRequired, Refusal> {
        let Asking { caller, entry, .. } = asking;
        let arguments = hash_of(asking.arguments);
        let bound = Bound { principal: &caller.principal, entry, arguments: &arguments };
        let (nonce, now) = (self.parts.ids.unique(), self.parts.clock.now_ms());
        let state = self.continuations.seal(&bound, Carried::Page, nonce, now)?;
        let question = (page.request)(&ApprovalPage {
            approval: &asked.id,
            url: &format!("{}/{}", page.address, asked.id),
            message: &format!("a person must approve the call of `{}`", entry.wire),
        });
        let requests = Map::from_iter([("approval".to_owned(), question)]);
        Ok(InputRequired { requests, state: Some(state) })
    }

    /// Tells the caller that a person must decide, and where. By which commands a person
    /// does it is not for callers: many of them have a shell.
    fn needs_approval(&self, approval: &Approval) -> Refusal {
        let page = self.parts.settings.load().approval_page.clone();
        let page = page.map(|page| format!("{page}/{}", approval.id));
        let place = match &page {
            Some(page) => format!("at {page}"),
            None => "at the gateway".to_owned(),
        };
        let message = format!(
            "a person must approve this call {place} (approval `{}`); tell them, and call again with the same arguments afterwards",
            approval.id
        );
        let mut details = json!({ "approvalId": approval.id, "expiresAt": approval.expires_at });
        if let Some(page) = page {
            details["page"] = page.into();
        }
        refuse(ErrorCode::PermissionEscalationRequired, message).with_details(details)
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

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

fn ticket(asking: &Asking<'_>, binding: Binding, shown: Map<String, Value>) -> ApprovalTicket {
    let Asking { caller, entry, decision, .. } = asking;
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
