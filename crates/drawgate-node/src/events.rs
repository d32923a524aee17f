//! Events for listeners in JavaScript: audit events as they are written, changes of the tools, approvals
//! that are asked for.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::pipeline::Gateway;
use drawgate_core::policy::Approval;
use drawgate_core::store::AuditLog;
use drawgate_runtime::operations::Operations;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use crate::mailbox::{Full, Mailbox};

/// How often the log is looked at, while there are listeners.
const LOOK: Duration = Duration::from_millis(20);

/// Audit events that are read at once.
const BATCH: usize = 256;

/// Tells of every audit event after `cursor`. What does not fit is skipped, and listeners are told after
/// which sequence they have to read the log.
pub(crate) async fn follow_audit(audit: Arc<dyn AuditLog>, mailbox: Arc<Mailbox>, mut cursor: u64) {
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        while audit.head() > cursor {
            // A log that can't be read now may be read later.
            let Ok(events) = audit.read(cursor, BATCH).await else { break };
            let Some(last) = events.last().map(|event| event.sequence) else { break };
            let mut fits = true;
            for event in &events {
                fits &= mailbox.event("audit", &event.body, event.sequence - 1).is_ok();
            }
            cursor = if fits { last } else { audit.head().max(last) };
        }
    }
}

/// Tells of every revision of the tools.
pub(crate) async fn follow_tools(
    gateway: Gateway,
    mailbox: Arc<Mailbox>,
    mut revisions: watch::Receiver<u64>,
) {
    let mut known = gateway.audit_head();
    while revisions.changed().await.is_ok() {
        let event = json!({ "revision": *revisions.borrow_and_update() });
        known = tell(&mailbox, "tools", &event.to_string(), known, &gateway);
    }
}

/// Tells of every approval that is asked for.
pub(crate) async fn follow_approvals(
    operations: Arc<Operations>,
    mailbox: Arc<Mailbox>,
    mut requests: broadcast::Receiver<Approval>,
) {
    let gateway = operations.gateway.clone();
    let mut known = gateway.audit_head();
    loop {
        match requests.recv().await {
            Ok(asked) => {
                let listed = operations.approval(&asked.id);
                if let Some(text) = listed.and_then(|it| serde_json::to_string(&it).ok()) {
                    known = tell(&mailbox, "approval", &text, known, &gateway);
                }
            }
            Err(RecvError::Lagged(_)) => mailbox.lost(known),
            Err(RecvError::Closed) => return,
        }
    }
}

/// Tells of an event. Returns up to which sequence of the log listeners have heard of everything.
fn tell(mailbox: &Mailbox, name: &str, json: &str, known: u64, gateway: &Gateway) -> u64 {
    match mailbox.event(name, json, known) {
        Ok(()) => gateway.audit_head(),
        Err(Full) => known,
    }
}
