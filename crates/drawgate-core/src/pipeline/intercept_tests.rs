use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::super::tests::code;
use crate::audit::{EventKind, ToolAuditEvent};
use crate::hooks::{
    BoundHook, CallHook, HookCall, HookError, HookMode, HookPoint, HookTerms, Hooks, OnFailure,
    Opinion, PatchOperation, Review,
};
use crate::model::{
    Bounds, Caller, ErrorCode, Lineage, McpToolSpec, ToolInvocation, ToolOutput, ToolPatterns,
    ToolResult,
};
use crate::pipeline::CallOptions;
use crate::policy::ApprovalState;
use crate::source::SourceError;
use crate::testing::{FakeSource, TestGate, caller, run_of};

type Rewrite = dyn Fn(&Map<String, Value>) -> Result<Vec<PatchOperation>, HookError> + Send + Sync;
type Check = dyn Fn(&Map<String, Value>) -> Result<Opinion, HookError> + Send + Sync;
type After = dyn Fn(&Value) -> Result<Review, HookError> + Send + Sync;

/// A hook made of closures, which remembers what it was shown.
struct FakeHook {
    rewrite: Box<Rewrite>,
    check: Box<Check>,
    after: Box<After>,
    seen: Mutex<Vec<String>>,
    hangs: bool,
}

impl Default for FakeHook {
    fn default() -> Self {
        Self {
            rewrite: Box::new(|_| Ok(Vec::new())),
            check: Box::new(|_| Ok(Opinion::Pass)),
            after: Box::new(|_| Ok(Review::Pass)),
            seen: Mutex::default(),
            hangs: false,
        }
    }
}

impl FakeHook {
    async fn note(&self, shown: &impl serde::Serialize) {
        self.seen.lock().push(serde_json::to_string(shown).unwrap());
        if self.hangs {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl CallHook for FakeHook {
    async fn rewrite(&self, call: &HookCall<'_>) -> Result<Vec<PatchOperation>, HookError> {
        self.note(call.arguments).await;
        (self.rewrite)(call.arguments)
    }

    async fn check(&self, call: &HookCall<'_>) -> Result<Opinion, HookError> {
        self.note(call.arguments).await;
        (self.check)(call.arguments)
    }

    async fn after(&self, _call: &HookCall<'_>, result: &Value) -> Result<Review, HookError> {
        self.note(result).await;
        (self.after)(result)
    }
}

fn patch(value: Value) -> Vec<PatchOperation> {
    serde_json::from_value(value).unwrap()
}

fn at(point: HookPoint) -> Vec<(HookPoint, HookTerms)> {
    vec![(point, HookTerms::default())]
}

fn bound(name: &str, points: Vec<(HookPoint, HookTerms)>, hook: FakeHook) -> BoundHook {
    BoundHook { name: name.into(), position: 0, points, hook: Arc::new(hook) }
}

fn rewriting(name: &str, change: Value) -> BoundHook {
    let rewrite = Box::new(move |_: &_| Ok(patch(change.clone())));
    bound(name, at(HookPoint::Rewrite), FakeHook { rewrite, ..FakeHook::default() })
}

fn checking(name: &str, opinion: Opinion) -> BoundHook {
    let check = Box::new(move |_: &_| Ok(opinion.clone()));
    bound(name, at(HookPoint::Check), FakeHook { check, ..FakeHook::default() })
}

fn reviewing(name: &str, review: Review) -> BoundHook {
    let after = Box::new(move |_: &_| Ok(review.clone()));
    bound(name, at(HookPoint::After), FakeHook { after, ..FakeHook::default() })
}

/// A hook that fails at a point, under these terms.
fn failing(point: HookPoint, terms: HookTerms) -> BoundHook {
    let failed = || HookError("the reason".to_owned());
    let hook = FakeHook {
        rewrite: Box::new(move |_| Err(failed())),
        check: Box::new(move |_| Err(failed())),
        after: Box::new(move |_| Err(failed())),
        ..FakeHook::default()
    };
    bound("broken", vec![(point, terms)], hook)
}

/// A gate with `s:echo`, which answers with its arguments, and `s:fail`, which fails with them.
async fn gate(hooks: Vec<BoundHook>) -> (TestGate, Arc<FakeSource>) {
    let gate = TestGate::new().await;
    let tool = |name: &str| -> McpToolSpec {
        let path = json!({ "type": "string", "maxLength": 20 });
        let schema = json!({ "type": "object", "properties": { "path": path } });
        let spec = json!({ "name": name, "description": "a tool", "inputSchema": schema });
        serde_json::from_value(spec).unwrap()
    };
    let source = FakeSource::new("s", vec![tool("echo"), tool("fail")], |name, arguments| {
        let text = Value::Object(arguments).to_string();
        match name {
            "echo" => Ok(ToolOutput::text(text)),
            _ => Err(SourceError::Failed { message: text, details: None }),
        }
    });
    gate.register(source.clone()).await.unwrap();
    gate.control.parts().hooks.store(Arc::new(Hooks::new(hooks)));
    (gate, source)
}

async fn events(gate: &TestGate, kind: EventKind) -> Vec<ToolAuditEvent> {
    gate.events().await.into_iter().filter(|event| event.kind == kind).collect()
}

fn text(result: &ToolResult) -> String {
    result.content.first().and_then(|block| block["text"].as_str()).unwrap_or_default().to_owned()
}

fn field(event: &ToolAuditEvent, key: &str) -> Value {
    serde_json::to_value(event).unwrap()[key].take()
}

#[tokio::test]
async fn what_is_rewritten_is_what_schema_rules_tool_and_log_see() {
    let change = json!([{ "op": "replace", "path": "/path", "value": "/safe/a" }]);
    let (gate, _) = gate(vec![rewriting("mover", change)]).await;
    gate.policy(json!({ "version": "1.0", "defaults": { "fallback": "allow" }, "rules": [
        { "id": "safe", "action": "*", "when": { "path": ["/etc/**"] }, "decision": "deny" },
    ]}));
    let hooks = gate.control.parts().hooks.swap(Arc::default());
    let denied = gate.call("ann", "s:echo", json!({ "path": "/etc/passwd" })).await;
    assert_eq!(code(&denied), Some(ErrorCode::PermissionDenied), "the rule means this path");
    gate.control.parts().hooks.store(hooks);
    let result = gate.call("ann", "s:echo", json!({ "path": "/etc/passwd" })).await;
    assert_eq!(text(&result), r#"{"path":"/safe/a"}"#, "{:?}", result.error);
    let changed = events(&gate, EventKind::HookChanged).await;
    let [changed] = changed.as_slice() else { panic!("{changed:?}") };
    assert_eq!(field(changed, "hook"), "mover");
    assert_eq!(field(changed, "changed"), json!(["/path"]));
    let hash = |value: Value| crate::canonical::hash(&value);
    assert_eq!(field(changed, "hashBefore"), json!(hash(json!({ "path": "/etc/passwd" }))));
    assert_eq!(field(changed, "hashAfter"), json!(hash(json!({ "path": "/safe/a" }))));
    for kind in [EventKind::Decision, EventKind::Outcome] {
        let event = &events(&gate, kind).await[1];
        assert_eq!(field(event, "inputHash"), field(changed, "hashAfter"), "{kind}");
    }
}

#[tokio::test]
async fn rewritten_arguments_are_validated_and_bound_to_the_approval() {
    let long = json!([{ "op": "replace", "path": "/path", "value": "x".repeat(21) }]);
    let (too_long, source) = gate(vec![rewriting("mover", long)]).await;
    let result = too_long.call("ann", "s:echo", json!({ "path": "a" })).await;
    assert_eq!((code(&result), source.calls()), (Some(ErrorCode::InvalidArguments), 0));

    let change = json!([{ "op": "replace", "path": "/path", "value": "b" }]);
    let hooks =
        vec![rewriting("mover", change), checking("asker", Opinion::Confirm("risky".into()))];
    let (gate, _) = gate(hooks).await;
    gate.hold(Duration::ZERO);
    let refused = gate.call("ann", "s:echo", json!({ "path": "a" })).await;
    assert_eq!(code(&refused), Some(ErrorCode::PermissionEscalationRequired));
    let approval = gate.gateway.approvals().pop().unwrap();
    assert_eq!(approval.arguments, json!({ "path": "b" }), "people approve what runs");
    assert_eq!(approval.reason, "`asker` demands confirmation: risky");
    gate.decide(&approval.id, ApprovalState::Approved).await;
    let result =
        gate.call("ann", "s:echo", json!({ "path": "other, and rewritten to the same" })).await;
    assert_eq!(text(&result), r#"{"path":"b"}"#);
}

#[tokio::test]
async fn a_patch_that_a_hook_must_not_make_is_a_failure() {
    let secret = json!({ "path": "a", "password": "hunter2hunter2" });
    let many: Vec<Value> =
        (0..300).map(|_| json!({ "op": "add", "path": "/path", "value": "x" })).collect();
    for (change, expected) in [
        (json!([{ "op": "replace", "path": "", "value": {} }]), "replaces the whole"),
        (json!([{ "op": "copy", "from": "/password", "path": "/path" }]), "other than `add`"),
        (json!([{ "op": "move", "from": "/password", "path": "/path" }]), "other than `add`"),
        (json!([{ "op": "test", "path": "/path", "value": "a" }]), "other than `add`"),
        (json!([{ "op": "replace", "path": "/none", "value": 1 }]), "can't be applied"),
        (json!([{ "op": "remove", "path": "/none" }]), "can't be applied"),
        (Value::Array(many), "more than 256 operations"),
    ] {
        let (gate, source) = gate(vec![rewriting("bad", change.clone())]).await;
        let result = gate.call("ann", "s:echo", secret.clone()).await;
        assert_eq!(code(&result), Some(ErrorCode::Unavailable), "{change}");
        assert_eq!(source.calls(), 0, "{change}");
        let failed = &events(&gate, EventKind::HookFailed).await[0];
        let reason = field(failed, "reason").to_string();
        assert!(reason.contains(expected), "{change}: {reason}");
        assert_eq!(events(&gate, EventKind::Outcome).await.len(), 1);
    }
}

#[tokio::test]
async fn a_guard_sees_the_call_that_runs_and_the_log_does_not() {
    for (arguments, hidden) in [
        (json!({ "password": "hunter2hunter2" }), "hunter2hunter2"),
        (json!({ "path": "/etc/shadow-copy" }), "/etc/shadow-copy"),
        (json!({ "file": "token=/etc/shadow-2" }), "/etc/shadow-2"),
    ] {
        let hook = Arc::new(FakeHook::default());
        let points = HookPoint::ALL.map(|point| (point, HookTerms::default())).to_vec();
        let watching = BoundHook { name: "h".into(), position: 0, points, hook: hook.clone() };
        let (gate, _) = gate(vec![watching]).await;
        let call = || ToolInvocation {
            tool_id: "s:echo".to_owned(),
            arguments: arguments.as_object().cloned().unwrap(),
            redact_keys: vec!["path".to_owned()],
            ..ToolInvocation::default()
        };
        let result = gate.gateway.call(&caller("ann"), call(), CallOptions::default()).await;
        assert!(text(&result).contains(hidden), "the tool got it: {result:?}");
        let seen = hook.seen.lock().clone();
        assert_eq!(seen.len(), 3, "{seen:?}");
        assert!(seen.iter().all(|seen| seen.contains(hidden)), "{seen:?}");

        let quoting = Opinion::Refuse(format!("`{hidden}` must not be read"));
        gate.control.parts().hooks.store(Arc::new(Hooks::new(vec![checking("no", quoting)])));
        let result = gate.gateway.call(&caller("ann"), call(), CallOptions::default()).await;
        assert_eq!(code(&result), Some(ErrorCode::PermissionDenied));
        let kept = format!("{:?}", gate.events().await);
        assert!(!kept.contains(hidden) && kept.contains("must not be read"), "{kept}");
    }
}

#[tokio::test]
async fn opinions_only_make_a_decision_stricter() {
    let refuse = || checking("no", Opinion::Refuse("not that file".into()));
    let confirm = || checking("ask", Opinion::Confirm("risky".into()));
    let pass = || checking("yes", Opinion::Pass);
    for (hooks, policy, expected, rule) in [
        (vec![pass()], "allow", None, None),
        (vec![pass()], "deny", Some(ErrorCode::PermissionDenied), None),
        (vec![pass(), refuse()], "allow", Some(ErrorCode::PermissionDenied), Some("hook:no")),
        (vec![confirm(), refuse()], "allow", Some(ErrorCode::PermissionDenied), Some("hook:no")),
        (vec![confirm()], "allow", Some(ErrorCode::PermissionEscalationRequired), None),
        (vec![pass()], "allow_with_confirm", Some(ErrorCode::PermissionEscalationRequired), None),
    ] {
        let (gate, source) = gate(hooks).await;
        gate.hold(Duration::ZERO);
        gate.policy(json!({ "version": "1.0", "defaults": { "fallback": policy } }));
        let result = gate.call("ann", "s:echo", json!({})).await;
        assert_eq!(code(&result), expected, "{policy}: {:?}", result.error);
        assert_eq!(source.calls(), usize::from(expected.is_none()));
        if let (Some(rule), Some(event)) = (rule, events(&gate, EventKind::Decision).await.first())
        {
            assert_eq!(field(event, "decision")["ruleId"], json!(rule));
            assert_eq!(field(event, "decision")["reason"], json!("`no` refuses it: not that file"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_or_hangs_stops_the_call_unless_it_may_be_skipped() {
    let skip = || HookTerms { on_failure: OnFailure::Skip, ..HookTerms::default() };
    let audit = || HookTerms { mode: HookMode::Audit, ..HookTerms::default() };
    for point in [HookPoint::Rewrite, HookPoint::Check, HookPoint::After] {
        for (terms, stops) in [(HookTerms::default(), true), (skip(), false), (audit(), false)] {
            let hanging = FakeHook { hangs: true, ..FakeHook::default() };
            let hanging = bound("broken", vec![(point, terms.clone())], hanging);
            for (hook, reason) in [
                (failing(point, terms), "the reason"),
                (hanging, "it did not answer within 1000 ms"),
            ] {
                let (gate, source) = gate(vec![hook]).await;
                let result = gate.call("ann", "s:echo", json!({ "path": "a" })).await;
                assert_eq!(code(&result), stops.then_some(ErrorCode::Unavailable));
                let ran = !stops || point == HookPoint::After;
                assert_eq!(source.calls(), usize::from(ran), "{point:?}");
                let failed = &events(&gate, EventKind::HookFailed).await[0];
                assert_eq!(field(failed, "reason"), json!(reason));
                assert_eq!(field(failed, "stops"), json!(stops));
                if let Some(error) = &result.error {
                    assert!(error.message.contains("`broken` failed"), "{error}");
                    assert!(!error.message.contains("the reason"), "{error}");
                    assert_eq!(error.message.contains("the tool ran"), ran, "{error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn results_and_failures_are_changed_or_withheld() {
    let change = || {
        Review::Change(patch(json!([{ "op": "replace", "path": "/content/0/text", "value": "x" }])))
    };
    let (changed, _) = gate(vec![reviewing("r", change())]).await;
    let result = changed.call("ann", "s:echo", json!({ "path": "a" })).await;
    assert_eq!(text(&result), "x");
    let event = &events(&changed, EventKind::HookChanged).await[0];
    assert_eq!(field(event, "changed"), json!(["/content/0/text"]));
    assert_eq!(field(event, "point"), "after_call");
    let failure = changed.call("ann", "s:fail", json!({ "path": "a" })).await;
    assert_eq!(failure.error.unwrap().message, "x", "a tool's own words pass the hook, too");

    let (withheld, source) =
        gate(vec![reviewing("r", Review::Withhold("personal data".into()))]).await;
    let result = withheld.call("ann", "s:echo", json!({ "path": "a" })).await;
    assert_eq!((code(&result), source.calls()), (Some(ErrorCode::PermissionDenied), 1));
    assert!(result.content.is_empty());
    let outcome = &events(&withheld, EventKind::Outcome).await[0];
    assert_eq!(field(outcome, "started"), json!(true));
    assert_eq!(field(&events(&withheld, EventKind::HookObjected).await[0], "demand"), "withhold");
}

#[tokio::test]
async fn in_audit_mode_everything_is_noted_and_nothing_changes() {
    let plain = gate(Vec::new()).await.0;
    let expected = plain.call("ann", "s:echo", json!({ "path": "a" })).await;
    let audit = |mut hook: BoundHook| {
        for (_, terms) in &mut hook.points {
            terms.mode = HookMode::Audit;
        }
        hook
    };
    let change = json!([{ "op": "replace", "path": "/path", "value": "b" }]);
    let hooks = vec![
        rewriting("rewriter", change),
        checking("refuser", Opinion::Refuse("no".into())),
        checking("asker", Opinion::Confirm("ask".into())),
        reviewing("withholder", Review::Withhold("secret".into())),
        reviewing("x", Review::Change(patch(json!([{ "op": "remove", "path": "/content/0" }])))),
    ];
    let (gate, _) = gate(hooks.into_iter().map(audit).collect()).await;
    let result = gate.call("ann", "s:echo", json!({ "path": "a" })).await;
    assert_eq!((text(&result), result.success), (text(&expected), true));
    let noted = |events: Vec<ToolAuditEvent>| {
        for event in &events {
            assert_eq!(field(event, "enforced"), json!(false));
        }
        events.len()
    };
    assert_eq!(noted(events(&gate, EventKind::HookChanged).await), 2);
    assert_eq!(noted(events(&gate, EventKind::HookObjected).await), 3);
    let hash = |events: &[ToolAuditEvent]| field(&events[0], "outputHash");
    let outcomes = [&plain, &gate].map(|gate| events(gate, EventKind::Outcome));
    let [before, after] = outcomes;
    assert_eq!(hash(&before.await), hash(&after.await));
}

#[tokio::test]
async fn hooks_are_asked_by_position_then_name_and_only_about_their_tools() {
    let add = |name: &str, position: i32, tools: &[&str]| {
        let value = format!("{name} ");
        let rewrite = Box::new(move |shown: &Map<String, Value>| {
            let before = shown.get("order").and_then(Value::as_str).unwrap_or_default();
            let value = format!("{before}{value}");
            Ok(patch(json!([{ "op": "add", "path": "/order", "value": value }])))
        });
        let terms = HookTerms {
            tools: ToolPatterns::only(tools.iter().copied()).unwrap(),
            ..HookTerms::default()
        };
        let points = vec![(HookPoint::Rewrite, terms)];
        let hook = Arc::new(FakeHook { rewrite, ..FakeHook::default() });
        BoundHook { name: name.into(), position, points, hook }
    };
    let hooks = vec![
        add("z", 0, &["s:*"]),
        add("b", 1, &["*"]),
        add("a", 1, &["s__echo"]),
        add("first", -1, &["echo"]),
        add("never", 0, &["other*"]),
    ];
    let (gate, _) = gate(hooks).await;
    let result = gate.call("ann", "s:echo", json!({})).await;
    assert_eq!(text(&result), r#"{"order":"first z a b "}"#);
}

#[tokio::test]
async fn a_plugin_is_not_asked_about_calls_of_runs_that_it_started() {
    let by = |plugin: &str| -> Caller {
        let run = run_of(&caller("ann"), "p", Bounds::default());
        let lineage = Lineage { plugin: Some(plugin.into()), ..(*run.lineage.unwrap()).clone() };
        Caller { lineage: Some(Arc::new(lineage)), ..caller("ann") }
    };
    let (gate, _) = gate(vec![checking("guard", Opinion::Refuse("no".into()))]).await;
    for (caller, passes) in [
        (by("guard"), true),
        (run_of(&by("guard"), "child", Bounds::default()), true),
        (by("other"), false),
        (caller("ann"), false),
    ] {
        let result = gate.call_as(&caller, "s:echo", json!({})).await;
        assert_eq!(result.success, passes, "{:?}", caller.lineage);
    }
}

#[tokio::test]
async fn a_panicking_hook_harms_no_other_call() {
    let check = Box::new(|arguments: &Map<String, Value>| {
        assert!(arguments.contains_key("path"), "a bug");
        Ok(Opinion::Pass)
    });
    let hook = FakeHook { check, ..FakeHook::default() };
    let (gate, _) = gate(vec![bound("buggy", at(HookPoint::Check), hook)]).await;
    let result = gate.call("ann", "s:echo", json!({})).await;
    assert_eq!(code(&result), Some(ErrorCode::Unavailable));
    assert!(gate.call("ann", "s:echo", json!({ "path": "a" })).await.success);
}

#[tokio::test]
async fn a_hook_that_comes_while_a_call_waits_is_asked_before_it_starts() {
    let (gate, source) = gate(vec![checking("ask", Opinion::Confirm("risky".into()))]).await;
    gate.hold(Duration::from_mins(1));
    let waiting = gate.call("ann", "s:echo", json!({}));
    let decide = async {
        let approval = loop {
            match gate.gateway.approvals().pop() {
                Some(approval) => break approval,
                None => tokio::task::yield_now().await,
            }
        };
        let later = Hooks::new(vec![checking("no", Opinion::Refuse("meanwhile".into()))]);
        gate.control.parts().hooks.store(Arc::new(later));
        gate.decide(&approval.id, ApprovalState::Approved).await;
    };
    let (result, ()) = tokio::join!(waiting, decide);
    assert_eq!((code(&result), source.calls()), (Some(ErrorCode::PermissionDenied), 0));
}
