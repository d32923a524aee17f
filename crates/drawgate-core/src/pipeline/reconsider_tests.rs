//! Rules that change while a call waits are asked before it starts, wherever it waits.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::tests::{Gated, Probe, code, gate_under, invocation, of_kind, on_log};
use super::*;
use crate::audit::EventKind;
use crate::model::{ToolOutput, ToolResult, Verdict};
use crate::policy::ApprovalState;
use crate::registry::SourceTerms;
use crate::testing::{TestGate, caller, tool};

/// Where a call waits between the decision and the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// For a person's yes.
    Hold,
    /// For the decision to be written.
    Commit,
    /// For a slot of its source.
    Slot,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Runs,
    AsksAndRuns,
    IsRefused,
}

struct Fixture {
    gate: TestGate,
    source: Arc<Probe>,
    /// Lets the call go on that occupies the only slot.
    free: Arc<Notify>,
}

async fn fixture(wait: Wait) -> Fixture {
    let free = Arc::new(Notify::new());
    let annotations = json!({ "requiresConfirmation": wait == Wait::Hold });
    let source = {
        let free = Arc::clone(&free);
        Probe::new("s", vec![tool("t", &annotations)], move |arguments, _| {
            let (free, stays) = (Arc::clone(&free), arguments.contains_key("stays"));
            Box::pin(async move {
                if stays {
                    free.notified().await;
                }
                Ok(ToolOutput::text("ok"))
            })
        })
    };
    let terms = SourceTerms { concurrency: 1, ..SourceTerms::default() };
    let gate = gate_under(&source, terms).await;
    gate.policy(policy("allow"));
    Fixture { gate, source, free }
}

fn policy(fallback: &str) -> Value {
    json!({ "version": "1.0", "defaults": { "fallback": fallback } })
}

type Call = tokio::task::JoinHandle<ToolResult>;

fn spawn(gateway: &Gateway, arguments: Value) -> Call {
    let gateway = gateway.clone();
    tokio::spawn(async move {
        gateway.call(&caller("ann"), invocation(arguments), CallOptions::default()).await
    })
}

async fn check(wait: Wait, change: &str, then: Then) {
    let Fixture { gate, source, free } = fixture(wait).await;
    let approvals = gate.control.parts().approvals.clone();
    let mut asked = approvals.subscribe();
    let log = Gated::new(&gate.store, EventKind::Decision, false);
    let approve = async |asked: &mut tokio::sync::broadcast::Receiver<_>| {
        let question: crate::policy::Approval = asked.recv().await.unwrap();
        gate.decide(&question.id, ApprovalState::Approved).await;
    };
    let (call, before) = match wait {
        Wait::Hold => {
            let call = spawn(&gate.gateway, json!({}));
            let question = asked.recv().await.unwrap();
            gate.policy(policy(change));
            gate.decide(&question.id, ApprovalState::Approved).await;
            (call, 0)
        }
        Wait::Commit => {
            let call = spawn(&on_log(&gate, log.log.clone()), json!({}));
            log.reached().await;
            gate.policy(policy(change));
            log.go();
            (call, 0)
        }
        Wait::Slot => {
            let first = spawn(&gate.gateway, json!({ "stays": true }));
            let call = spawn(&gate.gateway, json!({}));
            while source.starts() < 1 || of_kind(&gate, EventKind::Decision).await.len() < 2 {
                tokio::task::yield_now().await;
            }
            gate.policy(policy(change));
            free.notify_one();
            assert!(first.await.unwrap().success, "what has begun goes on");
            (call, 1)
        }
    };
    if then == Then::AsksAndRuns {
        approve(&mut asked).await;
    }
    if wait == Wait::Commit {
        log.reached().await;
        log.go();
    }
    let result = call.await.unwrap();
    let name = format!("{wait:?} {change}: {:?}", result.error);
    let refused = then == Then::IsRefused;
    assert_eq!(code(&result), refused.then_some(ErrorCode::PermissionDenied), "{name}");
    assert_eq!(source.starts() - before, usize::from(!refused), "{name}");
    let decision = of_kind(&gate, EventKind::Decision).await.pop().unwrap().decision.unwrap();
    assert_eq!(decision.decision == Verdict::Deny, refused, "{name}: the log says which rule");
    assert!(asked.try_recv().is_err(), "{name}: nobody is asked twice");
    assert_eq!(of_kind(&gate, EventKind::Outcome).await.len(), before + 1, "{name}");
}

#[tokio::test(start_paused = true)]
async fn rules_are_asked_again_where_a_call_has_waited() {
    for (wait, change, then) in [
        (Wait::Hold, "deny", Then::IsRefused),
        (Wait::Commit, "deny", Then::IsRefused),
        (Wait::Slot, "deny", Then::IsRefused),
        // The person has seen this very call.
        (Wait::Hold, "allow_with_confirm", Then::Runs),
        (Wait::Commit, "allow_with_confirm", Then::AsksAndRuns),
        (Wait::Slot, "allow_with_confirm", Then::AsksAndRuns),
        (Wait::Hold, "allow", Then::Runs),
        (Wait::Commit, "allow", Then::Runs),
        (Wait::Slot, "allow", Then::Runs),
    ] {
        check(wait, change, then).await;
    }
}
