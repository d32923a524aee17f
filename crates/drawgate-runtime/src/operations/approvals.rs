//! Approvals: what waits for a person, the exact call, and the decision.

use std::sync::Arc;

use drawgate_core::acts::ActError;
use drawgate_core::audit::EventKind;
use drawgate_core::model::Principal;
use drawgate_core::policy::{Approval, ApprovalState};
use drawgate_core::store::Write;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{OperationError, Operations};

/// An approval, and what can be done about it now.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedApproval {
    /// The approval.
    #[serde(flatten)]
    pub approval: Approval,
    /// Whether a call waits for the decision, while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_awaited: Option<bool>,
    /// The page where a person can decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

/// A person's answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Decision {
    /// Yes or no.
    pub approve: bool,
    /// The operator's token.
    #[serde(default)]
    pub token: String,
}

impl Decision {
    /// The state that it leads to.
    #[must_use]
    pub const fn state(&self) -> ApprovalState {
        if self.approve { ApprovalState::Approved } else { ApprovalState::Denied }
    }
}

/// A decision, and what comes of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// The approval as it stands now.
    #[serde(flatten)]
    pub approval: Approval,
    /// Whether a call waited for the decision.
    pub was_awaited: bool,
}

impl Decided {
    /// What comes of it, in words. Times are written by `time`.
    #[must_use]
    pub fn in_words(&self, time: impl Fn(u64) -> String) -> String {
        let Approval { principal, expires_at, state, .. } = &self.approval;
        let until = time(*expires_at);
        match (*state == ApprovalState::Approved, self.was_awaited) {
            (true, true) => {
                // Rules may have changed since it was held, and decide once more.
                "approved: the call that waits goes on, unless the rules have come to deny it"
                    .to_owned()
            }
            (true, false) => format!(
                "approved: no call waits at this moment; the next call of `{principal}` with the same arguments passes, once, until {until}"
            ),
            (false, true) => "denied: the call that waits is refused".to_owned(),
            (false, false) => {
                format!(
                    "denied: no call waits at this moment; the same call is refused until {until}"
                )
            }
        }
    }
}

/// Asks for the exact arguments of a call.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reveal {
    /// The operator's token.
    #[serde(default)]
    pub token: String,
}

/// The arguments of a call without any mask.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExactArguments {
    /// The arguments; none if they are not in memory any more.
    pub arguments: Option<Value>,
}

impl Operations {
    /// All approvals.
    #[must_use]
    pub fn approvals(&self) -> Vec<ListedApproval> {
        self.gateway.approvals().into_iter().map(|approval| self.listed(approval)).collect()
    }

    /// One approval.
    #[must_use]
    pub fn approval(&self, id: &str) -> Option<ListedApproval> {
        self.gateway.approval(id).map(|approval| self.listed(approval))
    }

    fn listed(&self, approval: Approval) -> ListedApproval {
        if approval.state != ApprovalState::Pending {
            return ListedApproval { approval, is_awaited: None, page: None };
        }
        let page = &self.gateway.settings().approval_page;
        ListedApproval {
            is_awaited: Some(self.gateway.is_awaited(&approval.id)),
            page: page.as_ref().map(|page| format!("{page}/{}", approval.id)),
            approval,
        }
    }

    /// The exact arguments that an approval is about, as canonical JSON; they are in memory only.
    #[must_use]
    pub fn exact_arguments(&self, approval: &str) -> Option<Arc<str>> {
        self.control.exact_arguments(approval)
    }

    /// Decides an approval, and says what comes of it.
    pub async fn decide_and_tell(
        &self,
        actor: &Principal,
        id: &str,
        answer: ApprovalState,
    ) -> Result<Decided, OperationError> {
        let was_awaited = self.gateway.is_awaited(id);
        let approval = self.decide(actor, id, answer).await?;
        Ok(Decided { approval, was_awaited })
    }

    /// Decides an approval. A yes that can't be written down is none.
    pub async fn decide(
        &self,
        actor: &Principal,
        id: &str,
        answer: ApprovalState,
    ) -> Result<Approval, OperationError> {
        let turn = self.acts.turn().await;
        let approvals = Arc::clone(&self.control.parts().approvals);
        let decided = approvals.decided(id, answer)?;
        let outcome = self
            .draft(actor, EventKind::ApprovalDecided)
            .text("approvalId", id)
            .text("toolId", &decided.tool_id)
            .text("requestedBy", decided.principal.as_str())
            .flag("approved", answer == ApprovalState::Approved);
        let settled = decided.clone();
        let control = self.control.clone();
        let memory = async move {
            control.forget_arguments(&settled.id);
            approvals.settle(settled);
        };
        let write = Write::SettleApproval { from: ApprovalState::Pending, to: decided.clone() };
        match turn.act(vec![outcome], vec![write], memory).await {
            // Another gateway on the same store was first.
            Err(conflict @ ActError::Conflict(_)) => {
                let approvals = &self.control.parts().approvals;
                approvals.reload(id).await?;
                approvals.decided(id, answer)?;
                Err(conflict.into())
            }
            done => Ok(done.map(|()| decided)?),
        }
    }

    /// Whether this is the operator's token. Hashes are compared instead of the texts, so that the time
    /// it takes says nothing about them.
    #[must_use]
    pub fn is_operator(&self, token: &str) -> bool {
        Sha256::digest(token) == Sha256::digest(self.admin.expose())
    }

    /// Refuses a token that is not the operator's, and none.
    pub fn check_operator(&self, token: &str) -> Result<(), OperationError> {
        if self.is_operator(token) { Ok(()) } else { Err(OperationError::NotOperator) }
    }

    /// The exact arguments of a call, for an operator. They are in memory only.
    pub fn reveal(&self, id: &str, reveal: &Reveal) -> Result<ExactArguments, OperationError> {
        self.check_operator(&reveal.token)?;
        let arguments = self.exact_arguments(id).map(|text| serde_json::from_str(&text));
        Ok(ExactArguments { arguments: arguments.transpose().map_err(anyhow::Error::from)? })
    }
}
