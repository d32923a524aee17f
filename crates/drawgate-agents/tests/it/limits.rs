//! Depth, fan-out and nested waits: refused or finished, never hung.

use drawgate_agents::runs::record::StepBody;
use drawgate_agents::runs::{Ending, RunSettings};
use drawgate_agents::testing::fake_models::{Answer, Rule};
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
    let rules = vec![spawn, Rule::new(Answer::Hang).containing("child"), Rule::text("done")];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    bench.runs.configure(RunSettings { max_fanout: 2, ..RunSettings::default() });
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Done, "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    assert_eq!(shown.below.len(), 2);
    let cancelled = shown.below.iter().filter(|run| run.ending == Some(Ending::Cancelled));
    assert_eq!(cancelled.count(), 2, "children end with their parent");
}

#[tokio::test]
async fn messages_of_children_come_into_the_conversation() {
    let spawn = Rule::calls([("spawn_agent", json!({ "prompt": "child", "wait": false }))]);
    let rules = vec![
        Rule::text("the child's answer").containing("child"),
        spawn.at_turn(0),
        Rule::calls([("wait_agents", json!({ "ids": ["nobody"], "seconds": 60 }))]).at_turn(1),
        Rule::text("done"),
    ];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Done, "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    let told = shown.steps.iter().filter(|step| match &step.body {
        StepBody::Message { from: Some(_), text } => text.contains("the child's answer"),
        _ => false,
    });
    assert!(told.count() <= 1, "an end is told once at most: {:?}", shown.steps);
    let stranger = shown.steps.iter().any(|step| match &step.body {
        StepBody::Call { outcome: Some(outcome), .. } => {
            outcome.text.contains("no run that you started")
        }
        _ => false,
    });
    assert!(stranger, "nobody waits for a stranger: {:?}", shown.steps);
}
