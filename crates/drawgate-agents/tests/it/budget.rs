//! Budgets are pools: children draw from their parent's.

use drawgate_agents::runs::{Ending, RunDetails, StartError};
use drawgate_agents::testing::fake_models::Rule;
use drawgate_core::audit::EventKind;
use drawgate_core::testing::{TestGate, TestStore};
use serde_json::{Value, json};

use super::support::{Bench, limits, profile};

/// Calls that start so many children at once.
fn spawns(count: usize) -> Rule {
    let call = |number: usize| {
        let prompt = format!("child {number}");
        json!({ "name": "spawn_agent", "arguments": { "prompt": prompt } })
    };
    let calls: Vec<Value> = (0..count).map(call).collect();
    serde_json::from_value(json!({ "when": { "contains": "go" }, "reply": { "calls": calls } }))
        .unwrap()
}

#[tokio::test]
async fn eight_children_never_use_more_than_their_parent_has() {
    let rules = vec![
        spawns(8),
        // Each child goes on and on, in calls as short as the least that is reserved.
        Rule::calls([("signal_parent", json!({ "message": "more" }))]),
    ];
    let more = "budget: {tokens: 10000}";
    let bench = Bench::new(&[&profile("a", more)], rules).await;
    let (id, end) = bench.run("a", "go").await;
    let served = bench.fake.served();
    let total = served.input + served.output;
    assert!(total <= 10_000, "{served:?}");
    assert!(total > 2_000, "the budget was used: {served:?}");
    assert_eq!(end.ending, Ending::Budget, "{end:?}");
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    let reason = shown.run.reason.unwrap();
    assert!(
        reason.contains("the budget of tokens has no room") && reason.contains("10000"),
        "{reason}"
    );
    assert!(shown.below.iter().any(|run| run.ending == Some(Ending::Budget)), "{:?}", shown.below);
    let events = bench.gate.events().await;
    assert!(events.iter().any(|event| event.kind == EventKind::BudgetRefused));
}

/// A run with eight children, whose model may write as much as the whole budget in each reply.
async fn eight_children(tokens: u64, answer: &str) -> (Bench, RunDetails) {
    let rules = vec![spawns(8).at_turn(0), Rule::text(answer)];
    let gate = TestGate::with(TestStore::default()).await;
    gate.grant("local", "*", None).await;
    let more = format!("budget: {{tokens: {tokens}}}");
    let bench = Bench::on(gate, &[&profile("a", &more)], rules, limits(100_000, 8_000)).await;
    let (id, _) = bench.run("a", "go").await;
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    assert_eq!(shown.below.len(), 8, "{:?}", shown.below);
    (bench, shown)
}

#[tokio::test]
async fn eight_children_that_fit_into_the_pool_all_finish() {
    let (bench, shown) = eight_children(10_000, "done").await;
    for run in shown.below.iter().chain([&shown.run]) {
        assert_eq!(run.ending, Some(Ending::Done), "{run:?}");
    }
    let served = bench.fake.served();
    assert_eq!(shown.run.used.tokens, served.input + served.output, "what is shown was used");
    assert!(shown.run.reserved.is_nothing(), "{:?}", shown.run);
}

#[tokio::test]
async fn children_that_fit_finish_and_the_others_are_told_why_not() {
    let (bench, shown) = eight_children(4_000, &"word ".repeat(300)).await;
    let (done, refused): (Vec<_>, Vec<_>) =
        shown.below.iter().partition(|run| run.ending == Some(Ending::Done));
    assert!(!done.is_empty() && !refused.is_empty(), "{:?}", shown.below);
    for run in refused {
        assert_eq!(run.ending, Some(Ending::Budget), "{run:?}");
        let reason = run.reason.as_deref().unwrap();
        let expected = format!("of 4000 are used (the budget of run `{}`)", shown.run.id);
        assert!(reason.ends_with(&expected), "{reason}");
    }
    let served = bench.fake.served();
    assert!(served.input + served.output <= 4_000, "{served:?}");
}

#[tokio::test]
async fn what_is_reserved_is_not_shown_as_used() {
    let rules = vec![Rule::text("done").held("shown")];
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    let id = bench.start("a", "go").await.unwrap();
    bench.fake.asked(|_| true).await;
    let shown = bench.runs.show(&id).await.unwrap().unwrap().run;
    assert_eq!((shown.used.tokens, shown.used.micro_usd), (0, 0), "{shown:?}");
    assert!(shown.reserved.tokens > 1_000 && shown.reserved.micro_usd > 0, "{shown:?}");
    bench.fake.release("shown");
    assert_eq!(bench.end_of(&id).await.ending, Ending::Done);
}

#[tokio::test]
async fn a_budget_in_dollars_needs_prices() {
    let more = "model: anthropic/unpriced\nbudget: {cost_usd: 1.0}";
    let bench = Bench::new(&[&profile("a", more)], vec![Rule::text("done")]).await;
    let error = bench.start("a", "go").await.unwrap_err();
    assert!(matches!(error, StartError::NoPrices(_)), "{error}");
    let priced = profile("a", "budget: {cost_usd: 1.0}");
    let bench = Bench::new(&[&priced], vec![Rule::text("done")]).await;
    let (_, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Done, "{end:?}");
}
