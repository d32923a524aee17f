//! Budgets are pools: children draw from their parent's.

use drawgate_agents::runs::{Ending, StartError};
use drawgate_agents::testing::fake_models::Rule;
use drawgate_core::audit::EventKind;
use serde_json::{Value, json};

use super::support::{Bench, profile};

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
    let chatter = "word ".repeat(300);
    let rules = vec![
        spawns(8),
        // Each child goes on and on.
        Rule::calls([("signal_parent", json!({ "message": chatter }))]),
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
        reason.contains("the budget of tokens is used up") && reason.contains("10000"),
        "{reason}"
    );
    assert!(shown.below.iter().any(|run| run.ending == Some(Ending::Budget)), "{:?}", shown.below);
    let events = bench.gate.events().await;
    assert!(events.iter().any(|event| event.kind == EventKind::BudgetRefused));
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
