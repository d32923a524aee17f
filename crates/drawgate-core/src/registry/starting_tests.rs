//! What is known of sources before they are there. Time is paused: nothing here waits for real.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::*;
use crate::model::{
    Annotations, Capability, ErrorCode, McpToolSpec, SourceId, ToolAnnotations, ToolOutput,
    ToolResult,
};
use crate::registry::{Naming, Pins, SourceSupervisor, ToolTerms, Trust};
use crate::source::{CallContext, PermittedCall, SourceError};
use crate::testing::{TestClock, TestGate, acts, tool};

/// A source that answers when it is let.
struct Slow {
    id: SourceId,
    tools: Vec<McpToolSpec>,
    go: Notify,
    called: AtomicUsize,
}

#[async_trait]
impl ToolSource for Slow {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        self.go.notified().await;
        Ok(McpManifest {
            server_id: self.id.clone(),
            name: "slow".to_owned(),
            version: "1".to_owned(),
            description: None,
            tools: self.tools.clone(),
            offer: crate::model::Offer::default(),
        })
    }

    async fn call(&self, _: PermittedCall, _: &CallContext) -> Result<ToolOutput, SourceError> {
        self.called.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(CALL_TIME).await;
        Ok(ToolOutput::text("done"))
    }
}

/// A gate whose source `s` was met once, with the tools `a` and `b`, and is starting again.
struct Met {
    gate: TestGate,
    supervisor: Arc<SourceSupervisor>,
    source: Arc<Slow>,
}

const WAIT: Duration = Duration::from_secs(1);
/// How long a call takes: less than its limit, and more than half of it.
const CALL_TIME: Duration = Duration::from_secs(40);

impl Met {
    async fn before(first: Vec<McpToolSpec>) -> Self {
        let gate = TestGate::new().await;
        let met = Self::start(gate, terms("one"), first).await;
        met.source.go.notify_one();
        met.supervisor.settle(WAIT).await;
        met
    }

    async fn again(self, terms: SourceTerms, tools: Vec<McpToolSpec>) -> Self {
        self.supervisor.remove(&self.source.id).await;
        Self::start(self.gate, terms, tools).await
    }

    async fn start(gate: TestGate, terms: SourceTerms, tools: Vec<McpToolSpec>) -> Self {
        let store = Arc::clone(&gate.store);
        let pins = Pins {
            documents: store.clone(),
            audit: store.clone(),
            acts: acts(store.clone(), store),
            clock: Arc::new(TestClock::default()),
        };
        let registry = Arc::clone(&gate.control.parts().registry);
        let supervisor = Arc::new(SourceSupervisor::new(registry, pins));
        let id = SourceId::new("s").unwrap();
        let source = Arc::new(Slow { id, tools, go: Notify::new(), called: AtomicUsize::new(0) });
        supervisor.add(source.clone(), terms, Origin::Discovered).unwrap();
        supervisor.settle_remembered(WAIT).await;
        Self { gate, supervisor, source }
    }

    fn listed(&self) -> Vec<String> {
        self.gate.gateway.registry().available().map(|entry| entry.id.to_string()).collect()
    }
}

fn terms(identity: &str) -> SourceTerms {
    SourceTerms {
        identity: identity.to_owned(),
        capabilities: vec![Capability::new("use").unwrap()],
        ..SourceTerms::default()
    }
}

fn tools() -> Vec<McpToolSpec> {
    vec![tool("a", &Value::Null), tool("b", &Value::Null)]
}

fn code(result: &ToolResult) -> Option<ErrorCode> {
    result.error.as_ref().map(|error| error.code)
}

#[tokio::test(start_paused = true)]
async fn what_is_pinned_is_listed_before_its_source_is_there_and_nothing_else() {
    let without_b = ToolTerms { disabled: true, ..ToolTerms::default() };
    let rows = [
        ("the same server", terms("one"), vec!["s:a", "s:b"]),
        ("another server", terms("two"), vec![]),
        ("followed", SourceTerms { trust: Trust::Follow, ..terms("one") }, vec![]),
        ("reviewed", SourceTerms { trust: Trust::Review, ..terms("one") }, vec!["s:a", "s:b"]),
        (
            "a tool switched off",
            SourceTerms { tools: BTreeMap::from([("b".to_owned(), without_b)]), ..terms("one") },
            vec!["s:a"],
        ),
    ];
    for (name, again, expected) in rows {
        let met = Met::before(tools()).await.again(again, tools()).await;
        assert_eq!(met.listed(), expected, "{name}");
        let starting = std::slice::from_ref(&met.source.id);
        assert_eq!(met.supervisor.starting(), starting, "{name}");
        // Other terms hold for what is known from before, too.
        let followed = SourceTerms { trust: Trust::Follow, ..terms("one") };
        met.supervisor.set_terms(&met.source.id, followed).await;
        assert_eq!(met.listed(), [""; 0], "{name}");
        met.source.go.notify_one();
        met.supervisor.settle(WAIT).await;
        assert_eq!(met.listed(), ["s:a", "s:b"], "{name}");
        met.supervisor.remove(&met.source.id).await;
        assert_eq!(met.listed(), [""; 0], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_lists_wait_once_for_a_source_that_was_never_met() {
    async fn is_awaited(met: &Met) -> bool {
        tokio::select! {
            biased;
            () = met.supervisor.settle_first_lists(WAIT) => false,
            () = std::future::ready(()) => true,
        }
    }
    let met = Met::start(TestGate::new().await, terms("one"), tools()).await;
    assert!(is_awaited(&met).await);
    met.supervisor.settle_first_lists(WAIT).await;
    assert!(!is_awaited(&met).await, "it did not come up in that time");
    let met = met.again(terms("one"), tools()).await;
    assert!(!is_awaited(&met).await, "the next start knows that");
    // Another program under its name is another server.
    let met = met.again(terms("two"), tools()).await;
    assert!(is_awaited(&met).await);
    // One that was met is listed, and not waited for.
    met.source.go.notify_one();
    met.supervisor.settle(WAIT).await;
    let met = met.again(terms("two"), tools()).await;
    assert!(!is_awaited(&met).await);
    assert_eq!(met.listed(), ["s:a", "s:b"]);
    // A wait that is broken off counts: the client that gave up may have ended the gateway.
    let met = met.again(terms("three"), tools()).await;
    assert!(is_awaited(&met).await);
    let met = met.again(terms("three"), tools()).await;
    assert!(!is_awaited(&met).await);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_comes_up_in_time_is_waited_for_again() {
    let followed = SourceTerms { trust: Trust::Follow, ..terms("one") };
    let met = Met::start(TestGate::new().await, followed.clone(), tools()).await;
    met.source.go.notify_one();
    met.supervisor.settle_first_lists(WAIT).await;
    assert_eq!(met.listed(), ["s:a", "s:b"]);
    let met = met.again(followed, tools()).await;
    assert_eq!(met.listed(), [""; 0], "what it offers is not kept");
    met.source.go.notify_one();
    met.supervisor.settle_first_lists(WAIT).await;
    assert_eq!(met.listed(), ["s:a", "s:b"]);
}

#[tokio::test(start_paused = true)]
async fn annotations_are_read_by_who_wrote_them() {
    let said =
        json!({ "requiresConfirmation": true, "requiredScopes": ["more"], "readOnlyHint": true });
    let own: ToolAnnotations = serde_json::from_value(said.clone()).unwrap();
    let Value::Object(said) = said else { unreachable!() };
    let scopes = |list: &[&str]| -> Vec<Capability> {
        list.iter().map(|scope| Capability::new(scope).unwrap()).collect()
    };
    let ignored = json!({ "requiresConfirmation": "yes", "requiredScopes": "more" });
    let Value::Object(ignored) = ignored else { unreachable!() };
    for (annotations, confirm, requires) in [
        (Annotations::Own(own), true, scopes(&["more", "use"])),
        (Annotations::Foreign(said), true, scopes(&["more", "use"])),
        (Annotations::Foreign(ignored), false, scopes(&["use"])),
    ] {
        let spec = McpToolSpec { annotations: Some(annotations), ..tool("a", &Value::Null) };
        let met = Met::before(vec![spec.clone()]).await;
        let entry = || Arc::clone(met.gate.gateway.registry().available().next().unwrap());
        let live = entry();
        assert_eq!((live.confirm, &live.requires), (confirm, &requires));
        let met = met.again(terms("one"), vec![spec]).await;
        let remembered = Arc::clone(met.gate.gateway.registry().available().next().unwrap());
        assert_eq!(remembered.definition, live.definition);
        assert_eq!(remembered.listing, live.listing);
        assert_eq!(remembered.requires, live.requires);
        assert_eq!(remembered.confirm, live.confirm);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_source_that_is_starting_waits_for_it() {
    let changed = vec![McpToolSpec { description: "other".to_owned(), ..tool("a", &Value::Null) }];
    let rows = [
        ("the same", tools(), None, 1),
        ("changed", changed, Some(ErrorCode::Unavailable), 0),
        ("gone", vec![tool("b", &Value::Null)], Some(ErrorCode::Unavailable), 0),
    ];
    for (name, now, expected, calls) in rows {
        let met = Met::before(tools()).await.again(terms("one"), now).await;
        met.gate.grant("ada", "use", None).await;
        let start = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(
                met.source.called.load(Ordering::SeqCst),
                0,
                "{name}: not before it is there"
            );
            met.source.go.notify_one();
        };
        let (result, ()) = tokio::join!(met.gate.call("ada", "s__a", json!({})), start);
        assert_eq!(code(&result), expected, "{name}: {result:?}");
        assert_eq!(met.source.called.load(Ordering::SeqCst), calls, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_source_that_was_never_met_waits_for_it_too() {
    let rows = [
        ("its tool", "s__a", tools(), None),
        ("a tool that it has not", "s__a", vec![], Some(ErrorCode::ResourceNotFound)),
    ];
    for (name, wire, now, expected) in rows {
        // Under another identity it is not the one that was met.
        let met = Met::before(tools()).await.again(terms("two"), now).await;
        met.gate.grant("ada", "use", None).await;
        let start = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            met.source.go.notify_one();
        };
        let (result, ()) = tokio::join!(met.gate.call("ada", wire, json!({})), start);
        assert_eq!(code(&result), expected, "{name}: {result:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_begins_when_its_source_is_there() {
    let met = Met::before(tools()).await.again(terms("one"), tools()).await;
    met.gate.grant("ada", "use", None).await;
    let start = async {
        tokio::time::sleep(CALL_TIME).await;
        met.source.go.notify_one();
    };
    let (result, ()) = tokio::join!(met.gate.call("ada", "s__a", json!({})), start);
    assert_eq!(code(&result), None, "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_name_of_before_is_held_until_its_source_has_answered_and_no_longer() {
    let flat = || SourceTerms { naming: Naming::Flat, ..terms("one") };
    let rows = [
        ("it comes back with the name", tools(), vec!["s:a", "s:b"]),
        ("it comes back without", vec![tool("b", &Value::Null)], vec!["s:b", "t:a"]),
    ];
    for (name, now, expected) in rows {
        let gate = TestGate::new().await;
        let met = Met::start(gate, flat(), tools()).await;
        met.source.go.notify_one();
        met.supervisor.settle(WAIT).await;
        let met = met.again(flat(), now).await;
        let id = SourceId::new("t").unwrap();
        let tools = vec![tool("a", &Value::Null)];
        let other = Arc::new(Slow { id, tools, go: Notify::new(), called: AtomicUsize::new(0) });
        met.supervisor.add(other.clone(), flat(), Origin::Discovered).unwrap();
        other.go.notify_one();
        tokio::time::sleep(REFRESH_PAUSE).await;
        assert_eq!(met.listed(), ["s:a", "s:b"], "{name}");
        met.source.go.notify_one();
        other.go.notify_one();
        tokio::time::sleep(REFRESH_PAUSE * 2).await;
        let mut listed = met.listed();
        listed.sort();
        assert_eq!(listed, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_start_in_time_is_said_to_be_starting() {
    let said = |result: &ToolResult| result.error.as_ref().unwrap().message.clone();
    let met = Met::before(tools()).await.again(terms("one"), tools()).await;
    met.gate.grant("ada", "use", None).await;
    let result = met.gate.call("ada", "s__a", json!({})).await;
    assert_eq!((code(&result), &*said(&result)), (Some(ErrorCode::Unavailable), "`s` is starting"));
    // One that was never met has no list: who may use it hears the same, and others nothing.
    let met = met.again(terms("two"), tools()).await;
    let result = met.gate.call("ada", "s__a", json!({})).await;
    assert_eq!((code(&result), &*said(&result)), (Some(ErrorCode::Unavailable), "`s` is starting"));
    let result = met.gate.call("bob", "s__a", json!({})).await;
    assert_eq!(code(&result), Some(ErrorCode::ResourceNotFound));
}
