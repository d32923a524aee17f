//! The page on which a person decides about a call, as far as the client that was sent there hears of it.

use drawgate_core::model::InputRequired;
use drawgate_core::policy::ApprovalState;
use serde_json::json;

use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::notice::Notice;

/// The approval that a client was sent to a page for, until the client has heard of the decision.
#[derive(Default)]
pub(crate) struct ApprovalPage(Option<String>);

impl ApprovalPage {
    pub(crate) fn of(mcp: &Mcp, required: &InputRequired) -> Self {
        let asked = required.requests.get("approval");
        let id = asked.and_then(|request| request["params"]["elicitationId"].as_str());
        Self(id.filter(|id| state_of(mcp, id).is_some()).map(str::to_owned))
    }

    /// Whether there is one.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Does the work, and tells the client as soon as a person has decided meanwhile.
    pub(crate) async fn watch<T>(
        &mut self,
        (mcp, peer): (&Mcp, &Peer),
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            () = self.decision(mcp) => {}
            done = &mut work => return done,
        }
        self.tell(mcp, peer);
        work.await
    }

    /// Ends when a person has decided; without a page, never.
    pub(crate) async fn decision(&self, mcp: &Mcp) {
        let Some(id) = &self.0 else { return std::future::pending().await };
        let mut decisions = mcp.inner.gateway.approval_changes();
        while state_of(mcp, id) == Some(ApprovalState::Pending) {
            // The sender lives as long as the gate, so an error can't come.
            drop(decisions.changed().await);
        }
    }

    /// Tells the client of the decision, if there is one, once.
    pub(crate) fn tell(&mut self, mcp: &Mcp, peer: &Peer) {
        let pending = |id: &String| state_of(mcp, id) == Some(ApprovalState::Pending);
        let Some(id) = self.0.take_if(|id| !pending(id)) else { return };
        if let Some(reply) = &peer.reply {
            reply.send(&Notice::ElicitationComplete.with(json!({ "elicitationId": id })));
        }
    }
}

fn state_of(mcp: &Mcp, id: &str) -> Option<ApprovalState> {
    mcp.inner.gateway.approval(id).map(|approval| approval.state)
}
