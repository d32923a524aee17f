//! Sources that fail, change and go. Time is paused: nothing here waits for real.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;

use super::supervised::{FIRST_RETRY, LAST_RETRY, MANIFEST_TIME, REFRESH_PAUSE};
use super::*;
use crate::model::{McpManifest, McpToolSpec, ToolOutput};
use crate::registry::{Naming, Registration, Trust};
use crate::source::{CallContext, PermittedCall, SourceError};
use crate::testing::{FakeSource, TestClock, TestStore, acts, tool};

/// What a source does when it is asked.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Works,
    Fails,
    Hangs,
    Panics,
    Lies,
}

struct Moody {
    id: SourceId,
    mood: Mutex<Mood>,
    tools: Mutex<Vec<McpToolSpec>>,
    changes: watch::Sender<u64>,
    asked: AtomicUsize,
    asked_at: Mutex<Vec<Instant>>,
    closed: AtomicBool,
}

impl Moody {
    fn new(id: &str, mood: Mood, tools: &[&str]) -> Arc<Self> {
        Arc::new(Self {
            id: SourceId::new(id).unwrap(),
            mood: Mutex::new(mood),
            tools: Mutex::new(plain(tools)),
            changes: watch::Sender::new(0),
            asked: AtomicUsize::new(0),
            asked_at: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    fn become_(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    fn announce(&self, tools: &[&str]) {
        *self.tools.lock() = plain(tools);
        self.changes.send_modify(|count| *count += 1);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn manifest_now(&self, server_id: SourceId) -> McpManifest {
        let tools = self.tools.lock().clone();
        McpManifest {
            server_id,
            name: "moody".to_owned(),
            version: "1".to_owned(),
            description: None,
            tools,
            offer: crate::model::Offer::default(),
        }
    }
}

fn plain(names: &[&str]) -> Vec<McpToolSpec> {
    names.iter().map(|name| tool(name, &Value::Null)).collect()
}

#[async_trait]
impl ToolSource for Moody {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.asked_at.lock().push(Instant::now());
        let mood = *self.mood.lock();
        match mood {
            Mood::Works => Ok(self.manifest_now(self.id.clone())),
            Mood::Fails => Err(SourceError::unreachable("no answer")),
            Mood::Hangs => std::future::pending().await,
            Mood::Panics => panic!("a source that panics"),
            Mood::Lies => Ok(self.manifest_now(SourceId::new("other").unwrap())),
        }
    }

    async fn call(&self, _: PermittedCall, _: &CallContext) -> Result<ToolOutput, SourceError> {
        Ok(ToolOutput::text("ok"))
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.changes.subscribe())
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

struct Fixture {
    registry: Arc<Registry>,
    supervisor: Arc<SourceSupervisor>,
}

fn fixture() -> Fixture {
    let registry = Arc::new(Registry::default());
    let store = Arc::new(TestStore::default());
    let pins = Pins {
        documents: store.clone(),
        audit: store.clone(),
        acts: acts(store.clone(), store),
        clock: Arc::new(TestClock::default()),
    };
    Fixture { supervisor: Arc::new(SourceSupervisor::new(Arc::clone(&registry), pins)), registry }
}

impl Fixture {
    fn add(&self, source: &Arc<Moody>) {
        let terms = SourceTerms { trust: Trust::Follow, ..SourceTerms::default() };
        self.supervisor.add(source.clone(), terms, Origin::Discovered).unwrap();
    }

    fn states(&self) -> BTreeMap<String, SourceState> {
        self.supervisor
            .status()
            .into_iter()
            .map(|status| (status.id.to_string(), status.state))
            .collect()
    }

    fn status(&self, id: &str) -> SourceStatus {
        self.supervisor.status().into_iter().find(|status| status.id.as_str() == id).unwrap()
    }

    fn listed(&self) -> Vec<String> {
        self.registry.snapshot().available().map(|entry| entry.id.to_string()).collect()
    }

    /// Waits until something is so; the paused clock moves on by itself.
    async fn until(&self, what: &str, so: impl Fn() -> bool) {
        for _ in 0..10_000 {
            if so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("it never came: {what}; {:?}", self.states());
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_harms_no_other() {
    for bad in [Mood::Fails, Mood::Hangs, Mood::Panics] {
        let fixture = fixture();
        let (good, sick) =
            (Moody::new("good", Mood::Works, &["a"]), Moody::new("sick", bad, &["b"]));
        fixture.add(&sick);
        fixture.add(&good);
        fixture.supervisor.settle(MANIFEST_TIME * 2).await;
        assert_eq!(fixture.states()["good"], SourceState::Ready);
        assert_eq!(fixture.states()["sick"], SourceState::Failed);
        assert_eq!(fixture.listed(), ["good:a"]);
        let status = fixture.status("sick");
        assert!(status.failures >= 1 && status.problem.is_some(), "{status:?}");
        sick.become_(Mood::Works);
        fixture.until("it recovers", || fixture.states()["sick"] == SourceState::Ready).await;
        assert_eq!(fixture.listed(), ["good:a", "sick:b"]);
        let status = fixture.status("sick");
        assert_eq!((status.failures, status.problem), (0, None));
        assert_eq!(good.asked(), 1, "the good one was left alone");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_grow_apart_and_never_stop() {
    let fixture = fixture();
    let sick = Moody::new("sick", Mood::Fails, &[]);
    fixture.add(&sick);
    fixture.until("many tries", || sick.asked() >= 12).await;
    let times = sick.asked_at.lock().clone();
    let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses[0], FIRST_RETRY);
    assert_eq!(pauses[1], FIRST_RETRY * 2);
    assert!(pauses.windows(2).all(|pair| pair[1] >= pair[0]), "{pauses:?}");
    assert_eq!(*pauses.last().unwrap(), LAST_RETRY);
}

#[tokio::test(start_paused = true)]
async fn tools_leave_the_list_while_their_source_is_gone() {
    let fixture = fixture();
    let source = Moody::new("s", Mood::Works, &["a"]);
    fixture.add(&source);
    fixture.until("ready", || fixture.listed() == ["s:a"]).await;
    source.become_(Mood::Fails);
    source.announce(&["a"]);
    fixture.until("gone", || fixture.listed().is_empty()).await;
    assert_eq!(fixture.registry.snapshot().entries().count(), 1, "known, but not listed");
    source.become_(Mood::Works);
    fixture.until("back", || fixture.listed() == ["s:a"]).await;
}

#[tokio::test(start_paused = true)]
async fn other_terms_touch_neither_the_source_nor_its_tools_names_in_vain() {
    let fixture = fixture();
    let source = Moody::new("s", Mood::Works, &["a", "b"]);
    fixture.add(&source);
    fixture.until("ready", || fixture.listed() == ["s:a", "s:b"]).await;
    let seconds = |seconds| crate::registry::Limits {
        timeout: Duration::from_secs(seconds),
        ..crate::registry::Limits::default()
    };
    let revision = fixture.registry.snapshot().revision();
    let follow = SourceTerms { trust: Trust::Follow, ..SourceTerms::default() };
    let terms = SourceTerms { limits: seconds(7), ..follow.clone() };
    assert!(fixture.supervisor.set_terms(&source.id, terms).await);
    let snapshot = fixture.registry.snapshot();
    assert!(snapshot.entries().all(|entry| entry.limits.timeout == Duration::from_secs(7)));
    assert_eq!(snapshot.revision(), revision, "callers see the same tools");

    // Its names are another's: under these terms it has no tools, and not those of the earlier ones.
    let other = Moody::new("other", Mood::Works, &["a"]);
    let flat = || SourceTerms { naming: Naming::Flat, ..follow.clone() };
    fixture.supervisor.add(other, flat(), Origin::Discovered).unwrap();
    fixture.until("the other", || fixture.listed().contains(&"other:a".to_owned())).await;
    fixture.supervisor.set_terms(&source.id, flat()).await;
    assert_eq!(fixture.states()["s"], SourceState::Refused);
    assert_eq!(fixture.listed(), ["other:a"]);
    fixture.supervisor.set_terms(&source.id, follow.clone()).await;
    assert_eq!(fixture.listed(), ["other:a", "s:a", "s:b"]);
    assert_eq!((source.asked(), source.closed.load(Ordering::SeqCst)), (1, false));

    // One that is down comes back under the terms of then.
    source.become_(Mood::Fails);
    source.announce(&["a"]);
    fixture.until("down", || fixture.states()["s"] == SourceState::Failed).await;
    fixture
        .supervisor
        .set_terms(&source.id, SourceTerms { limits: seconds(9), ..follow.clone() })
        .await;
    assert_eq!(fixture.listed(), ["other:a"]);
    source.become_(Mood::Works);
    fixture.until("back", || fixture.states()["s"] == SourceState::Ready).await;
    let snapshot = fixture.registry.snapshot();
    let own = snapshot.entries().find(|entry| entry.id.source().as_str() == "s").unwrap();
    assert_eq!(own.limits.timeout, Duration::from_secs(9));
    assert!(!fixture.supervisor.set_terms(&SourceId::new("none").unwrap(), flat()).await);
}

#[tokio::test(start_paused = true)]
async fn changed_tools_are_picked_up() {
    let fixture = fixture();
    let source = Moody::new("s", Mood::Works, &["a"]);
    fixture.add(&source);
    fixture.until("ready", || fixture.listed() == ["s:a"]).await;
    source.announce(&["a", "b"]);
    fixture.until("two", || fixture.listed() == ["s:a", "s:b"]).await;
    assert_eq!(fixture.status("s").tools, 2);
    source.announce(&["b", "b"]);
    fixture.until("one", || fixture.listed() == ["s:b"]).await;
    assert_eq!(fixture.status("s").left_out.len(), 1);
    assert_eq!(fixture.status("s").tools, 1);
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_changes_is_one_question_a_second() {
    let fixture = fixture();
    let source = Moody::new("s", Mood::Works, &["a"]);
    fixture.add(&source);
    for _ in 0..5_000 {
        source.announce(&["a"]);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(source.asked() <= 7, "{} questions in five seconds", source.asked());
    assert!(source.asked() >= 4);
    let times = source.asked_at.lock().clone();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= REFRESH_PAUSE), "{times:?}");
    source.announce(&["last"]);
    fixture.until("the last word counts", || fixture.listed() == ["s:last"]).await;
}

#[tokio::test(start_paused = true)]
async fn removing_closes_and_is_final() {
    let fixture = fixture();
    let source = Moody::new("s", Mood::Works, &["a"]);
    fixture.add(&source);
    fixture.supervisor.settle(Duration::from_secs(5)).await;
    let twice = fixture.supervisor.add(source.clone(), SourceTerms::default(), Origin::Discovered);
    assert!(matches!(twice, Err(RegistrationError::SourceTaken(_))));
    fixture.supervisor.remove(source.id()).await;
    assert!(source.closed.load(Ordering::SeqCst));
    assert!(fixture.listed().is_empty() && fixture.supervisor.ids().is_empty());
    let asked = source.asked();
    source.announce(&["b"]);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(source.asked(), asked, "nobody asks any more");
    assert!(fixture.registry.snapshot().entries().next().is_none());
    fixture.supervisor.remove(source.id()).await;
    fixture.add(&source);
    fixture.until("it may come again", || fixture.listed() == ["s:b"]).await;
}

#[tokio::test(start_paused = true)]
async fn closing_ends_all() {
    let fixture = fixture();
    let sources = [
        Moody::new("a", Mood::Works, &["x"]),
        Moody::new("b", Mood::Hangs, &[]),
        Moody::new("c", Mood::Fails, &[]),
    ];
    for source in &sources {
        fixture.add(source);
    }
    fixture.supervisor.settle(Duration::from_secs(1)).await;
    fixture.supervisor.close().await;
    assert!(sources.iter().all(|source| source.closed.load(Ordering::SeqCst)));
    assert!(fixture.supervisor.ids().is_empty());
}

#[tokio::test(start_paused = true)]
async fn settle_returns_at_once_when_all_were_tried_and_at_its_limit_otherwise() {
    let fixture = fixture();
    fixture.supervisor.settle(Duration::from_hours(1)).await;
    let began = Instant::now();
    fixture.add(&Moody::new("a", Mood::Works, &["x"]));
    fixture.add(&Moody::new("b", Mood::Fails, &[]));
    fixture.supervisor.settle(Duration::from_hours(1)).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    fixture.add(&Moody::new("slow", Mood::Hangs, &[]));
    fixture.supervisor.settle(Duration::from_secs(2)).await;
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    assert_eq!(fixture.states()["slow"], SourceState::Starting);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_can_not_be_registered_is_refused_and_says_why() {
    let fixture = fixture();
    let flat =
        || SourceTerms { naming: Naming::Flat, trust: Trust::Follow, ..SourceTerms::default() };
    let first = Moody::new("first", Mood::Works, &["same"]);
    let registration = Registration {
        manifest: first.manifest_now(first.id.clone()),
        terms: flat(),
        origin: Origin::Declared,
        source: first,
    };
    fixture.registry.replace(registration).unwrap();
    let second = Moody::new("second", Mood::Works, &["same", "other"]);
    fixture.supervisor.add(second.clone(), flat(), Origin::Discovered).unwrap();
    let liar = Moody::new("liar", Mood::Lies, &["x"]);
    fixture.add(&liar);
    fixture.supervisor.settle(Duration::from_secs(5)).await;
    for (id, hint) in [("second", "`first:same` holds"), ("liar", "names `other`")] {
        let status = fixture.status(id);
        assert_eq!(status.state, SourceState::Refused);
        assert!(status.problem.as_deref().unwrap().contains(hint), "{status:?}");
    }
    assert_eq!(fixture.listed(), ["first:same"]);
    second.announce(&["other"]);
    fixture.until("a change may help", || fixture.states()["second"] == SourceState::Ready).await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_even_be_made_is_shown_too() {
    let fixture = fixture();
    let id = SourceId::new("b").unwrap();
    fixture.supervisor.report_unusable(&id, &[], "no such command".to_owned());
    fixture.add(&Moody::new("a", Mood::Works, &[]));
    fixture.supervisor.settle(Duration::from_secs(1)).await;
    assert_eq!(fixture.status("b").problem.as_deref(), Some("no such command"));
    assert_eq!(fixture.states().keys().collect::<Vec<_>>(), ["a", "b"]);
    fixture.add(&Moody::new("b", Mood::Works, &[]));
    fixture.supervisor.settle(Duration::from_secs(1)).await;
    assert_eq!(fixture.states()["b"], SourceState::Ready);
}

fn flat() -> SourceTerms {
    SourceTerms { naming: Naming::Flat, ..SourceTerms::default() }
}

impl Fixture {
    async fn admit(&self, source: &Arc<Moody>) -> Result<(), RegistrationError> {
        let manifest = source.manifest_now(source.id.clone());
        self.supervisor.admit(source.clone(), manifest, flat()).await.map(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_by_itself_is_registered_whole_or_not_at_all() {
    let fixture = fixture();
    let first = Moody::new("first", Mood::Works, &["a", "b"]);
    fixture.admit(&first).await.unwrap();
    assert_eq!(fixture.listed(), ["first:a", "first:b"]);
    let second = Moody::new("second", Mood::Works, &["a", "bad name", "c"]);
    let manifest = second.manifest_now(second.id.clone());
    let examined =
        fixture.supervisor.check_admission(second.clone(), manifest, flat()).unwrap_err();
    let error = fixture.admit(&second).await.unwrap_err().to_string();
    assert_eq!(examined.to_string(), error);
    for part in ["`bad name`", "`second:a` wants the name `a`, which `first:a` holds"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(fixture.listed(), ["first:a", "first:b"]);
    assert!(!fixture.states().contains_key("second"));
    let third = Moody::new("third", Mood::Works, &["c"]);
    let manifest = third.manifest_now(third.id.clone());
    fixture.supervisor.check_admission(third, manifest, flat()).unwrap();
    assert_eq!(fixture.listed(), ["first:a", "first:b"], "to examine is not to admit");
}

#[tokio::test(start_paused = true)]
async fn what_the_program_declares_counts_like_configuration() {
    let fixture = fixture();
    let said = serde_json::json!({ "policyAction": "file.read" });
    for (id, is_declared) in [("own", true), ("guest", false)] {
        let spec = tool(id, &said);
        let source = FakeSource::new(id, vec![spec], |_, _| unreachable!());
        let manifest = source.describe();
        let supervisor = &fixture.supervisor;
        let done = if is_declared {
            supervisor.declare(source, manifest, flat()).await
        } else {
            supervisor.admit(source, manifest, flat()).await
        };
        done.unwrap();
        let snapshot = supervisor.registry().snapshot();
        let entry = snapshot.entries().find(|entry| entry.id.source().as_str() == id).unwrap();
        let action = Some("file.read".to_owned());
        let (counts, claimed) = if is_declared { (action, None) } else { (None, action) };
        assert_eq!((&entry.action, &entry.claimed), (&counts, &claimed), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_again_replaces_what_was_there_and_outlives_its_end() {
    let fixture = fixture();
    let old = Moody::new("pack", Mood::Works, &["a"]);
    fixture.admit(&old).await.unwrap();
    let new = Moody::new("pack", Mood::Works, &["b"]);
    fixture.admit(&new).await.unwrap();
    assert!(old.closed.load(Ordering::SeqCst) && !new.closed.load(Ordering::SeqCst));
    let late: Arc<dyn ToolSource> = old;
    fixture.supervisor.mark_away(&late);
    assert!(!fixture.supervisor.remove_admitted(&late).await, "its end is no news any more");
    assert_eq!(fixture.listed(), ["pack:b"]);
    assert_eq!(fixture.states()["pack"], SourceState::Ready);
}

#[tokio::test(start_paused = true)]
async fn what_is_away_is_listed_and_what_is_dismissed_is_not() {
    let fixture = fixture();
    let pack = Moody::new("pack", Mood::Works, &["a"]);
    fixture.admit(&pack).await.unwrap();
    let source: Arc<dyn ToolSource> = pack.clone();
    fixture.supervisor.mark_away(&source);
    assert_eq!((fixture.states()["pack"], fixture.listed().len()), (SourceState::Away, 1));
    assert!(fixture.supervisor.remove_admitted(&source).await);
    assert!(pack.closed.load(Ordering::SeqCst));
    assert_eq!(fixture.listed(), [""; 0]);
    let known = fixture.registry.snapshot().entries().count();
    assert_eq!(known, 1, "a call by name is answered as unavailable");
    // Somebody else takes the name; then the first is refused.
    fixture.admit(&Moody::new("other", Mood::Works, &["a"])).await.unwrap();
    assert_eq!(fixture.listed(), ["other:a"]);
    assert!(fixture.admit(&pack).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_configured_can_not_be_replaced_by_what_comes() {
    let fixture = fixture();
    fixture.add(&Moody::new("server", Mood::Works, &["a"]));
    fixture.supervisor.settle(Duration::from_secs(1)).await;
    let guest = Moody::new("server", Mood::Works, &["b"]);
    let refused = fixture.admit(&guest).await;
    assert!(matches!(refused, Err(RegistrationError::SourceTaken(_))), "{refused:?}");
    let manifest = guest.manifest_now(guest.id.clone());
    let examined = fixture.supervisor.check_admission(guest.clone(), manifest, flat());
    assert!(matches!(examined, Err(RegistrationError::SourceTaken(_))), "{examined:?}");
    let source: Arc<dyn ToolSource> = guest;
    assert!(!fixture.supervisor.remove_admitted(&source).await);
    assert_eq!(fixture.states()["server"], SourceState::Ready);
}

#[tokio::test(start_paused = true)]
async fn what_comes_by_itself_may_tighten_and_not_loosen() {
    let fixture = fixture();
    let pack = Moody::new("pack", Mood::Works, &["wipe"]);
    let said = serde_json::json!({ "policyAction": "file.read", "requiredScopes": ["disk"] });
    pack.tools.lock()[0].annotations = Some(serde_json::from_value(said).unwrap());
    fixture.admit(&pack).await.unwrap();
    let snapshot = fixture.registry.snapshot();
    let entry = snapshot.entries().next().unwrap();
    assert_eq!((entry.action.as_deref(), entry.claimed.as_deref()), (None, Some("file.read")));
    let requires: Vec<&str> = entry.requires.iter().map(crate::model::Capability::as_str).collect();
    assert_eq!(requires, ["disk", "file.read"]);
}

#[path = "reserved_tests.rs"]
mod reserved;
