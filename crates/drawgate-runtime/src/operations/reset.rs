//! Back to the beginning, for programs that the gateway is a part of.

use drawgate_core::audit::EventKind;
use drawgate_core::model::Principal;
use drawgate_core::policy::ApprovalState;
use drawgate_core::store::Write;

use super::{OperationError, Operations};

/// What a reset has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetSummary {
    /// Grants that were issued; those that stand by a registration or the configuration stay.
    pub grants: usize,
    /// Approvals that were pending, or given and not used.
    pub approvals: usize,
}

impl Operations {
    /// Ends all issued grants and all approvals that could still permit a call. The log stays as it is.
    pub async fn reset(&self, actor: &Principal) -> Result<ResetSummary, OperationError> {
        let turn = self.acts.turn().await;
        let parts = self.control.parts();
        let grants: Vec<_> = self
            .grants()
            .into_iter()
            .filter_map(|grant| parts.grants.revocable(&grant.grant_id).ok())
            .collect();
        let open = |state| matches!(state, ApprovalState::Pending | ApprovalState::Approved);
        let approvals = parts.approvals.list().into_iter().filter(|it| open(it.state));
        let approvals: Vec<String> = approvals.map(|approval| approval.id).collect();
        let summary = ResetSummary { grants: grants.len(), approvals: approvals.len() };
        let outcome = self
            .draft(actor, EventKind::GatewayReset)
            .texts("grantIds", grants.iter().map(|id| &**id))
            .texts("approvalIds", approvals.iter().map(String::as_str));
        let writes = grants.iter().cloned().map(Write::RemoveGrant);
        let writes = writes.chain(approvals.iter().cloned().map(Write::RemoveApproval)).collect();
        let control = self.control.clone();
        let memory = async move {
            let parts = control.parts();
            parts.grants.revoke(&grants).await;
            parts.approvals.forget(&approvals);
            for id in &approvals {
                control.forget_arguments(id);
            }
        };
        turn.act(vec![outcome], writes, memory).await?;
        Ok(summary)
    }
}

#[cfg(test)]
#[path = "reset_tests.rs"]
mod tests;
