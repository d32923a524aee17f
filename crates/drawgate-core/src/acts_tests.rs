//! The order of an act, and what a store or a log that fails leaves behind.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::*;
use crate::model::{Capability, CapabilityGrant};
use crate::testing::{TestStore, acts};

fn grant() -> CapabilityGrant {
    CapabilityGrant {
        grant_id: "g".into(),
        capability: Capability::new("x").unwrap(),
        issued_at: 0,
        expires_at: None,
        scope: None,
        approval_id: None,
    }
}

fn outcome() -> EventDraft {
    EventDraft::new(EventKind::GrantIssued, 5).texts("grantIds", ["g"])
}

/// What files say.
struct Said(Option<bool>);

#[async_trait]
impl Files for Said {
    async fn have(&self, _: &EventDraft) -> Option<bool> {
        self.0
    }
}

struct World {
    store: Arc<TestStore>,
    acts: Acts,
    /// Whether memory was changed.
    memory: Arc<AtomicBool>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(TestStore::default());
        let acts = acts(store.clone(), store.clone());
        Self { store, acts, memory: Arc::default() }
    }

    /// Issues the grant; `in_memory` runs as the change of memory.
    async fn issue(&self, in_memory: impl Fn() + Send + 'static) -> Result<(), ActError> {
        let memory = Arc::clone(&self.memory);
        let change = async move {
            in_memory();
            memory.store(true, Ordering::SeqCst);
        };
        self.acts.turn().await.act(vec![outcome()], vec![Write::PutGrant(grant())], change).await
    }

    /// The kinds of all events; each is of the same act.
    fn log(&self) -> Vec<String> {
        let events: Vec<Value> = self
            .store
            .events()
            .iter()
            .map(|event| serde_json::from_str(&event.body).unwrap())
            .collect();
        for event in &events {
            assert_eq!(event["actId"], events[0]["actId"], "{event}");
            assert_eq!(event["grantIds"][0], "g", "{event}");
        }
        let late = |event: &Value| if event["late"] == true { " late" } else { "" };
        let kind = |event: &Value| event["kind"].as_str().unwrap().to_owned() + late(event);
        events.iter().map(kind).collect()
    }

    async fn settle(&self, files: Option<bool>) {
        self.acts.settle(&Said(files)).await.unwrap();
    }

    /// Whether store and memory have the change, and how much is owed.
    async fn state(&self) -> (bool, bool, usize) {
        self.store.break_state(false);
        let stored = !self.store.grants().await.unwrap().is_empty();
        let owed = self.store.owed().await.unwrap().len();
        (stored, self.memory.load(Ordering::SeqCst), owed)
    }
}

#[tokio::test]
async fn intent_store_memory_outcome() {
    let world = World::new();
    let seen = world.store.clone();
    world
        .issue(move || {
            // Memory changes between the intent and the outcome.
            assert_eq!(seen.events().len(), 1);
        })
        .await
        .unwrap();
    assert_eq!(world.state().await, (true, true, 0));
    assert_eq!(world.log(), ["act_started", "grant_issued"]);
}

#[tokio::test]
async fn an_act_whose_intent_can_not_be_written_is_not_begun() {
    let world = World::new();
    world.store.break_log(true);
    assert!(matches!(world.issue(|| ()).await, Err(ActError::Unlogged(_))));
    assert_eq!(world.state().await, (false, false, 0));
}

#[tokio::test]
async fn a_store_that_fails_leaves_everything_as_it_was_and_the_log_says_so() {
    let world = World::new();
    world.store.break_state(true);
    assert!(matches!(world.issue(|| ()).await, Err(ActError::Store(_))));
    assert_eq!(world.state().await, (false, false, 0));
    assert_eq!(world.log(), ["act_started", "act_failed"]);
    let failed = world.store.events().pop().unwrap().body;
    assert!(failed.contains(r#""act":"grant_issued""#) && failed.contains("broken"), "{failed}");
}

#[tokio::test]
async fn an_outcome_that_can_not_be_written_is_owed_and_written_once() {
    let world = World::new();
    let breaking = world.store.clone();
    world.issue(move || breaking.break_log(true)).await.unwrap();
    assert_eq!(world.state().await, (true, true, 1), "the act is done");
    world.store.break_log(false);
    let owed = world.store.owed().await.unwrap();
    world.settle(None).await;
    assert_eq!(world.log(), ["act_started", "grant_issued late"]);
    assert_eq!(world.state().await, (true, true, 0));
    // Killed after the outcome was written and before it was struck out.
    world.store.commit(owed.into_iter().map(Write::Owe).collect()).await.unwrap();
    world.settle(None).await;
    assert_eq!(world.log().len(), 2, "not a second time");
    assert_eq!(world.state().await, (true, true, 0));
}

#[tokio::test]
async fn of_files_the_log_says_what_the_files_say() {
    let no = || Err("it broke".to_owned());
    // What the work reports, what the files say; how it is answered, how the log ends, what is owed.
    let rows = [
        (Ok(()), None, "", "grant_issued", 0),
        (no(), Some(true), "", "grant_issued", 0),
        (no(), Some(false), "it broke", "act_failed", 0),
        (no(), None, "it broke; it has begun", "act_started", 1),
    ];
    for (work, files, answer, end, owed) in rows {
        let world = World::new();
        let done = world.acts.turn().await;
        let done = done.act_on_files(vec![outcome()], Arc::new(Said(files)), async { work }).await;
        let said = done.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.starts_with(answer) && said.is_empty() == answer.is_empty(), "{said}");
        assert_eq!(world.log().last().unwrap(), end);
        assert_eq!(world.state().await.2, owed);
    }
    // What could not be told is told later.
    for (files, end) in [(Some(true), "grant_issued late"), (Some(false), "act_failed late")] {
        let world = World::new();
        let turn = world.acts.turn().await;
        let work = async { Err("it broke".to_owned()) };
        turn.act_on_files(vec![outcome()], Arc::new(Said(None)), work).await.unwrap_err();
        world.settle(None).await;
        assert_eq!(world.log(), ["act_started"]);
        world.settle(files).await;
        assert_eq!(world.log(), ["act_started", end]);
        assert_eq!(world.state().await.2, 0);
    }
}

#[tokio::test]
async fn files_are_not_touched_before_the_store_knows() {
    let world = World::new();
    world.store.break_state(true);
    let turn = world.acts.turn().await;
    let work = async { panic!("the files were touched") };
    let done = turn.act_on_files(vec![outcome()], Arc::new(Said(None)), work).await;
    assert!(matches!(done, Err(ActError::Store(_))));
    assert_eq!(world.log(), ["act_started", "act_failed"]);
}
