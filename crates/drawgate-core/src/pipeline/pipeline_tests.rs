//! The way of a call, from name to audit. Other test files share the fixture.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::*;
use crate::audit::{EventKind, ToolAuditEvent};
use crate::canonical;
use crate::model::{
    Disclosure, McpManifest, McpToolSpec, SourceId, ToolInvocation, ToolOutput, ToolResult,
};
use crate::redact::Redactor;
use crate::registry::{Origin, SourceTerms};
use crate::source::{CallContext, ProgressSink, SourceError, ToolSource};
use crate::store::AuditLog;
use crate::testing::{FakeSource, Faulty, Operation, TestGate, TestStore, broken, caller, tool};

pub(super) type Answer = Pin<Box<dyn Future<Output = Result<ToolOutput, SourceError>> + Send>>;
type Behave = dyn Fn(Map<String, Value>, &CallContext) -> Answer + Send + Sync;

/// A source with one closure that may wait, and the count of its starts.
pub(super) struct Probe {
    id: SourceId,
    tools: Vec<McpToolSpec>,
    behave: Box<Behave>,
    starts: AtomicUsize,
}

impl Probe {
    pub(super) fn new(
        id: &str,
        tools: Vec<McpToolSpec>,
        behave: impl Fn(Map<String, Value>, &CallContext) -> Answer + Send + Sync + 'static,
    ) -> Arc<Self> {
        let id = SourceId::new(id).unwrap();
        Arc::new(Self { id, tools, behave: Box::new(behave), starts: AtomicUsize::new(0) })
    }

    pub(super) fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl ToolSource for Probe {
    fn confinement(&self, _tool: &str) -> Option<&'static str> {
        Some("strict")
    }

    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        let (name, version) = ("probe".to_owned(), "1".to_owned());
        Ok(McpManifest {
            server_id: self.id.clone(),
            name,
            version,
            description: None,
            tools: self.tools.clone(),
            offer: crate::model::Offer::default(),
        })
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        self.starts.fetch_add(1, Ordering::SeqCst);
        let answer = (self.behave)(call.into_arguments(), cx);
        answer.await
    }
}

/// Answers at once.
pub(super) fn with(
    answer: impl Fn() -> Result<ToolOutput, SourceError> + Send + Sync + 'static,
) -> Arc<Probe> {
    Probe::new("s", vec![tool("t", &Value::Null)], move |_, _| {
        let answer = answer();
        Box::pin(async move { answer })
    })
}

/// Never answers.
pub(super) fn hanging() -> Arc<Probe> {
    Probe::new("s", vec![tool("t", &Value::Null)], |_, _| Box::pin(std::future::pending()))
}

/// A gate where `ann` holds everything.
pub(super) async fn gate(source: &Arc<Probe>) -> TestGate {
    gate_under(source, SourceTerms::default()).await
}

pub(super) async fn gate_under(source: &Arc<Probe>, terms: SourceTerms) -> TestGate {
    let gate = TestGate::new().await;
    gate.grant("ann", "*", None).await;
    let manifest = source.manifest().await.unwrap();
    let bad = gate.declare(source.clone(), manifest, terms, Origin::Discovered).unwrap();
    assert_eq!(bad, []);
    gate
}

pub(super) fn invocation(arguments: Value) -> ToolInvocation {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    ToolInvocation {
        tool_id: "s:t".to_owned(),
        request_id: "r".to_owned(),
        arguments,
        ..Default::default()
    }
}

pub(super) fn code(result: &ToolResult) -> Option<ErrorCode> {
    result.error.as_ref().map(|error| error.code)
}

pub(super) fn message(result: &ToolResult) -> &str {
    &result.error.as_ref().unwrap().message
}

pub(super) async fn of_kind(gate: &TestGate, kind: EventKind) -> Vec<ToolAuditEvent> {
    gate.events().await.into_iter().filter(|event| event.kind == kind).collect()
}

pub(super) fn change(gate: &TestGate, change: impl FnOnce(&mut GatewaySettings)) {
    let mut settings = GatewaySettings::clone(&gate.control.parts().settings.load());
    change(&mut settings);
    gate.control.parts().settings.store(Arc::new(settings));
}

/// The same gate on another audit log.
pub(super) fn on_log(gate: &TestGate, audit: Arc<dyn AuditLog>) -> Gateway {
    let parts = gate.control.parts();
    GatewayControl::new(GatewayParts { audit, ..parts.clone() }).gateway().clone()
}

fn strict_tool() -> McpToolSpec {
    serde_json::from_value(json!({
        "name": "t", "description": "d", "annotations": { "requiredScopes": ["secret.use"] },
        "inputSchema": { "type": "object", "required": ["path"], "additionalProperties": false,
            "properties": { "path": { "type": "string" } } } }))
    .unwrap()
}

#[tokio::test]
async fn entitlement_comes_before_arguments_and_arguments_before_policy() {
    let source =
        Probe::new("s", vec![strict_tool()], |_, _| Box::pin(async { Ok(ToolOutput::text("ok")) }));
    let cases = [
        (
            "bob",
            json!({ "path": "x" }),
            "allow",
            Some(ErrorCode::PermissionDenied),
            Disclosure::ToolIsHidden,
        ),
        (
            "bob",
            json!({ "wrong": 1 }),
            "allow",
            Some(ErrorCode::PermissionDenied),
            Disclosure::ToolIsHidden,
        ),
        (
            "bob",
            json!({ "wrong": 1 }),
            "deny",
            Some(ErrorCode::PermissionDenied),
            Disclosure::ToolIsHidden,
        ),
        ("ann", json!({ "wrong": 1 }), "deny", Some(ErrorCode::InvalidArguments), Disclosure::Open),
        (
            "ann",
            json!({ "path": "x" }),
            "deny",
            Some(ErrorCode::PermissionDenied),
            Disclosure::Open,
        ),
        ("ann", json!({ "path": "x" }), "allow", None, Disclosure::Open),
    ];
    for (who, arguments, fallback, expected, disclosure) in cases {
        let gate = gate(&source).await;
        let before = source.starts();
        gate.policy(json!({ "version": "1.0", "defaults": { "fallback": fallback } }));
        let result = gate.call(who, "s:t", arguments.clone()).await;
        let shown = format!("{who} {arguments} {fallback}: {:?}", result.error);
        assert_eq!(code(&result), expected, "{shown}");
        assert_eq!(source.starts() - before, usize::from(expected.is_none()), "{shown}");
        let Some(error) = result.error else { continue };
        assert_eq!(error.disclosure, disclosure, "{shown}");
        if disclosure == Disclosure::ToolIsHidden {
            let all = serde_json::to_string(&error).unwrap();
            assert!(
                !all.contains("wrong") && !all.contains("path"),
                "no hint of the schema: {all}"
            );
        }
    }
}

#[tokio::test]
async fn invalid_arguments_name_the_place_and_not_the_value() {
    let source =
        Probe::new("s", vec![strict_tool()], |_, _| Box::pin(async { Ok(ToolOutput::text("ok")) }));
    let gate = gate(&source).await;
    let result = gate.call("ann", "s:t", json!({ "path": 424_242 })).await;
    let error = result.error.unwrap();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
    assert!(error.message.contains("`/path`"), "{}", error.message);
    assert_eq!(error.details.as_ref().unwrap()["faults"][0]["place"], "/path");
    assert!(!serde_json::to_string(&error).unwrap().contains("424242"));
    assert_eq!(source.starts(), 0);
    let result = gate.call("ann", "s:t", json!({ "path": "x".repeat(2 << 20) })).await;
    assert_eq!(code(&result), Some(ErrorCode::InvalidArguments), "too large");
    assert_eq!(source.starts(), 0);
}

#[tokio::test]
async fn an_ambiguous_name_lists_only_what_the_caller_may_call() {
    let gate = TestGate::new().await;
    for (id, scope) in [("s", "a"), ("u", "b"), ("v", "c")] {
        let spec = tool("t", &json!({ "requiredScopes": [scope] }));
        gate.register(FakeSource::new(id, vec![spec], |_, _| Ok(ToolOutput::text("ok"))))
            .await
            .unwrap();
    }
    gate.grant("ann", "a", None).await;
    assert!(gate.call("ann", "t", json!({})).await.success, "one candidate is no question");
    gate.grant("ann", "b", None).await;
    let error = gate.call("ann", "t", json!({})).await.error.unwrap();
    assert_eq!(error.code, ErrorCode::Conflict);
    assert_eq!(error.details, Some(json!({ "candidates": ["s:t", "u:t"] })));
    for unknown in ["nope", "a:b:c", "", "t\0", "s:t:x"] {
        assert_eq!(
            code(&gate.call("ann", unknown, json!({})).await),
            Some(ErrorCode::ResourceNotFound)
        );
    }
    assert_eq!(code(&gate.call("bob", "t", json!({})).await), Some(ErrorCode::ResourceNotFound));
}

/// A gate on which a call comes to a code; the match makes sure that none is forgotten.
async fn prepared(code: ErrorCode) -> TestGate {
    let fails = async |error: SourceError| gate(&with(move || Err(error.clone()))).await;
    match code {
        ErrorCode::ExecutionFailed => {
            fails(SourceError::Failed {
                message: "no".to_owned(),
                details: Some(json!({ "a": 1 })),
            })
            .await
        }
        ErrorCode::SandboxViolation => fails(SourceError::Sandbox("no".to_owned())).await,
        ErrorCode::Unavailable => fails(SourceError::unreachable("gone")).await,
        ErrorCode::Timeout | ErrorCode::Cancelled => gate(&hanging()).await,
        ErrorCode::PermissionDenied => ruled(json!({ "version": "1.0" })).await,
        ErrorCode::PermissionEscalationRequired => {
            ruled(json!({ "version": "1.0", "defaults": { "fallback": "allow_with_confirm" } }))
                .await
        }
        ErrorCode::InvalidArguments => {
            gate(&Probe::new("s", vec![strict_tool()], |_, _| Box::pin(std::future::pending())))
                .await
        }
        ErrorCode::RateLimited => {
            let gate = gate(&with(|| Ok(ToolOutput::text("ok")))).await;
            change(&gate, |settings| settings.max_calls = 0);
            gate
        }
        ErrorCode::ResourceNotFound | ErrorCode::Conflict => {
            let gate = gate(&with(|| Ok(ToolOutput::text("ok")))).await;
            let other = FakeSource::new("u", vec![tool("t", &Value::Null)], |_, _| {
                Ok(ToolOutput::text("ok"))
            });
            gate.register(other).await.unwrap();
            gate
        }
        ErrorCode::ValidationError => {
            let mut spec = tool("t", &Value::Null);
            spec.rest
                .insert("outputSchema".to_owned(), json!({ "type": "object", "required": ["n"] }));
            let output = ToolOutput { structured: Some(json!({})), ..ToolOutput::text("ok") };
            gate(&Probe::new("s", vec![spec], move |_, _| {
                Box::pin(std::future::ready(Ok(output.clone())))
            }))
            .await
        }
    }
}

async fn ruled(policy: Value) -> TestGate {
    let gate = gate(&with(|| Ok(ToolOutput::text("ok")))).await;
    gate.policy(policy);
    gate
}

async fn provoke(code: ErrorCode) -> (TestGate, ToolResult) {
    let gate = prepared(code).await;
    let mut call = invocation(json!({ "token": "x" }));
    let options = CallOptions::default();
    match code {
        ErrorCode::ResourceNotFound => call.tool_id = "nothing".to_owned(),
        ErrorCode::Conflict => call.tool_id = "t".to_owned(),
        ErrorCode::Cancelled => options.cancel.cancel(),
        _ => {}
    }
    let result = gate.gateway.call(&caller("ann"), call, options).await;
    (gate, result)
}

#[tokio::test(start_paused = true)]
async fn every_call_has_one_outcome_whatever_became_of_it() {
    for expected in ErrorCode::ALL {
        let (gate, result) = provoke(expected).await;
        assert_eq!(code(&result), Some(expected), "{result:?}");
        assert!(!result.success);
        assert!(!message(&result).is_empty());
        let outcomes = of_kind(&gate, EventKind::Outcome).await;
        assert_eq!(outcomes.len(), 1, "{expected}");
        let outcome = &outcomes[0];
        assert_eq!(outcome.code.as_deref(), Some(expected.as_str()));
        assert_eq!(outcome.success, Some(false));
        assert_eq!(outcome.request_id.as_deref(), Some("r"));
        assert_eq!(outcome.principal.as_deref(), Some("ann"));
        assert!(outcome.duration_ms.is_some() && outcome.grant_ids.is_some(), "{expected}");
        let length = |hash: &Option<String>| hash.as_deref().map(str::len);
        assert_eq!(length(&outcome.output_hash), Some(64), "{expected}");
        // What is refused for the load alone is not redacted and hashed before.
        let is_hashed = expected != ErrorCode::RateLimited;
        assert_eq!(length(&outcome.input_hash), is_hashed.then_some(64), "{expected}");
        check_order(&gate).await;
        assert_eq!(gate.gateway.under_way(), 0, "{expected}");
        let again = gate.call("ann", "nothing at all", json!({})).await;
        assert!(again.error.is_some(), "the gate lives");
    }
}

/// Decisions come before their outcomes, under one call id, and none stands alone.
async fn check_order(gate: &TestGate) {
    let events = gate.events().await;
    for (at, event) in events.iter().enumerate() {
        if event.kind == EventKind::Decision {
            let later = events.iter().skip(at).filter(|other| other.kind == EventKind::Outcome);
            let own =
                later.filter(|other| other.call_id.is_some() && other.call_id == event.call_id);
            assert_eq!(own.count(), 1, "{event:?}");
            assert!(event.decision.is_some() && event.rest.contains_key("definitionHash"));
        }
    }
}

#[tokio::test]
async fn a_good_call_is_decided_run_and_written_down() {
    let gate = gate(&with(|| Ok(ToolOutput::text("fine")))).await;
    let mut call = invocation(json!({ "b": 1, "a": [true] }));
    call.run_id = Some("run-1".to_owned());
    let result = gate.gateway.call(&caller("ann"), call, CallOptions::default()).await;
    assert!(result.success && result.error.is_none());
    assert_eq!(result.content, [json!({ "type": "text", "text": "fine" })]);
    assert_eq!((result.meta.tool_name.as_str(), result.meta.sandboxed), ("s:t", true));
    let events = gate.events().await;
    let kinds: Vec<EventKind> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Decision, EventKind::Outcome]);
    let (decision, outcome) = (&events[0], &events[1]);
    assert_eq!(decision.call_id, outcome.call_id);
    assert_eq!(decision.input_hash, outcome.input_hash);
    assert_eq!(decision.rest["input"], json!({ "a": [true], "b": 1 }));
    assert_eq!(outcome.grant_ids.as_deref(), Some(&[][..]), "the tool requires nothing");
    assert_eq!(outcome.success, Some(true));
    assert_eq!(outcome.rest["started"], true);
    assert_eq!(outcome.rest["runId"], "run-1");
    assert_eq!(
        (&decision.rest["sandbox"], &outcome.rest["sandbox"]),
        (&json!("strict"), &json!("strict"))
    );
    let large = json!({ "b": "x".repeat(100) });
    change(&gate, |settings| settings.payload_bytes = 100);
    gate.call("ann", "s:t", large.clone()).await;
    let last = of_kind(&gate, EventKind::Decision).await.pop().unwrap();
    assert!(!last.rest.contains_key("input"), "{last:?}");
    assert_eq!((&last.rest["inputKept"], &last.rest["inputBytes"]), (&json!(true), &json!(108)));
    let reader = gate.store.reader();
    let kept = reader.payload(last.input_hash.as_deref().unwrap()).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), large);
    change(&gate, |settings| settings.payload_quota_bytes = 107);
    gate.call("ann", "s:t", large).await;
    let last = of_kind(&gate, EventKind::Decision).await.pop().unwrap();
    assert_eq!(last.rest["inputKept"], false, "{last:?}");
    change(&gate, |settings| settings.keep_payloads = false);
    gate.call("ann", "s:t", json!({ "b": 1 })).await;
    let last = of_kind(&gate, EventKind::Decision).await.pop().unwrap();
    assert!(!last.rest.contains_key("input") && last.input_hash.is_some());
}

#[tokio::test]
async fn input_hashes_are_over_the_redacted_arguments_and_always_the_same() {
    let hash_of = async |arguments: Value, keys: &[&str]| {
        let gate = gate(&with(|| Ok(ToolOutput::text("ok")))).await;
        gate.control.parts().redactor.store(Arc::new(Redactor::new(["known-secret-value"])));
        let mut call = invocation(arguments);
        call.redact_keys = keys.iter().map(|key| (*key).to_owned()).collect();
        gate.gateway.call(&caller("ann"), call, CallOptions::default()).await;
        let events = gate.events().await;
        let all = format!("{events:?}");
        assert!(!all.contains("known-secret-value") && !all.contains("hunter2"), "{all}");
        events[0].input_hash.clone().unwrap()
    };
    let plain = json!({ "a": 1, "b": { "c": [1, 2], "d": "x" } });
    assert_eq!(hash_of(plain.clone(), &[]).await, canonical::hash(&plain));
    let reordered = json!({ "b": { "d": "x", "c": [1, 2] }, "a": 1 });
    assert_eq!(hash_of(reordered, &[]).await, canonical::hash(&plain));
    assert_ne!(hash_of(json!({ "a": 2 }), &[]).await, hash_of(json!({ "a": 3 }), &[]).await);
    let secret = |value: &str| json!({ "password": value, "a": 1 });
    assert_eq!(
        hash_of(secret("hunter2-one"), &[]).await,
        hash_of(secret("hunter2-two"), &[]).await
    );
    let extra = |value: &str| json!({ "pin": value });
    assert_eq!(
        hash_of(extra("hunter2-1"), &["pin"]).await,
        hash_of(extra("hunter2-2"), &["pin"]).await
    );
    let known = json!({ "text": "it is known-secret-value indeed" });
    assert_ne!(hash_of(known.clone(), &[]).await, canonical::hash(&known));
}

#[tokio::test]
async fn redaction_does_not_make_arguments_smaller_for_policy() {
    let source = with(|| Ok(ToolOutput::text("ok")));
    let gate = gate(&source).await;
    gate.policy(json!({ "version": "1.0", "defaults": { "fallback": "allow" }, "rules": [
        { "id": "big", "action": "*", "when": { "sizeOver": 1000 }, "decision": "deny" }] }));
    for (key, keys) in
        [("content", vec![]), ("content", vec!["content".to_owned()]), ("token", vec![])]
    {
        let mut call = invocation(json!({ key: "hunter2 ".repeat(1000) }));
        call.redact_keys = keys;
        let result = gate.gateway.call(&caller("ann"), call, CallOptions::default()).await;
        assert_eq!(code(&result), Some(ErrorCode::PermissionDenied), "{key}");
    }
    assert_eq!(source.starts(), 0);
}

#[tokio::test]
async fn a_caller_may_only_narrow_its_grants() {
    let spec = tool("t", &json!({ "requiredScopes": ["use"] }));
    let source = FakeSource::new("s", vec![spec], |_, _| Ok(ToolOutput::text("ok")));
    let gate = TestGate::new().await;
    gate.register(source).await.unwrap();
    let own = gate.grant("ann", "use", None).await;
    let other = gate.grant("ann", "other", None).await;
    let bobs = gate.grant("bob", "use", None).await;
    let none: &[&str] = &[];
    let cases = [
        ("ann", None, true),
        ("ann", Some(none), false),
        ("ann", Some(&[own.as_str()][..]), true),
        ("ann", Some(&[other.as_str()][..]), false),
        ("ann", Some(&[bobs.as_str()][..]), false),
        ("ann", Some(&[bobs.as_str(), own.as_str()][..]), true),
        ("eve", None, false),
        ("eve", Some(&[own.as_str(), bobs.as_str()][..]), false),
    ];
    for (who, only, allowed) in cases {
        let grant_ids = only.map(|only| only.iter().map(|id| (*id).into()).collect());
        let call = ToolInvocation { grant_ids, ..invocation(json!({})) };
        let result = gate.gateway.call(&caller(who), call, CallOptions::default()).await;
        let expected = (!allowed).then_some(ErrorCode::PermissionDenied);
        assert_eq!(code(&result), expected, "{who} {only:?}");
        let outcome = of_kind(&gate, EventKind::Outcome).await.pop().unwrap();
        let named = if allowed { vec![own.clone()] } else { vec![] };
        assert_eq!(outcome.grant_ids, Some(named), "{who} {only:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_may_only_shorten_the_time() {
    let cases = [
        (1_000, None, 600_000, 1_000),
        (1_000, Some(200), 600_000, 200),
        (1_000, Some(5_000), 600_000, 1_000),
        (1_000, Some(u64::MAX), 600_000, 1_000),
        (1_000, Some(0), 600_000, 0),
        (900_000, None, 600_000, 600_000),
        (900_000, Some(700_000), 600_000, 600_000),
    ];
    for (own, asked, cap, expected) in cases {
        let mut terms = SourceTerms::default();
        terms.limits.timeout = Duration::from_millis(own);
        let gate = gate_under(&hanging(), terms).await;
        change(&gate, |settings| settings.max_timeout = Duration::from_millis(cap));
        let began = Instant::now();
        let call = ToolInvocation { timeout_ms: asked, ..invocation(json!({})) };
        let result = gate.gateway.call(&caller("ann"), call, CallOptions::default()).await;
        assert_eq!(code(&result), Some(ErrorCode::Timeout));
        let shown = match expected {
            ..1_000 => format!("within {expected} ms"),
            _ => format!("within {} s", expected / 1000),
        };
        assert!(message(&result).contains(&shown), "{}", message(&result));
        let passed = u64::try_from(began.elapsed().as_millis()).unwrap();
        assert!(
            passed.abs_diff(expected) <= 1,
            "{passed} {expected}: the paused clock says how long"
        );
    }
}

/// Reports every second, and ends after so many.
fn reporting(seconds: u32) -> Arc<Probe> {
    Probe::new("s", vec![tool("t", &Value::Null)], move |_, cx| {
        let progress = cx.progress.clone();
        Box::pin(async move {
            for second in 0..seconds {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if let Some(progress) = &progress {
                    progress.report(Map::from_iter([("progress".to_owned(), second.into())]));
                }
            }
            Ok(ToolOutput::text("ok"))
        })
    })
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_time_up_to_the_longest() {
    struct Heard;
    impl ProgressSink for Heard {
        fn report(&self, _: Map<String, Value>) {}
    }
    let advice = "an operator can raise `timeout_seconds` of its server or in `[limits]`";
    let longest = "an operator can raise `max_timeout_seconds` in `[limits]`";
    let cases = [
        (70, None, true, None),
        (70, None, false, Some((60, advice))),
        (700, None, true, Some((600, longest))),
        (40, Some(35_000), true, Some((35, "the time that the caller gave it"))),
    ];
    for (seconds, timeout_ms, hears, expected) in cases {
        let gate = gate_under(&reporting(seconds), SourceTerms::default()).await;
        let call = ToolInvocation { timeout_ms, ..invocation(json!({})) };
        let progress = hears.then(|| Arc::new(Heard) as Arc<dyn ProgressSink>);
        let options = CallOptions { progress, ..CallOptions::default() };
        let result = gate.gateway.call(&caller("ann"), call, options).await;
        match expected {
            None => assert!(result.success, "{result:?}"),
            Some((limit, advice)) => {
                let said = message(&result);
                assert!(
                    said.starts_with(&format!("`s:t` did not answer within {limit} s")),
                    "{said}"
                );
                assert!(said.ends_with(advice), "{said}");
            }
        }
    }
}

#[tokio::test]
async fn the_longest_time_of_all_does_not_overflow() {
    let mut terms = SourceTerms::default();
    terms.limits.timeout = Duration::MAX;
    let gate = gate_under(&with(|| Ok(ToolOutput::text("ok"))), terms).await;
    change(&gate, |settings| settings.max_timeout = Duration::MAX);
    assert!(gate.call("ann", "s:t", json!({})).await.success);
}

#[tokio::test]
async fn cancelling_ends_the_call_and_its_work() {
    struct OnDrop(Arc<AtomicBool>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let (running, released) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let source = {
        let (running, released) = (running.clone(), released.clone());
        Probe::new("s", vec![tool("t", &Value::Null)], move |_, _| {
            let held = OnDrop(released.clone());
            running.notify_one();
            Box::pin(async move {
                let _held = held;
                std::future::pending().await
            })
        })
    };
    let gate = gate(&source).await;
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let gateway = gate.gateway.clone();
    let call =
        tokio::spawn(
            async move { gateway.call(&caller("ann"), invocation(json!({})), options).await },
        );
    running.notified().await;
    cancel.cancel();
    let result = call.await.unwrap();
    assert_eq!(code(&result), Some(ErrorCode::Cancelled));
    assert!(released.load(Ordering::SeqCst), "the source was let go");
    let outcome = of_kind(&gate, EventKind::Outcome).await.pop().unwrap();
    assert_eq!(
        (outcome.code.as_deref(), &outcome.rest["started"]),
        (Some("CANCELLED"), &json!(true))
    );
}

#[tokio::test]
async fn a_call_cancelled_before_it_starts_does_not_start() {
    let source = with(|| Ok(ToolOutput::text("ok")));
    let gate = gate(&source).await;
    let options = CallOptions::default();
    options.cancel.cancel();
    let result = gate.gateway.call(&caller("ann"), invocation(json!({})), options).await;
    assert_eq!(code(&result), Some(ErrorCode::Cancelled));
    assert_eq!(source.starts(), 0);
}

#[tokio::test]
async fn dropping_the_future_is_a_cancellation_that_is_written_down() {
    let source = hanging();
    let gate = gate(&source).await;
    let gateway = gate.gateway.clone();
    let call = tokio::spawn(async move {
        gateway.call(&caller("ann"), invocation(json!({})), CallOptions::default()).await
    });
    while source.starts() == 0 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    while of_kind(&gate, EventKind::Outcome).await.is_empty() {
        tokio::task::yield_now().await;
    }
    let outcomes = of_kind(&gate, EventKind::Outcome).await;
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0].code.as_deref(), Some("CANCELLED"));
    assert!(outcomes[0].output_hash.is_some());
    check_order(&gate).await;
    assert_eq!(gate.gateway.under_way(), 0);
}

#[tokio::test]
async fn a_gate_that_stops_answers_who_waits() {
    let source = hanging();
    let gate = gate(&source).await;
    let call = |as_task| {
        let (gateway, options) =
            (gate.gateway.clone(), CallOptions { as_task, ..Default::default() });
        tokio::spawn(
            async move { gateway.call(&caller("ann"), invocation(json!({})), options).await },
        )
    };
    let (waited_for, task) = (call(false), call(true));
    while source.starts() < 2 {
        tokio::task::yield_now().await;
    }
    gate.gateway.stop();
    let ended = waited_for.await.unwrap();
    assert_eq!(code(&ended), Some(ErrorCode::Cancelled));
    let outcomes = of_kind(&gate, EventKind::Outcome).await;
    assert_eq!(outcomes.len(), 1, "a task is left to whoever takes it up");
    assert_eq!(outcomes[0].rest["started"], json!(true));
    assert!(!task.is_finished());
    assert!(ended.error.unwrap().message.contains("is not known"));
    let late = gate.call("ann", "s:t", json!({})).await;
    assert_eq!(code(&late), Some(ErrorCode::Cancelled));
    assert!(late.error.unwrap().message.contains("nothing was done"));
    assert_eq!(source.starts(), 2);
    task.abort();
}

/// A log that can be stopped or broken at a kind of event.
pub(super) struct Gated {
    pub(super) log: Arc<Faulty<TestStore>>,
    reached: Arc<Notify>,
    go: Arc<Notify>,
}

impl Gated {
    pub(super) fn new(inner: &Arc<TestStore>, at: EventKind, is_broken: bool) -> Self {
        let log = Arc::new(Faulty::new(inner.clone()));
        let (reached, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let gated = Self { log, reached: reached.clone(), go: go.clone() };
        gated.log.faults().before(move |operation| {
            let (reached, go) = (reached.clone(), go.clone());
            async move {
                if operation != Operation::Append(at) {
                    return Ok(());
                }
                if is_broken {
                    return Err(broken());
                }
                reached.notify_one();
                go.notified().await;
                Ok(())
            }
        });
        gated
    }

    /// Waits until the event is about to be written.
    pub(super) async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Lets it be written.
    pub(super) fn go(&self) {
        self.go.notify_one();
    }
}

#[tokio::test]
async fn a_call_dropped_while_its_outcome_is_written_has_one_outcome() {
    let gate = gate(&with(|| Ok(ToolOutput::text("ok")))).await;
    let log = Gated::new(&gate.store, EventKind::Outcome, false);
    let gateway = on_log(&gate, log.log.clone());
    let call = tokio::spawn(async move {
        gateway.call(&caller("ann"), invocation(json!({})), CallOptions::default()).await
    });
    log.reached().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    log.go();
    while of_kind(&gate, EventKind::Outcome).await.is_empty() {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        // Any second outcome would be written by now.
        log.go();
        tokio::task::yield_now().await;
    }
    let outcomes = of_kind(&gate, EventKind::Outcome).await;
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0].success, Some(true), "the tool had done its work");
}

#[tokio::test]
async fn the_answer_leaves_after_its_event_is_stored() {
    let gate = gate(&with(|| Ok(ToolOutput::text("ok")))).await;
    let log = Gated::new(&gate.store, EventKind::Outcome, false);
    let gateway = on_log(&gate, log.log.clone());
    let call = tokio::spawn(async move {
        gateway.call(&caller("ann"), invocation(json!({})), CallOptions::default()).await
    });
    log.reached().await;
    for _ in 0..50 {
        tokio::task::yield_now().await;
        assert!(!call.is_finished());
    }
    log.go();
    assert!(call.await.unwrap().success);
}

#[tokio::test]
async fn what_can_not_be_written_down_does_not_happen() {
    for (at, starts) in [(EventKind::Decision, 0), (EventKind::Outcome, 1)] {
        let source = with(|| Ok(ToolOutput::text("the answer")));
        let gate = gate(&source).await;
        let log = Gated::new(&gate.store, at, true);
        let gateway = on_log(&gate, log.log.clone());
        let result =
            gateway.call(&caller("ann"), invocation(json!({})), CallOptions::default()).await;
        assert_eq!(code(&result), Some(ErrorCode::Unavailable), "{at}");
        assert!(
            !result.success && result.content.is_empty() && result.structured_content.is_none(),
            "{at}"
        );
        assert!(!format!("{result:?}").contains("the answer"), "{at}");
        assert_eq!(source.starts(), starts, "{at}");
        let told = message(&result);
        assert_eq!(told.contains("refused"), starts == 0, "{at}: {told}");
        assert_eq!(told.contains("may have been carried out"), starts == 1, "{at}: {told}");
        let outcomes = of_kind(&gate, EventKind::Outcome).await.len();
        assert_eq!(outcomes, usize::from(at == EventKind::Decision), "{at}");
    }
}

#[tokio::test]
async fn a_panic_in_a_source_fails_its_call_and_no_other() {
    let source = Probe::new("s", vec![tool("t", &Value::Null)], |arguments, _| {
        Box::pin(async move {
            assert!(arguments.get("now").is_none(), "a source that panics at once");
            tokio::task::yield_now().await;
            assert!(arguments.get("later").is_none(), "a source that panics later");
            Ok(ToolOutput::text("ok"))
        })
    });
    let gate = gate(&source).await;
    for arguments in [json!({ "now": 1 }), json!({ "later": 1 })] {
        let result = gate.call("ann", "s:t", arguments).await;
        assert_eq!(code(&result), Some(ErrorCode::ExecutionFailed));
        assert!(!message(&result).contains("panics"), "{}", message(&result));
    }
    assert!(gate.call("ann", "s:t", json!({})).await.success);
    assert_eq!(of_kind(&gate, EventKind::Outcome).await.len(), 3);
    assert_eq!(gate.gateway.under_way(), 0);
}

#[tokio::test]
async fn only_idempotent_tools_are_tried_again_and_only_once() {
    let unreachable = || SourceError::unreachable("gone");
    let lost = || SourceError::lost("gone");
    let failed = || SourceError::Failed { message: "no".to_owned(), details: None };
    let cases: [(bool, Vec<SourceError>, usize, bool); 7] = [
        (false, vec![unreachable()], 1, false),
        (false, vec![lost()], 1, false),
        (true, vec![unreachable()], 2, true),
        (true, vec![lost()], 2, true),
        (true, vec![lost(), lost(), lost()], 2, false),
        (true, vec![failed()], 1, false),
        (true, vec![SourceError::Timeout("late".to_owned())], 1, false),
    ];
    for (idempotent, errors, starts, success) in cases {
        let shown = format!("{idempotent} {errors:?}");
        let left = Arc::new(parking_lot::Mutex::new(errors));
        let source = with(move || {
            let mut left = left.lock();
            if left.is_empty() { Ok(ToolOutput::text("ok")) } else { Err(left.remove(0)) }
        });
        let mut terms = SourceTerms::default();
        let own = crate::registry::ToolTerms { idempotent, ..Default::default() };
        terms.tools.insert("t".to_owned(), own);
        let gate = gate_under(&source, terms).await;
        let result = gate.call("ann", "s:t", json!({})).await;
        assert_eq!((source.starts(), result.success), (starts, success), "{shown}");
        assert_eq!(of_kind(&gate, EventKind::Outcome).await.len(), 1, "{shown}");
    }
}

#[tokio::test]
async fn a_retry_needs_the_grant_as_much_as_the_first_try() {
    let gate = TestGate::new().await;
    let grants = gate.control.parts().grants.clone();
    let id = gate.grant("ann", "use", None).await;
    let source =
        Probe::new("s", vec![tool("t", &json!({ "requiredScopes": ["use"] }))], move |_, _| {
            let (grants, id) = (grants.clone(), id.clone());
            Box::pin(async move {
                grants.revoke(&[id.as_str().into()]).await;
                Err(SourceError::unreachable("gone"))
            })
        });
    let mut terms = SourceTerms::default();
    terms.tools.insert(
        "t".to_owned(),
        crate::registry::ToolTerms { idempotent: true, ..Default::default() },
    );
    gate.declare(source.clone(), source.manifest().await.unwrap(), terms, Origin::Discovered)
        .unwrap();
    let result = gate.call("ann", "s:t", json!({})).await;
    assert_eq!(code(&result), Some(ErrorCode::PermissionDenied));
    assert_eq!(source.starts(), 1);
}

#[tokio::test]
async fn a_call_that_may_have_run_is_not_told_as_refused() {
    let deny = json!({ "version": "1.0", "defaults": { "fallback": "deny" } });
    let gate = TestGate::new().await;
    let rules = Arc::clone(&gate.control.parts().rules);
    let source = with(move || {
        rules.store(Arc::new(crate::policy::Rules::from_value(deny.clone()).unwrap()));
        Err(SourceError::lost("the connection broke"))
    });
    let mut terms = SourceTerms::default();
    let own = crate::registry::ToolTerms { idempotent: true, ..Default::default() };
    terms.tools.insert("t".to_owned(), own);
    gate.declare(source.clone(), source.manifest().await.unwrap(), terms, Origin::Discovered)
        .unwrap();
    let result = gate.call("ann", "s:t", json!({})).await;
    assert_eq!((code(&result), source.starts()), (Some(ErrorCode::Unavailable), 1));
    assert!(message(&result).contains("the connection broke"), "{}", message(&result));
}

#[tokio::test]
async fn a_revoked_grant_stops_the_next_call() {
    let source =
        FakeSource::new("s", vec![tool("t", &json!({ "requiredScopes": ["use"] }))], |_, _| {
            Ok(ToolOutput::text("ok"))
        });
    let gate = TestGate::new().await;
    gate.register(source.clone()).await.unwrap();
    let id = gate.grant("ann", "use", None).await;
    let result = gate.call("ann", "s:t", json!({})).await;
    assert!(result.success);
    let outcome = of_kind(&gate, EventKind::Outcome).await.pop().unwrap();
    assert_eq!(outcome.grant_ids, Some(vec![id.clone()]), "the grant that covered it is named");
    gate.control.parts().grants.revoke(&[id.as_str().into()]).await;
    assert_eq!(code(&gate.call("ann", "s:t", json!({})).await), Some(ErrorCode::PermissionDenied));
    assert_eq!(source.calls(), 1);
}

#[tokio::test]
async fn what_is_revoked_between_decision_and_start_does_not_start() {
    let source = with(|| Ok(ToolOutput::text("ok")));
    let spec = tool("t", &json!({ "requiredScopes": ["use"] }));
    let gate = TestGate::new().await;
    let mut manifest = source.manifest().await.unwrap();
    manifest.tools = vec![spec];
    gate.declare(source.clone(), manifest, SourceTerms::default(), Origin::Discovered).unwrap();
    let id = gate.grant("ann", "use", None).await;
    let log = Gated::new(&gate.store, EventKind::Decision, false);
    let gateway = on_log(&gate, log.log.clone());
    let call = tokio::spawn(async move {
        gateway.call(&caller("ann"), invocation(json!({})), CallOptions::default()).await
    });
    log.reached().await;
    gate.control.parts().grants.revoke(&[id.as_str().into()]).await;
    log.go();
    let result = call.await.unwrap();
    assert_eq!(code(&result), Some(ErrorCode::PermissionDenied));
    assert_eq!(source.starts(), 0);
    let outcome = of_kind(&gate, EventKind::Outcome).await.pop().unwrap();
    assert_eq!(outcome.rest["started"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_revoke_returned_nothing_starts() {
    let source =
        FakeSource::new("s", vec![tool("t", &json!({ "requiredScopes": ["use"] }))], |_, _| {
            Ok(ToolOutput::text("ok"))
        });
    let gate = TestGate::new().await;
    gate.register(source.clone()).await.unwrap();
    // A log that takes its time, as one on a disk does.
    let log = Faulty::new(gate.store.clone());
    log.faults().before(async |_| {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        Ok(())
    });
    let slow = on_log(&gate, Arc::new(log));
    for round in 0..300 {
        let id = gate.grant("ann", "use", None).await;
        let before = source.calls();
        let calls: Vec<_> = (0..8)
            .map(|_| {
                let gateway = slow.clone();
                tokio::spawn(async move {
                    gateway
                        .call(&caller("ann"), invocation(json!({})), CallOptions::default())
                        .await
                        .success
                })
            })
            .collect();
        // Some have started, some are on their way.
        while source.calls() - before < round % 8 {
            tokio::task::yield_now().await;
        }
        gate.control.parts().grants.revoke(&[id.as_str().into()]).await;
        let when_revoked = source.calls();
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(source.calls(), when_revoked, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn revoke_waits_for_a_call_that_is_just_starting() {
    let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = parking_lot::Mutex::new(released);
    let spec = tool("t", &json!({ "requiredScopes": ["use"] }));
    let source = FakeSource::new("s", vec![spec], move |_, _| {
        entered.send(()).unwrap();
        released.lock().recv().unwrap();
        Ok(ToolOutput::text("ok"))
    });
    let gate = TestGate::new().await;
    gate.register(source).await.unwrap();
    let id = gate.grant("ann", "use", None).await;
    let gateway = gate.gateway.clone();
    let call = tokio::spawn(async move {
        gateway.call(&caller("ann"), invocation(json!({})), CallOptions::default()).await
    });
    inside.recv().await.unwrap();
    let grants = gate.control.parts().grants.clone();
    let revoking = tokio::spawn(async move { grants.revoke(&[id.as_str().into()]).await });
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
        assert!(!revoking.is_finished(), "its first step is not over");
    }
    release.send(()).unwrap();
    revoking.await.unwrap();
    assert!(call.await.unwrap().success);
}

#[tokio::test]
async fn a_tool_that_changed_or_went_between_decision_and_start_does_not_start() {
    let cases: [(&str, ErrorCode); 2] =
        [("changed", ErrorCode::Conflict), ("gone", ErrorCode::Unavailable)];
    for (what, expected) in cases {
        let source = with(|| Ok(ToolOutput::text("ok")));
        let gate = gate(&source).await;
        let log = Gated::new(&gate.store, EventKind::Decision, false);
        let gateway = on_log(&gate, log.log.clone());
        let call = tokio::spawn(async move {
            gateway.call(&caller("ann"), invocation(json!({})), CallOptions::default()).await
        });
        log.reached().await;
        let mut manifest = source.manifest().await.unwrap();
        manifest.tools = match what {
            "changed" => {
                vec![McpToolSpec { description: "another".to_owned(), ..tool("t", &Value::Null) }]
            }
            _ => Vec::new(),
        };
        gate.declare(source.clone(), manifest, SourceTerms::default(), Origin::Discovered).unwrap();
        log.go();
        assert_eq!(code(&call.await.unwrap()), Some(expected), "{what}");
        assert_eq!(source.starts(), 0, "{what}");
    }
}

#[tokio::test]
async fn the_source_gets_the_context_without_the_progress_token() {
    let seen = Arc::new(parking_lot::Mutex::new(Map::new()));
    let source = {
        let seen = seen.clone();
        Probe::new("s", vec![tool("t", &Value::Null)], move |_, cx| {
            *seen.lock() = cx.meta.clone();
            assert!(cx.deadline.at() > std::time::Instant::now());
            Box::pin(async { Ok(ToolOutput::text("ok")) })
        })
    };
    let gate = gate(&source).await;
    let mut call = invocation(json!({}));
    call.meta =
        json!({ "progressToken": 7, "example.com/x": { "y": 1 } }).as_object().unwrap().clone();
    assert!(gate.gateway.call(&caller("ann"), call, CallOptions::default()).await.success);
    assert_eq!(Value::Object(seen.lock().clone()), json!({ "example.com/x": { "y": 1 } }));
}

#[tokio::test]
async fn names_from_outside_are_short_and_harmless_in_the_log() {
    let gate = gate(&with(|| Ok(ToolOutput::text("ok")))).await;
    let mut call = invocation(json!({}));
    call.tool_id = format!("evil\u{1b}[2J\n{}", "x".repeat(10_000));
    call.request_id = "r".repeat(10_000);
    call.run_id = Some("u".repeat(10_000));
    let result = gate.gateway.call(&caller("ann"), call, CallOptions::default()).await;
    assert!(message(&result).len() < 300 && !message(&result).contains('\u{1b}'));
    let outcome = of_kind(&gate, EventKind::Outcome).await.pop().unwrap();
    let tool_id = outcome.tool_id.unwrap();
    assert!(tool_id.len() < 300 && !tool_id.contains(['\u{1b}', '\n']), "{tool_id}");
    assert_eq!(outcome.request_id.unwrap().len(), 256);
    assert_eq!(outcome.rest["runId"].as_str().unwrap().len(), 256);
}

#[tokio::test]
async fn lists_show_what_can_be_called() {
    let gate = TestGate::new().await;
    let specs =
        vec![tool("open", &Value::Null), tool("read", &json!({ "requiredScopes": ["file.read"] }))];
    gate.register(FakeSource::new("s", specs, |_, _| Ok(ToolOutput::text("ok")))).await.unwrap();
    let listed = |who: &str| -> Vec<String> {
        gate.gateway.tools(&caller(who)).iter().map(|entry| entry.id.to_string()).collect()
    };
    assert_eq!(listed("ann"), ["s:open"]);
    gate.grant("ann", "file.*", None).await;
    assert_eq!(listed("ann"), ["s:open", "s:read"]);
    assert_eq!(listed("bob"), ["s:open"]);
    for (who, name, callable) in
        [("ann", "s:read", true), ("bob", "s:read", false), ("bob", "s:open", true)]
    {
        assert_eq!(gate.call(who, name, json!({})).await.success, callable, "{who} {name}");
    }
    let snapshot = gate.control.snapshot();
    assert_eq!((snapshot.tools.len(), snapshot.grants.len()), (2, 1));
    assert_eq!(snapshot.audit_cursor, gate.store.head());
}

#[derive(Clone, Default)]
struct LogLines(Arc<parking_lot::Mutex<Vec<u8>>>);

impl std::io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn log_lines_of_a_source_carry_their_call() {
    let lines = LogLines::default();
    let writer = lines.clone();
    let logs = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _logs = tracing::subscriber::set_default(logs.finish());
    let source = FakeSource::new("s", vec![tool("t", &Value::Null)], |_, _| {
        tracing::warn!("at work");
        Ok(ToolOutput::text(""))
    });
    let gate = TestGate::new().await;
    gate.register(source).await.unwrap();
    assert!(gate.call("ann", "t", json!({ "x": "an-argument" })).await.success);
    let logged = String::from_utf8(lines.0.lock().clone()).unwrap();
    let line = logged.lines().find(|line| line.contains("at work")).unwrap();
    let outcome = of_kind(&gate, EventKind::Outcome).await.pop().unwrap();
    let call_id = format!("call_id={}", outcome.call_id.unwrap());
    for part in [call_id.as_str(), "tool=s:t", "principal=ann"] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!logged.contains("an-argument"), "{logged}");
}
