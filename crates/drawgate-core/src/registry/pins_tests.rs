//! Definitions that change behind the gate's back. Time is paused: nothing here waits for real.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::model::{McpToolSpec, Principal, ToolOutput};
use crate::registry::{Origin, Registry, SourceState, SourceStatus, SourceSupervisor, SourceTerms};
use crate::store::{AuditLog, Documents};
use crate::testing::{FakeSource, TestClock, TestStore, acts, operations, tool};

/// A gateway's memory, which outlives its supervisors.
#[derive(Default)]
struct Installation {
    store: Arc<TestStore>,
    audit: Arc<TestStore>,
}

struct Running {
    registry: Arc<Registry>,
    supervisor: SourceSupervisor,
    source: Arc<FakeSource>,
}

impl Installation {
    fn pins(&self) -> Pins {
        Pins {
            documents: self.store.clone(),
            audit: self.audit.clone(),
            acts: acts(self.store.clone(), self.audit.clone()),
            clock: Arc::new(TestClock::default()),
        }
    }

    async fn start(&self, trust: Trust, identity: &str, tools: Vec<McpToolSpec>) -> Running {
        let registry = Arc::new(Registry::default());
        let supervisor = SourceSupervisor::new(Arc::clone(&registry), self.pins());
        let source = FakeSource::new("s", tools, |_, _| Ok(ToolOutput::text("ok")));
        let terms = SourceTerms { trust, identity: identity.to_owned(), ..SourceTerms::default() };
        supervisor.add(source.clone(), terms, Origin::Discovered).unwrap();
        supervisor.settle(Duration::from_secs(1)).await;
        Running { registry, supervisor, source }
    }

    /// The events of a kind: tool, hash before, hash after.
    async fn events(&self, kind: EventKind) -> Vec<(String, Option<String>, String)> {
        let all = self.audit.read(0, 100_000).await.unwrap();
        let events = all.iter().map(|stored| stored.event().unwrap());
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        events
            .filter(|event| event.kind == kind)
            .map(|event| {
                let name = event.tool_id.clone().or_else(|| text(event.rest.get("name")));
                let before = text(event.rest.get("definitionBefore"));
                (name.unwrap(), before, text(event.rest.get("definitionAfter")).unwrap())
            })
            .collect()
    }

    async fn quarantines(&self) -> Vec<String> {
        let events = self.events(EventKind::ToolQuarantined).await;
        events.into_iter().map(|(tool, _, _)| tool).collect()
    }
}

impl Running {
    /// Changes the tools and waits until the supervisor has looked at them.
    async fn announce(&self, tools: Vec<McpToolSpec>) {
        self.source.set_tools(tools);
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }

    fn listed(&self) -> Vec<String> {
        let snapshot = self.registry.snapshot();
        snapshot
            .available()
            .map(|entry| format!("{}={}", entry.id.tool(), entry.spec.description))
            .collect()
    }

    fn status(&self) -> SourceStatus {
        self.supervisor.status().remove(0)
    }

    fn quarantined(&self) -> Vec<(String, HeldReason)> {
        let all = self.status().quarantined;
        all.into_iter().map(|one| (one.name, one.reason)).collect()
    }

    /// Accepts everything that waits.
    async fn accept_all(&self) -> Result<Vec<Held>, ReviewError> {
        let shown = self.supervisor.review("s").await?;
        self.supervisor
            .accept(&Principal::local(), "s", shown.iter().map(acceptance).collect())
            .await
    }
}

fn accept(pin_store: &mut PinStore, all: &[Acceptance]) {
    let accepted = pin_store.accept(&Principal::local(), all).unwrap();
    pin_store.trust(accepted.record);
}

fn acceptance(held: &Held) -> Acceptance {
    Acceptance { kind: held.kind, name: held.name.clone(), hash: held.hash.clone() }
}

/// Tools, each a name and a description.
fn tools(list: &[(&str, &str)]) -> Vec<McpToolSpec> {
    let one = |(name, words): &(&str, &str)| McpToolSpec {
        description: (*words).to_owned(),
        ..tool(name, &Value::Null)
    };
    list.iter().map(one).collect()
}

use HeldReason::{Changed, New};

fn waits(list: &[(&str, HeldReason)]) -> Vec<(String, HeldReason)> {
    list.iter().map(|(name, reason)| ((*name).to_owned(), *reason)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_seen_first_is_trusted_and_what_comes_later_waits() {
    let place = Installation::default();
    let run = place.start(Trust::Pin, "x", tools(&[("a", "1"), ("b", "1")])).await;
    assert_eq!(run.listed(), ["a=1", "b=1"]);
    assert_eq!(run.quarantined(), []);
    run.announce(tools(&[("a", "2"), ("b", "1"), ("c", "1")])).await;
    assert_eq!(run.listed(), ["b=1"]);
    assert_eq!(run.quarantined(), waits(&[("a", Changed), ("c", New)]));
    assert_eq!((run.status().state, run.status().tools), (SourceState::Ready, 1));
    let shown = run.supervisor.review("s").await.unwrap();
    assert_eq!(shown[0].pinned.as_ref().unwrap()["description"], "1");
    assert_eq!(shown[0].definition["description"], "2");
    assert_eq!((&shown[1].pinned, &shown[1].pinned_hash), (&None, &None));
    let events = place.events(EventKind::ToolQuarantined).await;
    let expected = [
        ("s:a".to_owned(), shown[0].pinned_hash.clone(), shown[0].hash.clone()),
        ("s:c".to_owned(), None, shown[1].hash.clone()),
    ];
    assert_eq!(events, expected);
    assert_ne!(events[0].1.as_ref(), Some(&events[0].2));
}

#[tokio::test(start_paused = true)]
async fn the_trusted_definition_comes_back_by_itself() {
    let place = Installation::default();
    let run = place.start(Trust::Pin, "x", tools(&[("a", "good")])).await;
    for _ in 0..3 {
        run.announce(tools(&[("a", "bad")])).await;
        assert_eq!(run.listed(), [""; 0]);
        run.announce(tools(&[("a", "good")])).await;
        assert_eq!(run.listed(), ["a=good"]);
        assert_eq!(run.quarantined(), []);
        assert!(run.supervisor.review("s").await.unwrap().is_empty());
    }
    assert_eq!(place.quarantines().await, ["s:a"], "one event for one definition");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_went_away_can_not_come_back_as_another() {
    let place = Installation::default();
    let run = place.start(Trust::Pin, "x", tools(&[("a", "1"), ("b", "1")])).await;
    run.announce(tools(&[("b", "1")])).await;
    assert_eq!(run.listed(), ["b=1"]);
    run.announce(tools(&[("a", "other"), ("b", "1")])).await;
    assert_eq!(run.quarantined(), waits(&[("a", Changed)]));
    assert_eq!(run.listed(), ["b=1"]);
    run.announce(tools(&[("a", "1"), ("b", "1")])).await;
    assert_eq!(run.listed(), ["a=1", "b=1"]);
}

#[tokio::test(start_paused = true)]
async fn pins_outlive_the_gateway_and_events_are_not_repeated() {
    let place = Installation::default();
    drop(place.start(Trust::Pin, "x", tools(&[("a", "1")])).await);
    for _ in 0..2 {
        let run = place.start(Trust::Pin, "x", tools(&[("a", "2")])).await;
        assert_eq!(run.quarantined(), waits(&[("a", Changed)]));
        assert_eq!(run.listed(), [""; 0]);
    }
    assert_eq!(place.quarantines().await, ["s:a"]);
}

#[tokio::test(start_paused = true)]
async fn any_part_of_a_definition_counts() {
    let plain = tool("a", &Value::Null);
    let mut changes: Vec<McpToolSpec> = vec![
        McpToolSpec { input_schema: json!({ "type": "object", "title": "x" }), ..plain.clone() },
        tool("a", &json!({ "readOnlyHint": true })),
        McpToolSpec { metadata: Some(json!({ "x": 1 })), ..plain.clone() },
    ];
    let rest = [
        ("title", json!("A")),
        ("outputSchema", json!({ "type": "object" })),
        ("icons", json!([{ "src": "data:" }])),
        ("_meta", json!({ "ui": { "resourceUri": "ui://x" } })),
    ];
    for (key, value) in rest {
        let mut spec = plain.clone();
        spec.rest.insert(key.to_owned(), value);
        changes.push(spec);
    }
    for changed in changes {
        let place = Installation::default();
        let run = place.start(Trust::Pin, "x", vec![plain.clone()]).await;
        run.announce(vec![changed.clone()]).await;
        assert_eq!(run.quarantined(), waits(&[("a", Changed)]), "{changed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_two_definitions_under_one_name_is_the_trusted_one() {
    let place = Installation::default();
    let run = place.start(Trust::Pin, "x", tools(&[("a", "1"), ("a", "2")])).await;
    assert_eq!(run.listed(), ["a=1"]);
    run.announce(tools(&[("a", "2"), ("a", "1")])).await;
    assert_eq!(run.listed(), ["a=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_followed_is_never_held() {
    let place = Installation::default();
    let run = place.start(Trust::Follow, "x", tools(&[("a", "1")])).await;
    run.announce(tools(&[("a", "2"), ("b", "1")])).await;
    assert_eq!(run.listed(), ["a=2", "b=1"]);
    assert_eq!(place.quarantines().await, [""; 0]);
    assert!(place.store.documents(KIND).await.unwrap().is_empty());
    place.store.break_state(true);
    run.announce(tools(&[("a", "3")])).await;
    assert_eq!(run.listed(), ["a=3"]);
}

#[tokio::test(start_paused = true)]
async fn under_review_nothing_is_visible_until_it_is_accepted() {
    let place = Installation::default();
    let run = place.start(Trust::Review, "x", tools(&[("a", "1"), ("b", "1")])).await;
    assert_eq!(run.listed(), [""; 0]);
    assert_eq!(run.quarantined(), waits(&[("a", New), ("b", New)]));
    let shown = run.supervisor.review("s").await.unwrap();
    run.supervisor.accept(&Principal::local(), "s", vec![acceptance(&shown[0])]).await.unwrap();
    assert_eq!(run.listed(), ["a=1"]);
    run.accept_all().await.unwrap();
    assert_eq!(run.listed(), ["a=1", "b=1"]);
    drop(run);
    let run = place.start(Trust::Review, "x", tools(&[("a", "2"), ("b", "1")])).await;
    assert_eq!(run.listed(), ["b=1"]);
    assert_eq!(run.quarantined(), waits(&[("a", Changed)]));
}

#[tokio::test(start_paused = true)]
async fn another_command_is_another_server() {
    let place = Installation::default();
    drop(place.start(Trust::Pin, "one", tools(&[("a", "1")])).await);
    let run = place.start(Trust::Pin, "two", tools(&[("a", "2")])).await;
    assert_eq!(run.listed(), ["a=2"]);
    drop(run);
    let run = place.start(Trust::Review, "three", tools(&[("a", "2")])).await;
    assert_eq!(run.listed(), [""; 0], "pins of another server accept nothing");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_said_nothing_at_first_was_met_all_the_same() {
    let place = Installation::default();
    let run = place.start(Trust::Pin, "x", Vec::new()).await;
    run.announce(tools(&[("a", "1")])).await;
    assert_eq!((run.listed(), run.quarantined()), (vec![], waits(&[("a", New)])));
    drop(run);
    let run = place.start(Trust::Pin, "x", tools(&[("a", "1")])).await;
    assert_eq!((run.listed(), run.quarantined()), (vec![], waits(&[("a", New)])), "for good");
    run.accept_all().await.unwrap();
    assert_eq!(run.listed(), ["a=1"]);
}

#[tokio::test(start_paused = true)]
async fn what_waited_under_review_is_not_trusted_by_another_word() {
    let place = Installation::default();
    drop(place.start(Trust::Review, "x", tools(&[("a", "1")])).await);
    let run = place.start(Trust::Pin, "x", tools(&[("a", "1")])).await;
    assert_eq!((run.listed(), run.quarantined()), (vec![], waits(&[("a", New)])));
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_compared_is_not_offered() {
    let place = Installation::default();
    place.store.break_state(true);
    let run = place.start(Trust::Pin, "x", tools(&[("a", "1")])).await;
    assert_eq!((run.status().state, run.listed()), (SourceState::Failed, vec![]));
    assert!(run.status().problem.unwrap().contains("broken"));
    place.store.break_state(false);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(run.listed(), ["a=1"], "it is tried again");
    drop(run);
    let broken = json!({ "tools": [] });
    place.store.put_document(KIND, "s", &broken).await.unwrap();
    let run = place.start(Trust::Pin, "x", tools(&[("a", "1")])).await;
    assert_eq!((run.status().state, run.listed()), (SourceState::Failed, vec![]));
}

#[tokio::test(start_paused = true)]
async fn only_what_was_shown_can_be_accepted() {
    let place = Installation::default();
    let run = place.start(Trust::Pin, "x", tools(&[("a", "1"), ("b", "1")])).await;
    run.announce(tools(&[("a", "2"), ("b", "2")])).await;
    let shown: Vec<Acceptance> =
        run.supervisor.review("s").await.unwrap().iter().map(acceptance).collect();
    run.announce(tools(&[("a", "2"), ("b", "3")])).await;
    let stale = run.supervisor.accept(&Principal::local(), "s", shown.clone()).await.unwrap_err();
    assert!(matches!(&stale, ReviewError::ChangedAgain(name) if name == "b"), "{stale}");
    assert_eq!(stale.to_string(), "`b` has changed again; review it once more");
    assert_eq!(run.listed(), [""; 0], "nothing of it took effect");
    assert_eq!(place.events(EventKind::ToolAccepted).await, []);
    run.supervisor.accept(&Principal::local(), "s", shown[..1].to_vec()).await.unwrap();
    assert_eq!(run.listed(), ["a=2"]);
    let again =
        run.supervisor.accept(&Principal::local(), "s", shown[..1].to_vec()).await.unwrap_err();
    assert!(matches!(again, ReviewError::NotWaiting(_)), "{again}");
    let nobody = run.supervisor.accept(&Principal::local(), "t", shown).await.unwrap_err();
    assert!(matches!(nobody, ReviewError::NoServer(_)), "{nobody}");
    let accepted = place.events(EventKind::ToolAccepted).await;
    let [(tool, before, after)] = accepted.as_slice() else { panic!("{accepted:?}") };
    assert_eq!(tool, "s:a");
    assert_ne!(before.as_ref(), Some(after));
    run.announce(tools(&[("a", "1"), ("b", "1")])).await;
    assert_eq!(run.listed(), ["b=1"], "what was trusted before is no longer");
}

#[tokio::test(start_paused = true)]
async fn an_acceptance_that_can_not_be_kept_is_none() {
    let place = Installation::default();
    let run = place.start(Trust::Pin, "x", tools(&[("a", "1")])).await;
    run.announce(tools(&[("a", "2")])).await;
    place.store.break_state(true);
    assert!(matches!(run.accept_all().await, Err(ReviewError::Act(ActError::Store(_)))));
    assert_eq!(run.listed(), [""; 0]);
    place.store.break_state(false);
    run.accept_all().await.unwrap();
    assert_eq!(run.listed(), ["a=2"]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_flips_are_all_blocked() {
    let place = Installation::default();
    let run = place.start(Trust::Pin, "x", tools(&[("a", "good")])).await;
    for flip in 0..1000 {
        run.announce(tools(&[("a", &format!("bad {flip}"))])).await;
        assert_eq!(run.listed(), [""; 0], "{flip}");
    }
    assert_eq!(place.quarantines().await.len(), 1000);
    run.announce(tools(&[("a", "good")])).await;
    assert_eq!(run.listed(), ["a=good"]);
}

#[tokio::test(start_paused = true)]
async fn many_changes_at_once_do_not_flood_the_log() {
    let names: Vec<String> = (0..1000).map(|at| format!("t{at}")).collect();
    let all =
        |words: &str| tools(&names.iter().map(|name| (name.as_str(), words)).collect::<Vec<_>>());
    let place = Installation::default();
    let run = place.start(Trust::Pin, "x", all("1")).await;
    run.announce(all("2")).await;
    assert_eq!(run.listed(), [""; 0]);
    assert_eq!(place.quarantines().await.len(), MAX_EVENTS);
}

#[tokio::test(start_paused = true)]
async fn a_definition_too_large_to_keep_is_known_by_its_hash() {
    let place = Installation::default();
    let large = |end: &str| {
        let schema = json!({ "type": "object", "title": format!("{}{end}", "x".repeat(70_000)) });
        vec![McpToolSpec { input_schema: schema, ..tool("a", &Value::Null) }]
    };
    let run = place.start(Trust::Pin, "x", large("")).await;
    run.announce(large("!")).await;
    let shown = run.supervisor.review("s").await.unwrap();
    assert!(shown[0].pinned.is_none() && shown[0].pinned_hash.is_some());
    let document = &place.store.documents(KIND).await.unwrap()[0].1;
    assert!(document.to_string().len() < 1000);
    run.announce(large("")).await;
    assert_eq!(run.quarantined(), []);
}

#[tokio::test]
async fn prompts_and_families_wait_like_tools() {
    let place = Installation::default();
    let id = SourceId::new("s").unwrap();
    let manifest = |words: &str| {
        let source = FakeSource::new("s", tools(&[("a", "1")]), |_, _| Ok(ToolOutput::text("")));
        let mut manifest = source.describe();
        manifest.offer.prompts = vec![json!({ "name": "p", "description": words })];
        manifest.offer.templates = vec![json!({ "uriTemplate": "x://{a}", "description": words })];
        manifest.offer.resources = vec![json!({ "uri": "x://1", "name": words })];
        manifest.offer.operations = operations([Operation::ReadResource]);
        manifest.offer.instructions = Some(words.to_owned());
        manifest
    };
    let mut pin_store = PinStore::new(id.clone(), Trust::Pin, "x", place.pins());
    assert_eq!(pin_store.sift(manifest("1")).await.unwrap(), manifest("1"));
    let sifted = pin_store.sift(manifest("2")).await.unwrap();
    assert!(sifted.offer.prompts.is_empty() && sifted.offer.templates.is_empty());
    assert_eq!(sifted.offer.resources, manifest("2").offer.resources, "data, not definitions");
    assert_eq!(sifted.offer.instructions.as_deref(), Some("1"), "those that are trusted");
    assert_eq!(sifted.tools.len(), 1);
    let mut pin_store = PinStore::new(id, Trust::Review, "y", place.pins());
    let sifted = pin_store.sift(manifest("1")).await.unwrap();
    assert!(sifted.tools.is_empty() && sifted.offer == Offer::default(), "{sifted:?}");
    let kinds: Vec<ItemKind> = pin_store.held().iter().map(|held| held.kind).collect();
    assert_eq!(kinds, ItemKind::ALL);
    let all: Vec<Acceptance> = pin_store.held().iter().map(acceptance).collect();
    accept(&mut pin_store, &all);
    assert_eq!(pin_store.sift(manifest("1")).await.unwrap(), manifest("1"));
}

#[tokio::test]
async fn lists_that_are_late_are_trusted_when_they_first_come() {
    let place = Installation::default();
    let id = SourceId::new("s").unwrap();
    let manifest = |pending: bool, prompts: &[&str], names: &[&str]| {
        let names: Vec<(&str, &str)> = names.iter().map(|name| (*name, "1")).collect();
        let source = FakeSource::new("s", tools(&names), |_, _| Ok(ToolOutput::text("")));
        let mut manifest = source.describe();
        manifest.offer.pending = pending;
        manifest.offer.prompts = prompts.iter().map(|name| json!({ "name": name })).collect();
        manifest
    };
    let mut pin_store = PinStore::new(id.clone(), Trust::Pin, "x", place.pins());
    let early = manifest(true, &[], &["a"]);
    assert_eq!(pin_store.sift(early.clone()).await.unwrap(), early);
    // A restart in between changes nothing.
    let mut pin_store = PinStore::new(id, Trust::Pin, "x", place.pins());
    let sifted = pin_store.sift(manifest(false, &["p"], &["a", "b"])).await.unwrap();
    assert_eq!(sifted.offer.prompts.len(), 1);
    assert_eq!(sifted.tools.len(), 1, "tools were not late");
    let sifted = pin_store.sift(manifest(false, &["p", "q"], &["a"])).await.unwrap();
    assert_eq!(sifted.offer.prompts.len(), 1, "what comes after that is new");
}

#[test]
fn a_record_from_before_instructions_trusts_the_first_ones() {
    let mut old: Record = serde_json::from_value(json!({ "identity": "x" })).unwrap();
    let body = json!({ "instructions": "1" });
    let told = Definition {
        kind: ItemKind::Instructions,
        name: "s".into(),
        hash: "h".into(),
        body,
        is_foreign: true,
    };
    assert!(old.pin_late(std::slice::from_ref(&told), &Offer::default(), 1));
    assert!(old.pin_of(ItemKind::Instructions, "s").is_some());
    assert!(!old.pin_late(&[told], &Offer::default(), 2));
    let mut new: Record = serde_json::from_value(serde_json::to_value(&old).unwrap()).unwrap();
    assert!(!new.pin_late(&[], &Offer::default(), 3), "once");
}

#[tokio::test]
async fn operations_that_come_later_wait_and_those_from_before_stay() {
    use Operation::{Complete, GetPrompt, ReadResource};
    let place = Installation::default();
    let manifest = |offered: &[Operation]| {
        let source = FakeSource::new("s", tools(&[("a", "1")]), |_, _| Ok(ToolOutput::text("")));
        let mut manifest = source.describe();
        manifest.offer.resources = vec![json!({ "uri": "x://1" })];
        manifest.offer.operations = operations(offered.iter().copied());
        manifest
    };
    let bare = || {
        let mut manifest = manifest(&[]);
        manifest.offer = Offer::default();
        manifest
    };
    let mut pin_store = PinStore::new(SourceId::new("s").unwrap(), Trust::Pin, "x", place.pins());
    assert_eq!(pin_store.sift(bare()).await.unwrap(), bare());
    let sifted = pin_store.sift(manifest(&[ReadResource])).await.unwrap();
    assert_eq!(sifted, bare(), "resources came later");
    let [held] = pin_store.held() else { panic!("{:?}", pin_store.held()) };
    assert_eq!((held.kind, held.reason), (ItemKind::Server, New));
    let seen = acceptance(held);
    accept(&mut pin_store, &[seen]);
    assert_eq!(pin_store.sift(manifest(&[ReadResource])).await.unwrap(), manifest(&[ReadResource]));
    let sifted = pin_store.sift(manifest(&[ReadResource, GetPrompt, Complete])).await.unwrap();
    assert_eq!(sifted, manifest(&[ReadResource]), "only what is new waits");
    assert_eq!(pin_store.held()[0].reason, Changed);
    let seen = acceptance(&pin_store.held()[0]);
    accept(&mut pin_store, &[seen]);
    for fewer in [vec![GetPrompt], vec![ReadResource, Complete]] {
        assert_eq!(pin_store.sift(manifest(&fewer)).await.unwrap(), manifest(&fewer));
        assert!(pin_store.held().is_empty(), "doing less needs no consent");
    }
}
