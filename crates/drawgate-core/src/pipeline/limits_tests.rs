//! How much runs at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::tests::{Probe, change, code, gate, gate_under, hanging, invocation, message, of_kind};
use super::*;
use crate::audit::EventKind;
use crate::model::{Bounds, Caller, McpManifest, Offer, SourceId, ToolOutput, ToolResult};
use crate::registry::{Origin, SourceTerms};
use crate::source::{CallContext, SourceError, ToolSource};
use crate::testing::{TestGate, caller, run_of, tool};

fn spawn(gate: &TestGate, who: &'static str) -> tokio::task::JoinHandle<crate::model::ToolResult> {
    let gateway = gate.gateway.clone();
    tokio::spawn(async move {
        gateway.call(&caller(who), invocation(json!({})), CallOptions::default()).await
    })
}

#[tokio::test]
async fn too_many_calls_are_refused_and_places_come_back() {
    let cases = [(2, 100, "ann", "ann"), (2, 100, "ann", "bob"), (100, 2, "ann", "ann")];
    for (max_calls, max_own, first, next) in cases {
        let source = hanging();
        let gate = gate(&source).await;
        gate.grant("bob", "*", None).await;
        change(&gate, |settings| {
            settings.max_calls = max_calls;
            settings.max_calls_per_caller = max_own;
        });
        let held = [spawn(&gate, first), spawn(&gate, first)];
        while source.starts() < 2 {
            tokio::task::yield_now().await;
        }
        let refused = gate.call(next, "s:t", json!({})).await;
        assert_eq!(code(&refused), Some(ErrorCode::RateLimited));
        assert_eq!(gate.gateway.under_way(), 2, "a refused call takes no place");
        assert_eq!(of_kind(&gate, EventKind::Outcome).await.len(), 1);
        for call in &held {
            call.abort();
        }
        while gate.gateway.under_way() > 0 {
            tokio::task::yield_now().await;
        }
        let again = spawn(&gate, next);
        while source.starts() < 3 {
            tokio::task::yield_now().await;
        }
        again.abort();
    }
}

type Limit = fn(&mut GatewaySettings);

#[tokio::test]
async fn what_is_too_much_is_refused_before_its_arguments_are_looked_at() {
    let source = Probe::new("s", vec![tool("t", &Value::Null)], |_, _| {
        Box::pin(async { Ok(ToolOutput::text("")) })
    });
    let gate = gate(&source).await;
    let cases: [(Limit, ErrorCode); 2] = [
        (|settings| settings.max_argument_bytes = 10, ErrorCode::InvalidArguments),
        (|settings| settings.max_calls = 0, ErrorCode::RateLimited),
    ];
    for (number, (limit, expected)) in cases.into_iter().enumerate() {
        change(&gate, limit);
        let refused = gate.call("ann", "s:t", json!({ "x": "longer" })).await;
        assert_eq!(code(&refused), Some(expected));
        let outcomes = of_kind(&gate, EventKind::Outcome).await;
        assert_eq!(outcomes.len(), number + 1, "one outcome for each");
        assert_eq!(outcomes[number].input_hash, None);
    }
    assert_eq!(source.starts(), 0);
    change(&gate, |settings| (settings.max_calls, settings.max_argument_bytes) = (9, 14));
    assert!(gate.call("ann", "s:t", json!({ "x": "longer" })).await.success, "14 bytes fit");
}

/// A source whose one tool calls itself through the gate, as often as it is told, and waits.
struct Nested {
    id: SourceId,
    waits: bool,
    gateway: OnceLock<Gateway>,
    most: AtomicUsize,
}

#[async_trait]
impl ToolSource for Nested {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Err(SourceError::unreachable("it is declared"))
    }

    fn waits(&self, tool: &str) -> bool {
        self.waits && tool == "t"
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        let gateway = self.gateway.get().unwrap();
        let more = call.arguments()["more"].as_u64().unwrap();
        self.most.fetch_max(gateway.under_way(), Ordering::SeqCst);
        if more > 0 {
            let below = Caller { lineage: cx.lineage.clone(), ..caller("ann") };
            let below = run_of(&below, "p", Bounds::default());
            let call = invocation(json!({ "more": more - 1 }));
            let gateway = gateway.clone();
            let run = async move { gateway.call(&below, call, CallOptions::default()).await };
            if let Some(error) = tokio::spawn(run).await.unwrap().error {
                return Err(SourceError::Failed { message: error.message, details: None });
            }
        }
        Ok(ToolOutput::text("ok"))
    }
}

/// Has 64 calls wait for each other and returns the answer to the outermost, with the most that were
/// under way when one began.
async fn nested(waits: bool, concurrency: usize, annotations: &Value) -> (ToolResult, usize) {
    let (id, tools) = (SourceId::new("s").unwrap(), vec![tool("t", annotations)]);
    let source = Arc::new(Nested {
        id: id.clone(),
        waits,
        gateway: OnceLock::new(),
        most: AtomicUsize::new(0),
    });
    let gate = TestGate::new().await;
    let terms = SourceTerms { concurrency, ..SourceTerms::default() };
    let manifest = McpManifest {
        server_id: id,
        name: String::new(),
        version: String::new(),
        description: None,
        tools,
        offer: Offer::default(),
    };
    gate.declare(source.clone(), manifest, terms, Origin::Declared).unwrap();
    change(&gate, |settings| settings.max_calls = 4);
    assert!(source.gateway.set(gate.gateway.clone()).is_ok());
    let result = gate.call("ann", "s:t", json!({ "more": 63 })).await;
    let ends = of_kind(&gate, EventKind::Outcome).await;
    assert_eq!(ends.len() == 64, result.success, "each has its outcome");
    assert!(!result.success || gate.gateway.under_way() == 0, "every slot came back");
    (result, source.most.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_runs_hold_no_slots() {
    let exclusive = json!({ "concurrency": "exclusive" });
    for annotations in [&Value::Null, &exclusive] {
        let (result, most) = nested(true, 1, annotations).await;
        assert!(result.success, "{annotations}: {:?}", result.error);
        assert_eq!(most, 0, "{annotations}");
    }
    // What would become of them otherwise.
    let (result, _) = nested(false, 1, &Value::Null).await;
    assert!(message(&result).contains("did not answer within"), "{:?}", result.error);
    let (result, most) = nested(false, 64, &Value::Null).await;
    assert!(message(&result).contains("4 calls are under way"), "{:?}", result.error);
    assert_eq!(most, 4);
}

#[tokio::test]
async fn one_caller_does_not_take_the_places_of_another() {
    let source = hanging();
    let gate = gate(&source).await;
    gate.grant("bob", "*", None).await;
    change(&gate, |settings| settings.max_calls_per_caller = 1);
    let (ann, bob) = (spawn(&gate, "ann"), spawn(&gate, "bob"));
    while source.starts() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(code(&gate.call("ann", "s:t", json!({})).await), Some(ErrorCode::RateLimited));
    ann.abort();
    bob.abort();
}

/// A tool that counts how many of its calls overlap, and lets each go when told.
struct Overlap {
    source: Arc<Probe>,
    most: Arc<AtomicUsize>,
    go: Arc<Semaphore>,
}

fn overlap(annotations: &Value) -> Overlap {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let go = Arc::new(Semaphore::new(0));
    let source = {
        let (most, go) = (most.clone(), go.clone());
        Probe::new("s", vec![tool("t", annotations)], move |_, _| {
            let (now, most, go) = (now.clone(), most.clone(), go.clone());
            Box::pin(async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                go.acquire().await.unwrap().forget();
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(ToolOutput::text("ok"))
            })
        })
    };
    Overlap { source, most, go }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn exclusive_tools_never_overlap_and_sources_have_so_many_slots() {
    let cases = [
        (json!({ "concurrency": "exclusive" }), 64, 1),
        (json!({ "concurrency": "parallel" }), 3, 3),
        (Value::Null, 1, 1),
        (Value::Null, 0, 1),
        (json!({ "concurrency": "exclusive" }), 3, 1),
    ];
    for (annotations, concurrency, at_once) in cases {
        let overlap = overlap(&annotations);
        let terms = SourceTerms { concurrency, ..SourceTerms::default() };
        let gate = gate_under(&overlap.source, terms).await;
        let calls: Vec<_> = (0..20).map(|_| spawn(&gate, "ann")).collect();
        while overlap.source.starts() < at_once {
            tokio::task::yield_now().await;
        }
        overlap.go.add_permits(20);
        for call in calls {
            assert!(call.await.unwrap().success);
        }
        let most = overlap.most.load(Ordering::SeqCst);
        assert!(most <= at_once, "{annotations} {concurrency}: {most}");
        assert_eq!(overlap.source.starts(), 20);
    }
}

#[tokio::test]
async fn registering_again_gives_no_further_slots() {
    for (annotations, concurrency) in
        [(json!({ "concurrency": "exclusive" }), 64), (Value::Null, 1)]
    {
        let overlap = overlap(&annotations);
        let terms = SourceTerms { concurrency, ..SourceTerms::default() };
        let gate = gate_under(&overlap.source, terms.clone()).await;
        let first = spawn(&gate, "ann");
        while overlap.source.starts() < 1 {
            tokio::task::yield_now().await;
        }
        let manifest = overlap.source.manifest().await.unwrap();
        gate.declare(overlap.source.clone(), manifest, terms, Origin::Discovered).unwrap();
        let second = spawn(&gate, "ann");
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(overlap.source.starts(), 1, "{annotations}: the first still runs");
        overlap.go.add_permits(2);
        assert!(first.await.unwrap().success && second.await.unwrap().success);
        assert_eq!(overlap.most.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_slot_is_part_of_the_time() {
    let source = hanging();
    let gate = gate_under(&source, SourceTerms { concurrency: 1, ..SourceTerms::default() }).await;
    let first = spawn(&gate, "ann");
    while source.starts() < 1 {
        tokio::task::yield_now().await;
    }
    let second = gate.call("ann", "s:t", json!({})).await;
    assert_eq!(code(&second), Some(ErrorCode::Timeout));
    assert_eq!(source.starts(), 1, "it never had a slot");
    assert_eq!(code(&first.await.unwrap()), Some(ErrorCode::Timeout));
}

/// Records whose call starts when, and lets one go for each permit.
fn recording(
    annotations: &Value,
) -> (Arc<Probe>, Arc<parking_lot::Mutex<Vec<String>>>, Arc<Semaphore>) {
    let (order, go) = (Arc::new(parking_lot::Mutex::new(Vec::new())), Arc::new(Semaphore::new(0)));
    let (record, gate) = (order.clone(), go.clone());
    let source = Probe::new("s", vec![tool("t", annotations)], move |_, cx| {
        record.lock().push(cx.caller().to_owned());
        let gate = gate.clone();
        Box::pin(async move {
            gate.acquire().await.unwrap().forget();
            Ok(ToolOutput::text("ok"))
        })
    });
    (source, order, go)
}

#[tokio::test]
async fn one_callers_queue_does_not_delay_another_by_its_length() {
    for (annotations, concurrency) in
        [(Value::Null, 1), (json!({ "concurrency": "exclusive" }), 64)]
    {
        let (source, order, go) = recording(&annotations);
        let terms = SourceTerms { concurrency, ..SourceTerms::default() };
        let gate = gate_under(&source, terms).await;
        gate.grant("bob", "*", None).await;
        let mut calls: Vec<_> = (0..24).map(|_| spawn(&gate, "ann")).collect();
        while gate.gateway.under_way() < 24 || source.starts() < 1 {
            tokio::task::yield_now().await;
        }
        calls.push(spawn(&gate, "bob"));
        // Until all of them wait for the slot.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        go.add_permits(25);
        for call in calls {
            assert!(call.await.unwrap().success);
        }
        let place = order.lock().iter().position(|caller| caller == "bob");
        // One runs, and one of the queue had its turn first.
        assert!(place.is_some_and(|place| place <= 2), "{annotations}: {place:?}");
    }
}
