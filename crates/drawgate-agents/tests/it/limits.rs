//! Depth, fan-out and nested waits: refused or finished, never hung.

use drawgate_agents::runs::record::{Step, StepBody};
use drawgate_agents::runs::{Ending, RunSettings};
use drawgate_agents::testing::fake_models::Rule;
use serde_json::json;

use super::support::{Bench, profile};

fn spawn_forever() -> Vec<Rule> {
    vec![
        Rule::calls([("spawn_agent", json!({ "prompt": "deeper" }))]).at_turn(0),
        Rule::text("bottom"),
    ]
}

#[tokio::test]
async fn runs_do_not_nest_deeper_than_allowed() {
    let bench = Bench::new(&[&profile("a", "")], spawn_forever()).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Done, "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    assert_eq!(shown.below.iter().map(|run| run.depth).max(), Some(3));
    let deepest = shown.below.iter().find(|run| run.depth == 3).unwrap();
    let deepest = bench.runs.show(&deepest.id).await.unwrap().unwrap();
    let refused = deepest.steps.iter().any(|step| match &step.body {
        StepBody::Call { outcome: Some(outcome), .. } => outcome.text.contains("max_depth"),
        _ => false,
    });
    assert!(refused, "{:?}", deepest.steps);
}

#[tokio::test]
async fn sixty_four_nested_waits_finish() {
    let bench = Bench::new(&[&profile("a", "")], spawn_forever()).await;
    let settings = RunSettings { max_depth: 64, max_runs: 100, ..RunSettings::default() };
    bench.runs.configure(settings);
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Done, "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    assert_eq!(shown.below.len(), 64);
}

#[tokio::test]
async fn a_run_has_so_many_children_at_once_and_no_more() {
    let calls: Vec<_> = (0..3)
        .map(
            |_| json!({ "name": "spawn_agent", "arguments": { "prompt": "child", "wait": false } }),
        )
        .collect();
    let spawn: Rule = serde_json::from_value(
        json!({ "when": { "turn": 0, "contains": "go" }, "reply": { "calls": calls } }),
    )
    .unwrap();
    let child = Rule::text("bottom").containing("child").held("all were asked for");
    let rules = vec![spawn, child, Rule::text("done")];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    bench.runs.configure(RunSettings { max_fanout: 2, ..RunSettings::default() });
    let id = bench.start("a", "go").await.unwrap();
    bench.phase_of(&id, "waiting").await;
    bench.fake.release("all were asked for");
    let end = bench.end_of(&id).await;
    assert_eq!(end.ending, Ending::Done, "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    assert_eq!(shown.below.len(), 2);
    assert!(shown.below.iter().all(|run| run.ending == Some(Ending::Done)), "{:?}", shown.below);
}

#[tokio::test]
async fn messages_of_children_come_into_the_conversation() {
    let spawn = Rule::calls([("spawn_agent", json!({ "prompt": "count", "wait": false }))]);
    let rules = vec![
        Rule::text("seven").containing("count"),
        spawn.at_turn(0),
        // The parent thinks until its child has ended.
        Rule::text("I have nothing to add").at_turn(1).held("the child has ended"),
        Rule::text("it said seven").at_turn(2).containing("seven"),
    ];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    let id = bench.start("a", "go").await.unwrap();
    let child = bench.child_of(&id).await;
    assert_eq!(bench.end_of(&child).await.text, "seven");
    bench.fake.release("the child has ended");
    let end = bench.end_of(&id).await;
    assert_eq!((end.ending, end.text.as_str()), (Ending::Done, "it said seven"), "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    let told = shown.steps.iter().filter(|step| match &step.body {
        StepBody::Message { from, text } => {
            from.as_deref() == Some(child.as_str()) && text == "seven"
        }
        _ => false,
    });
    assert_eq!(told.count(), 1, "an end is told once: {:?}", shown.steps);
}

#[tokio::test]
async fn nobody_waits_for_a_run_that_it_did_not_start() {
    let rules = vec![
        Rule::calls([("wait_agents", json!({ "ids": ["nobody"], "seconds": 60 }))]).at_turn(0),
        Rule::text("done"),
    ];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Done, "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    let is_refused = |step: &Step| match &step.body {
        StepBody::Call { outcome: Some(outcome), .. } => {
            outcome.text.contains("`nobody` is no run that you started")
        }
        _ => false,
    };
    assert!(shown.steps.iter().any(is_refused), "{:?}", shown.steps);
}
