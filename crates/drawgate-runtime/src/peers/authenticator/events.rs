//! Records logins, refusals and disconnections in the audit log.

use std::net::IpAddr;

use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::{Principal, shown_name};
use drawgate_core::store::StoreError;
use drawgate_sdk::statement::Purpose;

use super::PeerAuthenticator;
use crate::peers::{DisconnectReason, KeyChanges, KeyList, KeyTerms, Peer, Refusal, Refused};

/// Events about one edit of the file.
const MAX_CHANGES: usize = 1000;

impl PeerAuthenticator {
    /// Records a refusal, unless there were too many in the last minute.
    pub async fn record_refusal(&self, refused: &Refused, remote: IpAddr) {
        let reason = refused.refusal.as_str();
        count(refused.refusal);
        let now = self.parts.clock.now_ms();
        if !self.refusals.get(reason).is_some_and(|budget| budget.allows(now)) {
            return;
        }
        let name = refused.name.as_deref().map(shown_name);
        let draft = EventDraft::new(EventKind::PeerRefused, now)
            .text("reason", reason)
            .text("remote", remote.to_string())
            .maybe_text("purpose", refused.purpose.map(Purpose::as_str))
            .maybe_text("name", name.as_deref())
            .maybe_text("fingerprint", refused.fingerprint.as_deref());
        // The peer is refused whether or not that can be written down.
        let _ = self.parts.audit.append(draft).await;
    }

    /// Records a login. A peer whose login can't be recorded must not be logged in.
    pub async fn record_login(
        &self,
        terms: &KeyTerms,
        id: &str,
        remote: IpAddr,
    ) -> Result<(), StoreError> {
        let draft = self.draft(EventKind::PeerConnected, terms);
        let draft = draft.text("connection", id).text("remote", remote.to_string());
        self.parts.audit.append(draft).await.map(drop)
    }

    /// Records that a peer has disconnected.
    pub async fn record_disconnect(&self, peer: &Peer, reason: DisconnectReason) {
        let draft = self
            .draft(EventKind::PeerDisconnected, &peer.terms)
            .text("connection", &peer.session)
            .text("remote", peer.remote.to_string())
            .text("reason", reason.as_str())
            .maybe_text("principal", peer.disconnection.kicked_by().map(Principal::as_str));
        if let Err(error) = self.parts.audit.append(draft).await {
            tracing::warn!(error = %error, name = peer.name, "the end of a connection could not be recorded");
        }
    }

    /// Records edits that were made to the file of keys by hand.
    pub(super) async fn record_changes(&self, changes: &KeyChanges) {
        let added = changes.added.iter().map(|terms| (EventKind::KeyAdded, terms));
        let removed = changes.removed.iter().map(|terms| (EventKind::KeyRemoved, terms));
        for (kind, terms) in removed.chain(added).take(MAX_CHANGES) {
            let draft = EventDraft::new(kind, self.parts.clock.now_ms()).text("by", "file");
            if let Err(error) = self.parts.audit.append(terms.describe(draft)).await {
                tracing::warn!(error = %error, "an edit of the authorised keys could not be written down");
                return;
            }
        }
    }

    fn draft(&self, kind: EventKind, terms: &KeyTerms) -> EventDraft {
        EventDraft::new(kind, self.parts.clock.now_ms())
            .text("purpose", terms.purpose.as_str())
            .text("name", &terms.name)
            .text("fingerprint", &terms.fingerprint)
    }
}

fn count(refusal: Refusal) {
    metrics::counter!("drawgate_refused_peers_total", "reason" => refusal.as_str()).increment(1);
}

/// Logs the problems of a list.
pub(super) fn report(list: &KeyList) {
    if let Some(problem) = list.problem() {
        tracing::error!(error = %problem, "no authorised key counts");
    }
    for (line, fault) in list.faults() {
        tracing::warn!(line, error = %fault, "a line of the authorised keys does not count");
    }
}
