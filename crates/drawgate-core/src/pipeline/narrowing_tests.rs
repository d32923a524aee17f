//! What a caller says about its own call: redaction wherever it is kept, bounds, and runs.

use serde_json::{Map, Value, json};

use super::tests::{Probe, change, code, gate_under, invocation, message, of_kind, with};
use super::*;
use crate::audit::EventKind;
use crate::model::{Bounds, Disclosure, Narrowing, ToolInvocation, ToolOutput, ToolResult};
use crate::registry::SourceTerms;
use crate::store::Artifacts;
use crate::testing::{TestGate, caller, run_of, tool};

const PIN: &str = "4711-0815";

fn redacting(arguments: Value) -> ToolInvocation {
    ToolInvocation { redact_keys: vec!["Locker_Row".to_owned()], ..invocation(arguments) }
}

async fn call(gate: &TestGate, call: ToolInvocation) -> ToolResult {
    gate.gateway.call(&caller("ann"), call, CallOptions::default()).await
}

/// The artifact of a result.
async fn kept(gate: &TestGate, result: &ToolResult) -> String {
    let artifact = &result.artifacts[0];
    let stored = gate.store.get(&artifact.sha256, &caller("ann").principal).await.unwrap();
    String::from_utf8(stored.unwrap().1).unwrap()
}

#[tokio::test(start_paused = true)]
async fn redacted_keys_are_redacted_wherever_the_call_is_kept() {
    let text = ToolOutput::text(format!("{}\nlockerRow: {PIN}\n", "x".repeat(200)));
    let nested = json!({ "list": [{ "locker-row": PIN }], "pad": "x".repeat(200) });
    let structured = ToolOutput { structured: Some(nested.clone()), ..ToolOutput::text("there") };
    let packed = ToolOutput::text(nested.to_string());
    for (name, output) in [("text", text), ("structured", structured), ("packed", packed)] {
        let spec = tool("t", &json!({ "requiresConfirmation": true }));
        let source = Probe::new("s", vec![spec], move |_, _| {
            let output = output.clone();
            Box::pin(async move { Ok(output) })
        });
        let mut terms = SourceTerms::default();
        terms.limits.max_output_bytes = 100;
        let gate = gate_under(&source, terms).await;
        let arguments = json!({ "lockerRow": PIN, "note": format!("locker_row={PIN}"), "a": 1 });
        assert!(call(&gate, redacting(arguments.clone())).await.error.is_some(), "{name}: asked");
        let asked = gate.control.parts().approvals.list().remove(0);
        assert!(!format!("{asked:?}").contains(PIN), "{name}: {asked:?}");
        assert_eq!(asked.arguments["a"], 1, "{name}");
        gate.decide(&asked.id, crate::policy::ApprovalState::Approved).await;
        let result = call(&gate, redacting(arguments)).await;
        assert!(result.success, "{name}: {result:?}");
        let stored = kept(&gate, &result).await;
        assert!(!stored.contains(PIN) && stored.contains("xxx"), "{name}: {stored}");
        let events = gate.events().await;
        assert!(!format!("{events:?}").contains(PIN), "{name}: {events:?}");
        let decision = of_kind(&gate, EventKind::Decision).await.pop().unwrap();
        assert_eq!(decision.rest["redactKeys"], json!(["Locker_Row"]), "{name}");
        change(&gate, |settings| settings.approvals.ask = false);
        let plain = call(&gate, invocation(json!({}))).await;
        assert!(kept(&gate, &plain).await.contains(PIN), "{name}: it is the key that hides it");
    }
}

#[tokio::test]
async fn errors_are_redacted_by_the_same_keys() {
    let source = with(|| {
        let details = Some(json!({ "lockerRow": PIN }));
        Err(crate::source::SourceError::Failed { message: format!("lockerRow={PIN}"), details })
    });
    let gate = gate_under(&source, SourceTerms::default()).await;
    let result = call(&gate, redacting(json!({}))).await;
    assert!(!format!("{result:?}").contains(PIN), "{result:?}");
    assert_eq!(code(&result), Some(ErrorCode::ExecutionFailed));
}

#[tokio::test]
async fn what_is_out_of_bounds_is_refused_and_has_its_outcome() {
    let source = with(|| Ok(ToolOutput::text("ok")));
    let gate = gate_under(&source, SourceTerms::default()).await;
    let cases = [
        ("redactKeys", Narrowing { redact_keys: vec!["k".to_owned(); 33], ..Default::default() }),
        ("runId", Narrowing { run_id: Some("r".repeat(1000)), ..Default::default() }),
        ("grantIds", Narrowing { grant_ids: Some(vec!["".into()]), ..Default::default() }),
    ];
    let cases = cases.map(|(member, by)| (member, by.of(invocation(json!({ "door": PIN })))));
    let named = ToolInvocation { request_id: "r".repeat(2000), ..invocation(json!({})) };
    for (number, (member, bad)) in cases.into_iter().chain([("requestId", named)]).enumerate() {
        let result = call(&gate, bad).await;
        assert_eq!(code(&result), Some(ErrorCode::InvalidArguments), "{member}");
        assert!(message(&result).contains(&format!("`{member}`")), "{}", message(&result));
        let events = gate.events().await;
        assert_eq!(events.len(), number + 1, "one outcome each");
        assert!(!format!("{events:?}").contains(PIN), "what was to be hidden is not known");
    }
    assert_eq!(source.starts(), 0);
}

#[tokio::test]
async fn a_call_that_is_narrowed_too_far_is_denied_and_not_unknown() {
    let spec = tool("t", &json!({ "requiredScopes": ["use"] }));
    let source = Probe::new("s", vec![spec], |_, _| Box::pin(async { Ok(ToolOutput::text("ok")) }));
    let gate = gate_under(&source, SourceTerms::default()).await;
    gate.grant("ann", "*", None).await;
    let cases = [
        ("ann", Some(Vec::new())),
        ("ann", Some(vec!["g_other".into()])),
        ("eve", Some(Vec::new())),
        ("eve", None),
    ];
    for name in ["s:t", "s__t", "t"] {
        for (who, grant_ids) in cases.clone() {
            let shown = format!("{who} {name} {grant_ids:?}");
            let tool_id = name.to_owned();
            let call = ToolInvocation { tool_id, grant_ids, ..invocation(json!({})) };
            let result = gate.gateway.call(&caller(who), call, CallOptions::default()).await;
            let error = result.error.unwrap();
            let is_hidden = error.disclosure == Disclosure::ToolIsHidden
                || error.code == ErrorCode::ResourceNotFound;
            assert_eq!(is_hidden, who == "eve", "{shown}: {error:?}");
            if who == "ann" {
                assert_eq!(error.code, ErrorCode::PermissionDenied, "{shown}");
            }
        }
    }
}

#[tokio::test]
async fn what_a_caller_hides_is_described_and_may_be_forbidden() {
    let source = with(|| Ok(ToolOutput::text("ok")));
    let gate = gate_under(&source, SourceTerms::default()).await;
    let mut digests = Vec::new();
    for path in ["/etc/shadow", "/etc/passwd"] {
        // More parts than are described one by one, so that the last is among the rest.
        let mut arguments: Map<String, Value> =
            (0..40).map(|number| (format!("a{number}"), json!({ "lockerRow": "x" }))).collect();
        arguments.insert("z".to_owned(), json!({ "lockerRow": path }));
        call(&gate, redacting(Value::Object(arguments))).await;
        let decision = of_kind(&gate, EventKind::Decision).await.pop().unwrap();
        let masked: Vec<String> = serde_json::from_value(decision.rest["masked"].clone()).unwrap();
        assert!(masked[0].starts_with("/a0/lockerRow: 1 characters, digest "), "{masked:?}");
        assert!(masked[32].starts_with("9 more: 19 characters, digest "), "{masked:?}");
        digests.push(masked[32].clone());
    }
    assert_ne!(digests[0], digests[1]);
    change(&gate, |settings| settings.caller_redaction = false);
    let refused = call(&gate, redacting(json!({ "lockerRow": PIN }))).await;
    assert_eq!(code(&refused), Some(ErrorCode::InvalidArguments));
    assert!(message(&refused).contains("`redactKeys` is not allowed"), "{}", message(&refused));
    assert_eq!(source.starts(), 2);
}

#[tokio::test]
async fn the_run_of_a_run_is_known_and_of_others_is_what_they_say() {
    let gate = gate_under(&with(|| Ok(ToolOutput::text("ok"))), SourceTerms::default()).await;
    let own = run_of(&caller("ann"), "worker", Bounds::default());
    for (who, run) in [(caller("ann"), "theirs"), (own, "run-worker")] {
        let narrowing = Narrowing { run_id: Some("theirs".to_owned()), ..Default::default() };
        let asked = narrowing.of(invocation(json!({})));
        gate.gateway.call(&who, asked, CallOptions::default()).await;
        let outcome = of_kind(&gate, EventKind::Outcome).await.pop().unwrap();
        assert_eq!(outcome.rest["runId"], run);
    }
}
