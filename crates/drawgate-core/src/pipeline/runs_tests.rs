//! Calls of agents that the gateway runs itself: what their principal, the runs above them and their
//! own choice of tools leave them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::tests::code;
use super::*;
use crate::audit::EventKind;
use crate::model::{
    Bounds, Caller, Capability, Disclosure, ToolInvocation, ToolOutput, ToolPatterns,
};
use crate::registry::{Audience, Origin, SourceTerms};
use crate::testing::{FakeSource, TestGate, caller, run_of, tool};

fn ceiling(list: &[&str]) -> Bounds {
    let ceiling = list.iter().map(|text| Capability::new(text).unwrap()).collect();
    Bounds { ceiling: Some(ceiling), ..Bounds::default() }
}

fn only(list: &[&str]) -> Bounds {
    Bounds { tools: ToolPatterns::only(list.iter().copied()).unwrap(), ..Bounds::default() }
}

/// A gate with `s:read`, `s:write` and `s:open`, which require `file.read`, `file.write` and nothing.
async fn gate() -> TestGate {
    let gate = TestGate::new().await;
    let tools = vec![
        tool("read", &json!({ "requiredScopes": ["file.read"] })),
        tool("write", &json!({ "requiredScopes": ["file.write"] })),
        tool("open", &Value::Null),
    ];
    gate.register(FakeSource::new("s", tools, |_, _| Ok(ToolOutput::text("ok")))).await.unwrap();
    gate
}

/// The tools that a caller can call, once it is sure that every list shows the same.
async fn usable(gate: &TestGate, caller: &Caller) -> Vec<String> {
    let listed: Vec<String> =
        gate.gateway.tools(caller).iter().map(|entry| entry.id.to_string()).collect();
    let (view, snapshot) = (gate.gateway.view(caller), gate.gateway.registry());
    assert_eq!(gate.gateway.listings(&view, &snapshot).len(), listed.len());
    assert_eq!(gate.gateway.search(&view, &snapshot, "tool", 50).len(), listed.len());
    for entry in snapshot.entries() {
        let result = gate.call_as(caller, entry.id.as_str(), json!({})).await;
        let is_listed = listed.contains(&entry.id.to_string());
        assert_eq!(result.success, is_listed, "{}: {:?}", entry.id, result.error);
        assert_eq!(gate.gateway.is_open(caller, entry), is_listed, "{}", entry.id);
        if let Some(error) = result.error {
            let is_unknown = error.code == ErrorCode::ResourceNotFound;
            let is_hidden = error.disclosure == Disclosure::ToolIsHidden;
            assert!(is_unknown || is_hidden, "{}: {error}", entry.id);
        }
    }
    listed
}

#[tokio::test]
async fn a_run_can_do_what_grants_ceilings_and_its_own_choice_leave() {
    let all = ["s:open", "s:read", "s:write"];
    // What `ann` holds, the bounds of the runs from the root down, and what the last one can call.
    let cases: [(&[&str], Vec<Bounds>, &[&str]); 11] = [
        (&["*"], vec![], &all),
        (&["*"], vec![Bounds::default()], &all),
        (&["*"], vec![ceiling(&["file.read"])], &["s:open", "s:read"]),
        (&["file.*"], vec![ceiling(&["*"])], &all),
        // A ceiling gives nothing.
        (&[], vec![ceiling(&["*"])], &["s:open"]),
        (&["file.read"], vec![ceiling(&["file.*"])], &["s:open", "s:read"]),
        // A wider profile below a narrow one gains nothing.
        (&["*"], vec![ceiling(&["file.read"]), ceiling(&["*"])], &["s:open", "s:read"]),
        (
            &["*"],
            vec![ceiling(&["file.read"]), Bounds::default(), ceiling(&["file.write"])],
            &["s:open"],
        ),
        // A choice of tools binds one run: a coordinator without tools has a capable worker.
        (&["*"], vec![only(&["open"]), Bounds::default()], &all),
        (&["*"], vec![Bounds::default(), only(&["s__w*", "nothing"])], &["s:write"]),
        (&["file.read"], vec![only(&["read", "write"])], &["s:read"]),
    ];
    for (held, bounds, expected) in cases {
        let gate = gate().await;
        for capability in held {
            gate.grant("ann", capability, None).await;
        }
        let shown = format!("{held:?} {bounds:?}");
        let run = bounds.into_iter().fold(caller("ann"), |above, own| run_of(&above, "p", own));
        assert_eq!(usable(&gate, &run).await, expected, "{shown}");
    }
}

#[tokio::test]
async fn a_tool_outside_of_a_runs_choice_is_unknown_to_it() {
    let gate = gate().await;
    gate.grant("ann", "*", None).await;
    let run = run_of(&caller("ann"), "p", only(&["read"]));
    for name in ["s:write", "s__write", "write", "s:nothing"] {
        let error = gate.call_as(&run, name, json!({})).await.error.unwrap();
        assert_eq!(error.code, ErrorCode::ResourceNotFound, "{name}");
        assert_eq!(error.message, format!("unknown tool `{name}`"));
    }
}

#[tokio::test]
async fn a_tool_is_known_to_its_audience_alone() {
    let gate = gate().await;
    for (id, audience) in [("r", Audience::Runs), ("p", Audience::Profile("p".into()))] {
        let tools = vec![tool("own", &Value::Null)];
        let source = FakeSource::new(id, tools, |_, _| Ok(ToolOutput::text("ok")));
        let (manifest, terms) =
            (source.describe(), SourceTerms { audience, ..SourceTerms::default() });
        gate.declare(source, manifest, terms, Origin::Declared).unwrap();
    }
    gate.grant("ann", "file.read", None).await;
    let (outside, bounds) = (caller("ann"), Bounds::default);
    let cases: [(Caller, &[&str]); 5] = [
        (outside.clone(), &["s:open", "s:read"]),
        (run_of(&outside, "q", bounds()), &["r:own", "s:open", "s:read"]),
        (run_of(&outside, "p", bounds()), &["p:own", "r:own", "s:open", "s:read"]),
        (run_of(&outside, "p", only(&["p:own"])), &["p:own"]),
        // Below a run of the profile is not in it.
        (run_of(&run_of(&outside, "p", bounds()), "q", bounds()), &["r:own", "s:open", "s:read"]),
    ];
    for (caller, expected) in cases {
        assert_eq!(usable(&gate, &caller).await, expected, "{:?}", caller.lineage);
    }
    let error = gate.call("ann", "r:own", json!({})).await.error.unwrap();
    assert_eq!(error.code, ErrorCode::ResourceNotFound);
}

#[test]
fn views_are_equal_where_they_show_the_same() {
    let view = |run: &Caller| View::new(BTreeSet::new(), run.lineage.clone());
    let (ann, bounds) = (caller("ann"), Bounds::default);
    let one = run_of(&ann, "p", bounds());
    assert_eq!(view(&one), view(&run_of(&one, "p", bounds())), "whoever started it");
    for other in [ann.clone(), run_of(&ann, "q", bounds()), run_of(&ann, "p", only(&["read"]))] {
        assert_ne!(view(&one), view(&other), "{:?}", other.lineage);
    }
}

#[tokio::test]
async fn events_of_a_call_name_the_run_that_made_it() {
    let gate = gate().await;
    gate.policy(json!({ "version": "1.0", "defaults": { "fallback": "allow" }, "rules": [
        { "id": "r", "action": "*", "when": { "agent": "reader" }, "decision": "deny" }] }));
    let root = run_of(&caller("ann"), "root", Bounds::default());
    let child = run_of(&root, "child", Bounds::default());
    let reader = run_of(&root, "reader", Bounds::default());
    let cases = [
        (caller("ann"), true, json!([null, null, null, "forged"])),
        (root, true, json!(["root", 0, "run-root", "run-root"])),
        (child, true, json!(["child", 1, "run-root", "run-child"])),
        (reader, false, json!(["reader", 1, "run-root", "run-reader"])),
    ];
    for (caller, success, expected) in cases {
        let call = ToolInvocation {
            tool_id: "s:open".to_owned(),
            run_id: Some("forged".to_owned()),
            ..ToolInvocation::default()
        };
        let result = gate.gateway.call(&caller, call, CallOptions::default()).await;
        assert_eq!(result.success, success, "{expected}: {:?}", result.error);
        let events = gate.events().await;
        let last = events.iter().rev().take(2).collect::<Vec<_>>();
        let kinds: Vec<EventKind> = last.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::Outcome, EventKind::Decision]);
        for event in last {
            let found = ["agent", "depth", "rootRunId", "runId"].map(|key| event.rest.get(key));
            assert_eq!(json!(found), expected, "{}", event.kind);
        }
    }
}

#[tokio::test]
async fn revoking_the_roots_grant_stops_the_next_call_of_every_run_below() {
    let gate = gate().await;
    let id = gate.grant("ann", "file.*", None).await;
    let root = run_of(&caller("ann"), "root", Bounds::default());
    let child = run_of(&root, "child", ceiling(&["*"]));
    let grandchild = run_of(&child, "grandchild", ceiling(&["file.read"]));
    for run in [&root, &child, &grandchild] {
        assert!(gate.call_as(run, "s:read", json!({})).await.success);
    }
    gate.control.parts().grants.revoke(&[id.as_str().into()]).await;
    for run in [&root, &child, &grandchild] {
        let result = gate.call_as(run, "s:read", json!({})).await;
        assert_eq!(code(&result), Some(ErrorCode::PermissionDenied), "{:?}", run.lineage);
    }
}
