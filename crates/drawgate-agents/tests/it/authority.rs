//! A run can do what the principal's grants and every ceiling above it allow, looked up at each call.

use std::sync::Arc;

use drawgate_agents::runs::Ending;
use drawgate_agents::runs::record::StepBody;
use drawgate_agents::testing::fake_models::Rule;
use drawgate_core::model::{Capability, ToolOutput};
use drawgate_core::registry::{Origin, SourceTerms};
use drawgate_core::testing::{FakeSource, TestGate, TestStore, tool};
use parking_lot::Mutex;
use serde_json::json;

use super::support::{Bench, limits, profile};

/// A source whose tool needs `file.write`; its first call revokes what the test says.
async fn bench(profiles: &[&str], rules: Vec<Rule>, grants: &[&str]) -> (Bench, Arc<FakeSource>) {
    let gate = TestGate::with(TestStore::default()).await;
    for grant in grants {
        gate.grant("local", grant, None).await;
    }
    let bench = Bench::on(gate, profiles, rules, limits(100_000, 1_000)).await;
    let source = FakeSource::new("files", vec![tool("write", &json!(null))], |_, _| {
        Ok(ToolOutput::text("written"))
    });
    let needs = vec![Capability::new("file.write").unwrap()];
    let terms = SourceTerms { capabilities: needs, ..SourceTerms::default() };
    let manifest = source.describe();
    bench.gate.declare(source.clone(), manifest, terms, Origin::Declared).unwrap();
    (bench, source)
}

fn write() -> Rule {
    Rule::calls([("files__write", json!({}))])
}

#[tokio::test]
async fn a_child_that_asks_for_more_gains_nothing_and_a_capable_worker_works_within_the_ceiling() {
    let worker = profile("worker", "ceiling: ['*']");
    let rules = || {
        vec![
            write().with_system("You are worker").at_turn(0),
            Rule::text("finished").with_system("You are worker"),
            Rule::calls([("spawn_agent", json!({ "prompt": "write", "agent": "worker" }))])
                .at_turn(0),
            Rule::text("done"),
        ]
    };
    // The coordinator may not write itself; what is below it may, unless its ceiling says otherwise.
    let narrow = profile("boss", "tools: [spawn_agent]");
    let (bench, files) = bench(&[&narrow, &worker], rules(), &["*"]).await;
    let (_, end) = bench.run("boss", "go").await;
    assert_eq!((end.ending, files.calls()), (Ending::Done, 1), "{end:?}");
    let bounded = profile("boss", "ceiling: [file.read]");
    let (bench, files) = self::bench(&[&bounded, &worker], rules(), &["*"]).await;
    let (_, end) = bench.run("boss", "go").await;
    assert_eq!(
        (end.ending, files.calls()),
        (Ending::Done, 0),
        "a ceiling can't be escaped: {end:?}"
    );
    let (bench, files) = self::bench(&[&narrow, &worker], rules(), &["file.read"]).await;
    let (_, end) = bench.run("boss", "go").await;
    assert_eq!((end.ending, files.calls()), (Ending::Done, 0), "a ceiling gives nothing: {end:?}");
}

#[tokio::test]
async fn a_grant_that_is_revoked_stops_the_next_call_of_a_grandchild() {
    let deep = profile("deep", "");
    let rules = vec![
        write().containing("leaf"),
        Rule::calls([("spawn_agent", json!({ "prompt": "leaf" }))]).containing("middle").at_turn(0),
        Rule::calls([("spawn_agent", json!({ "prompt": "middle" }))]).at_turn(0),
        Rule::text("done"),
    ];
    let gate = TestGate::with(TestStore::default()).await;
    gate.grant("local", "source.agents", None).await;
    let grant = gate.grant("local", "file.write", None).await;
    let bench = Bench::on(gate, &[&deep], rules, limits(100_000, 1_000)).await;
    let grants = Arc::clone(&bench.gate.control.parts().grants);
    let revoked = Arc::new(Mutex::new(false));
    let first = Arc::clone(&revoked);
    let source = FakeSource::new("files", vec![tool("write", &json!(null))], move |_, _| {
        let mut first = first.lock();
        if !*first {
            *first = true;
            let (grants, grant) = (Arc::clone(&grants), grant.clone());
            tokio::spawn(async move { grants.revoke(&[grant.as_str().into()]).await });
        }
        Ok(ToolOutput::text("written"))
    });
    let needs = vec![Capability::new("file.write").unwrap()];
    let terms = SourceTerms { capabilities: needs, ..SourceTerms::default() };
    let manifest = source.describe();
    bench.gate.declare(source.clone(), manifest, terms, Origin::Declared).unwrap();
    let id = bench.start("deep", "go").await.unwrap();
    bench.end_of(&id).await;
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    let leaf = shown.below.iter().find(|run| run.depth == 2).unwrap();
    let leaf = bench.runs.show(&leaf.id).await.unwrap().unwrap();
    let outcomes: Vec<String> = leaf
        .steps
        .iter()
        .filter_map(|step| match &step.body {
            StepBody::Call { outcome: Some(outcome), .. } => Some(outcome.text.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes[0], "written");
    assert_eq!(leaf.run.ending, Some(Ending::Stuck), "{outcomes:?}");
    let last = outcomes.last().unwrap();
    assert!(last.contains("files:write") || last.contains("RESOURCE_NOT_FOUND"), "{outcomes:?}");
    assert!(source.calls() < outcomes.len(), "calls after the revocation reached the tool");
}

#[tokio::test]
async fn a_profile_that_names_agents_starts_these_alone_and_binds_nobody_below() {
    let spawn = |agent: &str| ("spawn_agent", json!({ "prompt": "work", "agent": agent }));
    let boss = profile("boss", "tools: Agent(worker, ghost), other");
    let (worker, other) = (profile("worker", ""), profile("other", "public: true"));
    let like_itself = ("spawn_agent", json!({ "prompt": "work" }));
    let direct = ("other", json!({ "prompt": "work" }));
    let calls = [spawn("worker"), spawn("other"), spawn("ghost"), like_itself, direct];
    let rules = vec![
        Rule::calls(calls).with_system("You are boss").at_turn(0),
        // The choice is that of the boss: its worker starts whom it likes.
        Rule::calls([spawn("other")]).with_system("You are worker").at_turn(0),
        Rule::text("finished"),
    ];
    let bench = Bench::new(&[&boss, &worker, &other], rules).await;
    let (id, end) = bench.run("boss", "go").await;
    assert_eq!(end.ending, Ending::Done, "{end:?}");
    let said = bench.outcomes(&id).await;
    assert_eq!(said[0], "finished", "{said:?}");
    let alone = "its profile lets it start these alone: `worker`, `ghost`";
    for (text, wanted) in [(&said[3], "boss"), (&said[4], "other")] {
        let expected = format!("agent `boss` may not start `{wanted}`; {alone}");
        assert!(text.contains(&expected), "{wanted}: {said:?}");
    }
    for (text, wanted) in [(&said[1], "other"), (&said[2], "ghost")] {
        let expected = format!("there is no agent `{wanted}`; there are: `worker`");
        assert!(text.contains(&expected), "whether it exists is not told: {said:?}");
    }
    let shown = bench.runs.show(&id).await.unwrap().unwrap();
    let mut started: Vec<(u8, &str)> =
        shown.below.iter().map(|run| (run.depth, run.profile.as_str())).collect();
    started.sort_unstable();
    assert_eq!(started, [(1, "worker"), (2, "other")]);
}
