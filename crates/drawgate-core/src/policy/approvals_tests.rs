//! The book of approvals by itself; how calls wait for it is tested with the pipeline.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use super::*;
use crate::model::SourceId;
use crate::testing::{Operation, TestClock, TestIds, TestStore};

const EXPIRE: Duration = Duration::from_mins(5);

struct Fixture {
    approvals: Arc<Approvals>,
    store: Arc<TestStore>,
    clock: Arc<TestClock>,
}

async fn fixture() -> Fixture {
    let (store, clock) = (Arc::new(TestStore::default()), Arc::new(TestClock::default()));
    let approvals =
        Approvals::load(store.clone(), clock.clone(), Arc::new(TestIds::default()), [7; 32]);
    Fixture { approvals: Arc::new(approvals.await.unwrap()), store, clock }
}

fn tool(text: &str) -> ToolId {
    let (source, name) = text.split_once(':').unwrap();
    ToolId::new(&SourceId::new(source).unwrap(), name).unwrap()
}

impl Fixture {
    fn bind(&self, what: &str) -> Binding {
        self.approvals.bind(&tool("a:b"), "def", &Principal::new("ann").unwrap(), what.as_bytes())
    }

    fn ticket(&self, who: &str, what: &str) -> ApprovalTicket {
        ApprovalTicket {
            tool_id: tool("a:b"),
            principal: Principal::new(who).unwrap(),
            binding: self.bind(&format!("{who} {what}")),
            arguments: json!({ "what": what }),
            reason: "a test".to_owned(),
            risk_tags: vec![RiskTag::Delete],
        }
    }

    /// Decides as an operator's act does: the store first.
    async fn decide(&self, id: &str, answer: ApprovalState) -> Result<Approval, ApprovalError> {
        let decided = self.approvals.decided(id, answer)?;
        let write = Write::SettleApproval { from: ApprovalState::Pending, to: decided.clone() };
        self.store.commit(vec![write]).await?;
        self.approvals.settle(decided.clone());
        Ok(decided)
    }

    async fn ask(&self, what: &str) -> Approval {
        self.approvals.ask(self.ticket("ann", what), EXPIRE).await.unwrap()
    }

    fn found(&self, what: &str) -> Option<ApprovalState> {
        self.approvals.find(&self.bind(&format!("ann {what}"))).map(|approval| approval.state)
    }

    async fn reloaded(&self) -> Approvals {
        let ids = Arc::new(TestIds::default());
        Approvals::load(self.store.clone(), self.clock.clone(), ids, [7; 32]).await.unwrap()
    }
}

#[tokio::test]
async fn a_binding_is_of_every_part_and_of_the_key() {
    let fixture = fixture().await;
    let (ann, bob) = (Principal::new("ann").unwrap(), Principal::new("bob").unwrap());
    let other_key = Approvals::load(
        fixture.store.clone(),
        fixture.clock.clone(),
        Arc::new(TestIds::default()),
        [8; 32],
    );
    let bind = |tool_id: &str, definition: &str, caller: &Principal, arguments: &str| {
        fixture.approvals.bind(&tool(tool_id), definition, caller, arguments.as_bytes())
    };
    let all = [
        bind("a:b", "def", &ann, "{}"),
        bind("a:c", "def", &ann, "{}"),
        bind("a:b", "deg", &ann, "{}"),
        bind("a:b", "def", &bob, "{}"),
        bind("a:b", "def", &ann, "{\"x\":1}"),
        // The same bytes, cut in other places.
        bind("a:bd", "ef", &ann, "{}"),
        bind("a:b", "defann", &Principal::new("a").unwrap(), "{}"),
        other_key.await.unwrap().bind(&tool("a:b"), "def", &ann, b"{}"),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(all.iter().skip(at + 1).all(|other| one != other), "{at}");
    }
    assert_eq!(all[0], bind("a:b", "def", &ann, "{}"), "the same is the same");
}

/// What happens to an approval, step by step, and what stands afterwards.
#[tokio::test]
async fn states() {
    use ApprovalState::{Approved, Denied, Expired, Pending, Used};
    enum Step {
        Decide(ApprovalState, Result<(), ApprovalState>),
        Consume(Result<(), ApprovalState>),
        Wait(u64),
    }
    use Step::{Consume, Decide, Wait};
    let end = 300_000;
    let cases: Vec<(&str, Vec<Step>, Option<ApprovalState>)> = vec![
        ("asked", vec![], Some(Pending)),
        ("approved", vec![Decide(Approved, Ok(()))], Some(Approved)),
        ("denied", vec![Decide(Denied, Ok(()))], Some(Denied)),
        ("used once", vec![Decide(Approved, Ok(())), Consume(Ok(())), Consume(Err(Used))], None),
        ("not without a yes", vec![Consume(Err(Pending))], Some(Pending)),
        ("not against a no", vec![Decide(Denied, Ok(())), Consume(Err(Denied))], Some(Denied)),
        (
            "decided twice",
            vec![Decide(Approved, Ok(())), Decide(Denied, Err(Approved))],
            Some(Approved),
        ),
        ("no means no", vec![Decide(Denied, Ok(())), Decide(Approved, Err(Denied))], Some(Denied)),
        (
            "used, then denied",
            vec![Decide(Approved, Ok(())), Consume(Ok(())), Decide(Denied, Err(Used))],
            None,
        ),
        ("just in time", vec![Wait(end - 1), Decide(Approved, Ok(()))], Some(Approved)),
        ("too late to decide", vec![Wait(end), Decide(Approved, Err(Expired))], None),
        ("too late to use", vec![Decide(Approved, Ok(())), Wait(end), Consume(Err(Expired))], None),
        ("denied until the end", vec![Decide(Denied, Ok(())), Wait(end - 1)], Some(Denied)),
        ("and no longer", vec![Decide(Denied, Ok(())), Wait(end)], None),
    ];
    for (name, steps, standing) in cases {
        let fixture = fixture().await;
        let id = fixture.ask("x").await.id;
        for step in steps {
            let (result, expected) = match step {
                Wait(ms) => {
                    fixture.clock.advance(ms);
                    continue;
                }
                Decide(answer, expected) => (fixture.decide(&id, answer).await, expected),
                Consume(expected) => (fixture.approvals.consume(&id).await, expected),
            };
            let got = result.map(drop).map_err(|error| match error {
                ApprovalError::Settled { state, .. } => state,
                other => panic!("{name}: {other}"),
            });
            assert_eq!(got, expected, "{name}");
        }
        assert_eq!(fixture.found("x"), standing, "{name}");
        let reloaded = fixture.reloaded().await;
        let stored = reloaded.find(&fixture.bind("ann x")).map(|approval| approval.state);
        assert_eq!(stored, standing, "{name}, after a restart");
    }
}

#[tokio::test]
async fn unknown_ids_are_unknown() {
    let fixture = fixture().await;
    let decided = fixture.decide("nope", ApprovalState::Approved).await;
    assert!(matches!(decided, Err(ApprovalError::Unknown(_))));
    assert!(matches!(fixture.approvals.consume("nope").await, Err(ApprovalError::Unknown(_))));
}

#[tokio::test]
async fn a_question_that_stands_is_not_asked_twice() {
    let fixture = fixture().await;
    let mut asked = fixture.approvals.subscribe();
    let first = fixture.ask("x").await;
    let again = fixture.ask("x").await;
    assert_eq!(first.id, again.id);
    assert_eq!(asked.recv().await.unwrap().id, first.id);
    assert!(asked.try_recv().is_err(), "one question");
    fixture.decide(&first.id, ApprovalState::Approved).await.unwrap();
    assert_eq!(fixture.ask("x").await.state, ApprovalState::Approved);
    fixture.approvals.consume(&first.id).await.unwrap();
    assert_ne!(fixture.ask("x").await.id, first.id, "a used one is asked anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_thousand_racing_consumers_one_wins() {
    let fixture = fixture().await;
    let id = fixture.ask("x").await.id;
    fixture.decide(&id, ApprovalState::Approved).await.unwrap();
    let won = Arc::new(AtomicUsize::new(0));
    let racers = (0..1000).map(|_| {
        let (approvals, id, won) = (Arc::clone(&fixture.approvals), id.clone(), Arc::clone(&won));
        tokio::spawn(async move {
            if approvals.consume(&id).await.is_ok() {
                won.fetch_add(1, Ordering::SeqCst);
            }
        })
    });
    for racer in racers.collect::<Vec<_>>() {
        racer.await.unwrap();
    }
    assert_eq!(won.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn only_so_many_may_wait() {
    let fixture = fixture().await;
    let ask = |who: String, what: usize| {
        let ticket = fixture.ticket(&who, &what.to_string());
        let approvals = Arc::clone(&fixture.approvals);
        async move { approvals.ask(ticket, EXPIRE).await }
    };
    for what in 0..MAX_PENDING_PER_CALLER {
        ask("ann".to_owned(), what).await.unwrap();
    }
    assert!(matches!(ask("ann".to_owned(), 1000).await, Err(ApprovalError::TooMany(100))));
    let answered = fixture.approvals.list()[0].id.clone();
    fixture.decide(&answered, ApprovalState::Denied).await.unwrap();
    ask("ann".to_owned(), 1001).await.unwrap();
    for caller in 0..9 {
        for what in 0..MAX_PENDING_PER_CALLER {
            ask(format!("c{caller}"), what).await.unwrap();
        }
    }
    assert!(matches!(ask("late".to_owned(), 0).await, Err(ApprovalError::TooMany(MAX_PENDING))));
    fixture.clock.advance(300_000);
    ask("late".to_owned(), 0).await.unwrap();
}

#[tokio::test]
async fn the_old_are_forgotten() {
    let fixture = fixture().await;
    fixture.ask("x").await;
    fixture.clock.advance(300_000 + REMEMBER_MS);
    fixture.ask("y").await;
    assert_eq!(fixture.approvals.list().len(), 2, "remembered for a day");
    assert_eq!(fixture.approvals.list()[0].state, ApprovalState::Expired);
    fixture.clock.advance(1);
    fixture.ask("z").await;
    assert_eq!(fixture.approvals.list().len(), 2);
    assert_eq!(fixture.store.approvals().await.unwrap().len(), 2, "in the store too");
}

#[tokio::test]
async fn the_book_does_not_grow_without_end() {
    let template = fixture().await.ask("x").await;
    let book: BTreeMap<String, Approval> = (0..MAX_REMEMBERED as u64 + 50)
        .map(|at| {
            (
                at.to_string(),
                Approval { id: at.to_string(), expires_at: 1000 + at, ..template.clone() },
            )
        })
        .collect();
    assert!(forgettable(&book, 1000 - 1).is_empty(), "what has not ended is never forgotten");
    let forgotten = forgettable(&book, 1000 + 2 * MAX_REMEMBERED as u64);
    assert_eq!(
        forgotten,
        (0..50).map(|at| at.to_string()).collect::<Vec<_>>(),
        "the oldest go first"
    );
}

#[tokio::test]
async fn a_store_that_fails_lets_nothing_pass() {
    let fixture = fixture().await;
    fixture.store.break_state(true);
    let asked = fixture.approvals.ask(fixture.ticket("ann", "x"), EXPIRE).await;
    assert!(matches!(asked, Err(ApprovalError::Store(_))));
    assert_eq!(fixture.found("x"), None);
    fixture.store.break_state(false);
    let id = fixture.ask("x").await.id;
    fixture.store.break_state(true);
    let decided = fixture.decide(&id, ApprovalState::Approved).await;
    assert!(matches!(decided, Err(ApprovalError::Store(_))));
    assert_eq!(fixture.found("x"), Some(ApprovalState::Pending), "a yes that failed is no yes");
    fixture.store.break_state(false);
    fixture.decide(&id, ApprovalState::Approved).await.unwrap();
    fixture.store.break_state(true);
    assert!(matches!(fixture.approvals.consume(&id).await, Err(ApprovalError::Store(_))));
    fixture.store.break_state(false);
    fixture.approvals.consume(&id).await.unwrap();
    assert!(
        fixture.approvals.consume(&id).await.is_err(),
        "no call used it before, and one has now"
    );
}

#[tokio::test]
async fn ids_can_not_be_guessed_from_each_other_and_lists_are_ordered() {
    let fixture = fixture().await;
    let first = fixture.ask("x").await;
    fixture.clock.advance(1);
    let second = fixture.ask("y").await;
    let list: Vec<String> =
        fixture.approvals.list().into_iter().map(|approval| approval.id).collect();
    assert_eq!(list, [first.id, second.id]);
    assert!(list.iter().all(|id| id.len() == ID_LENGTH));
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_store_and_book_agreeing() {
    // Writes wait until the test lets them go on.
    let (writing, go_on) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let store = Arc::new(TestStore::default());
    let (reached, permits) = (writing.clone(), go_on.clone());
    store.faults().before(move |operation| {
        let (reached, permits) = (reached.clone(), permits.clone());
        async move {
            if operation == Operation::Commit {
                reached.notify_one();
                permits.acquire().await.unwrap().forget();
            }
            Ok(())
        }
    });
    let (clock, ids) = (Arc::new(TestClock::default()), Arc::new(TestIds::default()));
    let approvals = Approvals::load(store.clone(), clock, ids, [7; 32]).await.unwrap();
    let binding = approvals.bind(&tool("a:b"), "def", &Principal::local(), b"{}");
    let ticket = ApprovalTicket {
        tool_id: tool("a:b"),
        principal: Principal::local(),
        binding: binding.clone(),
        arguments: json!({}),
        reason: "a test".to_owned(),
        risk_tags: Vec::new(),
    };
    // One that asks and goes away has asked.
    tokio::select! {
        biased;
        _ = approvals.ask(ticket.clone(), EXPIRE) => panic!("the store waits"),
        () = writing.notified() => {}
    }
    assert_eq!(approvals.find(&binding), None, "not before the store has it");
    go_on.add_permits(1);
    let asked = approvals.ask(ticket, EXPIRE).await.unwrap();
    assert_eq!(store.approvals().await.unwrap(), std::slice::from_ref(&asked));
    // One that uses it and goes away has not.
    let decided = approvals.decided(&asked.id, ApprovalState::Approved).unwrap();
    go_on.add_permits(1);
    let write = Write::SettleApproval { from: ApprovalState::Pending, to: decided.clone() };
    store.commit(vec![write]).await.unwrap();
    writing.notified().await;
    approvals.settle(decided);
    tokio::select! {
        biased;
        _ = approvals.consume(&asked.id) => panic!("the store waits"),
        () = writing.notified() => {}
    }
    let mut decisions = approvals.decisions();
    go_on.add_permits(2);
    decisions.changed().await.unwrap();
    let stored = store.approvals().await.unwrap();
    assert_eq!(stored[0].state, ApprovalState::Approved);
    go_on.add_permits(1);
    approvals.consume(&asked.id).await.unwrap();
    assert!(approvals.consume(&asked.id).await.is_err(), "once");
}

#[tokio::test]
async fn of_two_gateways_on_a_store_one_decides_and_one_uses() {
    let first = fixture().await;
    let asked = first.ask("x").await;
    let approvals = Approvals::load(
        first.store.clone(),
        first.clock.clone(),
        Arc::new(TestIds::default()),
        [7; 32],
    );
    let (store, clock) = (first.store.clone(), first.clock.clone());
    let second = Fixture { approvals: Arc::new(approvals.await.unwrap()), store, clock };
    first.decide(&asked.id, ApprovalState::Denied).await.unwrap();
    let late = second.decide(&asked.id, ApprovalState::Approved).await;
    assert!(matches!(late, Err(ApprovalError::Store(StoreError::Conflict { .. }))), "{late:?}");
    second.approvals.reload(&asked.id).await.unwrap();
    assert_eq!(second.approvals.list()[0].state, ApprovalState::Denied);

    let asked = first.ask("y").await;
    first.decide(&asked.id, ApprovalState::Approved).await.unwrap();
    second.approvals.reload(&asked.id).await.unwrap();
    first.approvals.consume(&asked.id).await.unwrap();
    let late = second.approvals.consume(&asked.id).await;
    let used = ApprovalState::Used;
    assert!(matches!(late, Err(ApprovalError::Settled { state, .. }) if state == used), "{late:?}");
}
