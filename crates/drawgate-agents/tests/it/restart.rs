//! A gateway that is stopped at any step takes its runs up again: nothing is lost, nothing that may not
//! be repeated is, and each end is told once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use drawgate_agents::runs::Ending;
use drawgate_agents::runs::record::StepBody;
use drawgate_agents::testing::fake_models::{Answer, Rule};
use drawgate_core::audit::EventKind;
use drawgate_core::model::ToolOutput;
use drawgate_core::store::{Store as _, Write};
use drawgate_core::testing::{FakeSource, TestStore, tool};
use serde_json::json;
use tokio::sync::Notify;

use super::support::{Bench, profile};

fn script() -> Vec<Rule> {
    vec![
        Rule::calls([("t__once", json!({}))]).containing("child").at_turn(0),
        Rule::text("child is done").containing("child"),
        Rule::calls([("t__once", json!({})), ("spawn_agent", json!({ "prompt": "child" }))])
            .at_turn(0),
        Rule::text("all done"),
    ]
}

/// Lets nothing reach the store from this operation on, as if the process were dead; tells when it is.
pub(crate) fn die_at(store: &TestStore, stop_at: usize) -> Arc<Notify> {
    let dead = Arc::new(Notify::new());
    let (asked, tell) = (AtomicUsize::new(0), Arc::clone(&dead));
    store.faults().before(move |_| {
        let is_dead = asked.fetch_add(1, Ordering::SeqCst) >= stop_at;
        let tell = Arc::clone(&tell);
        async move {
            if is_dead {
                tell.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    });
    dead
}

#[tokio::test]
async fn a_run_goes_on_after_a_stop_at_every_write() {
    let mut finished_without_stop = false;
    let mut stop_at = 0;
    while !finished_without_stop {
        assert!(stop_at < 100, "a run of this script has fewer writes");
        let bench = Bench::new(&[&profile("a", "")], script()).await;
        let source = FakeSource::new("t", vec![tool("once", &json!(null))], |_, _| {
            Ok(ToolOutput::text("did it"))
        });
        bench.gate.register(source.clone()).await.unwrap();
        let dead = die_at(&bench.gate.store, stop_at);
        let run = async {
            let id = bench.start("a", "go").await.unwrap();
            bench.runs.ended(&id).await;
        };
        finished_without_stop = tokio::select! {
            () = run => true,
            () = dead.notified() => false,
        };
        bench.runs.close().await;
        bench.gate.store.faults().heal();
        let bench = bench.restarted().await;
        let started = bench.runs.list().await.unwrap().into_iter().find(|run| run.depth == 0);
        if let Some(id) = started.map(|run| run.id) {
            let end = bench.end_of(&id).await;
            assert_eq!(
                (end.ending, end.text.as_str()),
                (Ending::Done, "all done"),
                "{stop_at}: {end:?}"
            );
            assert!(source.calls() <= 2, "stopped at {stop_at}: called {} times", source.calls());
            let shown = bench.runs.show(&id).await.unwrap().unwrap();
            assert_eq!(shown.below.len(), 1, "stopped at {stop_at}: one child");
            assert!(shown.steps.iter().all(|step| !step.is_open()), "stopped at {stop_at}");
            let told = shown.steps.iter().filter(|step| match &step.body {
                StepBody::Call { call, .. } => call.name == "spawn_agent",
                _ => false,
            });
            assert_eq!(told.count(), 1);
            let events = bench.gate.events().await;
            for kind in [EventKind::RunStarted, EventKind::RunEnded] {
                let of_kind = events.iter().filter(|event| event.kind == kind);
                let fresh = of_kind.filter(|event| !event.rest.contains_key("resumed"));
                let mut runs: Vec<&str> =
                    fresh.filter_map(|event| event.rest.get("runId")?.as_str()).collect();
                runs.sort_unstable();
                let count = runs.len();
                runs.dedup();
                assert_eq!((runs.len(), count), (2, 2), "stopped at {stop_at}: {kind} once each");
            }
        }
        stop_at += 1;
    }
}

#[tokio::test]
async fn a_run_that_was_ending_ends_and_asks_no_more() {
    let spawn = ("spawn_agent", json!({ "prompt": "child", "wait": false }));
    let mut finished_without_stop = false;
    let mut stop_at = 0;
    while !finished_without_stop {
        assert!(stop_at < 100, "a run of this script has fewer writes");
        // It ends with its child at work. A second request would find no rule, and fail.
        let rules = vec![
            Rule::new(Answer::Hang).containing("child"),
            Rule::calls([spawn.clone()]).at_turn(0).containing("go"),
        ];
        let bench = Bench::new(&[&profile("a", "max_turns: 1")], rules).await;
        let dead = die_at(&bench.gate.store, stop_at);
        let run = async {
            let id = bench.start("a", "go").await.unwrap();
            bench.runs.ended(&id).await;
        };
        finished_without_stop = tokio::select! {
            () = run => true,
            () = dead.notified() => false,
        };
        bench.runs.close().await;
        bench.gate.store.faults().heal();
        let bench = bench.restarted().await;
        let root = bench.runs.list().await.unwrap().into_iter().find(|run| run.depth == 0);
        if let Some(root) = root {
            let end = bench.end_of(&root.id).await;
            assert_eq!(end.ending, Ending::Stuck, "{stop_at}: {end:?}");
        }
        stop_at += 1;
    }
}

#[tokio::test]
async fn what_can_not_be_read_is_left_alone() {
    let bench = Bench::new(&[&profile("a", "")], script()).await;
    let broken =
        Write::PutDocument { kind: "run", id: "x".to_owned(), body: json!({ "sealed": "?" }) };
    bench.gate.store.commit(vec![broken]).await.unwrap();
    assert_eq!(bench.runs.recover().await.unwrap(), 0);
}

#[tokio::test]
async fn runs_that_are_started_before_the_recovery_are_left_alone() {
    let bench = Bench::new(&[&profile("a", "")], script()).await;
    let source = FakeSource::new("t", vec![tool("once", &json!(null))], |_, _| {
        Ok(ToolOutput::text("did it"))
    });
    bench.gate.register(source.clone()).await.unwrap();
    let id = bench.start("a", "go").await.unwrap();
    assert_eq!(bench.runs.recover().await.unwrap(), 0);
    assert_eq!(bench.end_of(&id).await.text, "all done");
    assert_eq!(source.calls(), 2, "one call of the run, and one of its child");
}

#[tokio::test]
async fn a_run_that_is_not_taken_up_yet_is_listed_with_what_it_used() {
    let rules = vec![
        Rule::calls([("t__once", json!({}))]).at_turn(0),
        Rule::new(Answer::Hang).containing("go"),
    ];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    let source = FakeSource::new("t", vec![tool("once", &json!(null))], |_, _| {
        Ok(ToolOutput::text("did it"))
    });
    bench.gate.register(source).await.unwrap();
    bench.start("a", "go").await.unwrap();
    let before = loop {
        let run = bench.runs.list().await.unwrap().remove(0);
        let asks_again = run.last_step.as_ref().is_some_and(|step| step.starts_with("asks"));
        if run.used.tokens > 0 && asks_again {
            break run;
        }
        tokio::task::yield_now().await;
    };
    bench.runs.close().await;
    let bench = bench.reopened().await;
    let after = bench.runs.list().await.unwrap().remove(0);
    assert_eq!((after.phase.as_str(), after.used), ("suspended", before.used));
    assert!(after.last_step.is_some());
}
