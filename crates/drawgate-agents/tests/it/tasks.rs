//! Delegated work: reviewed, done again, told once to whoever delegated it, within limits.

use std::sync::Arc;
use std::time::Duration;

use drawgate_agents::plugin::{Hook, HookEvent, PluginError};
use drawgate_agents::plugins::PluginTerms;
use drawgate_agents::runs::record::StepBody;
use drawgate_agents::runs::{Ending, RunDetails, RunSettings};
use drawgate_agents::tasks::{TaskDetails, TaskSettings};
use drawgate_agents::testing::fake_models::{Answer, Rule};
use drawgate_core::audit::EventKind;
use drawgate_core::model::{Bounds, Lineage, ToolResult};
use drawgate_core::testing::caller;
use serde_json::{Value, json};

use super::reviewer::{Behaviour, TestPlugin, accepts, nothing, rejects};
use super::support::{Bench, PATIENCE, profile};

const DELEGATE: &str = "delegation__delegate";

/// A run that delegates once, and ends when it has heard of the end.
fn script(worker: Vec<Rule>) -> Vec<Rule> {
    let mut rules = vec![Rule::text("heard of it").containing("[message from task")];
    rules.extend(worker);
    rules.extend([
        Rule::calls([(DELEGATE, json!({ "prompt": "the work", "maxIterations": 3 }))]).at_turn(0),
        Rule::text("waiting"),
    ]);
    rules
}

/// A worker that answers each try with its number.
fn worker() -> Vec<Rule> {
    vec![
        Rule::text("first try").containing("the work"),
        Rule::text("second try").containing("too short"),
        Rule::text("third try").containing("too long"),
    ]
}

async fn bench(rules: Vec<Rule>) -> Bench {
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    bench.put_native("delegation", json!({})).await;
    bench
}

async fn only_task(bench: &Bench) -> TaskDetails {
    let tasks = bench.plugins.tasks().list().await.unwrap();
    let [task] = tasks.try_into().unwrap_or_else(|tasks| panic!("one task: {tasks:?}"));
    task
}

/// The messages of tasks in a run's conversation.
fn told(run: &RunDetails) -> Vec<String> {
    let messages = run.steps.iter().filter_map(|step| match &step.body {
        StepBody::Message { from: Some(from), text } if from.starts_with("task ") => Some(text),
        _ => None,
    });
    messages.cloned().collect()
}

async fn shown(bench: &Bench, id: &str) -> RunDetails {
    bench.runs.show(id).await.unwrap().unwrap()
}

/// The result of a call that failed in a run.
fn failures(run: &RunDetails) -> Vec<String> {
    let failed = run.steps.iter().filter_map(|step| match &step.body {
        StepBody::Call { outcome: Some(outcome), .. } if outcome.error.is_some() => {
            Some(outcome.text.clone())
        }
        _ => None,
    });
    failed.collect()
}

fn text(result: &ToolResult) -> String {
    result.content.first().and_then(|block| block["text"].as_str()).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn rejected_twice_and_accepted_takes_three_iterations() {
    let bench = bench(script(worker())).await;
    let reviewer = TestPlugin::new("reviewer", [Hook::OnTaskComplete], |before, _| match before {
        0 => rejects("too short"),
        1 => rejects("too long"),
        _ => accepts(),
    });
    bench.put(reviewer.clone(), 0).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!((end.ending, end.text.as_str()), (Ending::Done, "heard of it"));
    let task = only_task(&bench).await;
    assert_eq!((task.task.state.as_str(), task.task.iteration), ("complete", 3));
    assert_eq!(task.task.result.as_deref(), Some("third try"));
    let results: Vec<String> = reviewer
        .heard()
        .into_iter()
        .map(|event| match event {
            HookEvent::OnTaskComplete { result, task_id, thread_id } => {
                assert_eq!((&task_id, &thread_id), (&task.task.id, &task.task.thread_id));
                result
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(results, ["first try", "second try", "third try"]);
    let run = shown(&bench, &id).await;
    let told = told(&run);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("complete") && told[0].contains("third try"), "{told:?}");
    let below: Vec<&str> = run.below.iter().map(|run| run.thread.as_str()).collect();
    assert_eq!(below, [task.task.id.as_str(); 3], "a run for each iteration, in the task's thread");
    let mut last = bench.fake.requests().into_iter().map(|request| request.body.to_string());
    let last = last.rfind(|body| body.contains("reviewer: too long")).unwrap();
    for earlier in ["the work", "first try", "too short", "second try", "reviewer: too long"] {
        assert!(last.contains(earlier), "the worker sees its earlier work: {earlier} in {last}");
    }
    let events = bench.gate.events().await;
    for kind in [EventKind::TaskCreated, EventKind::TaskEnded] {
        let of_kind: Vec<_> = events.iter().filter(|event| event.kind == kind).collect();
        assert_eq!(of_kind.len(), 1, "{kind}");
        assert_eq!(of_kind[0].rest["parentRunId"], json!(id));
        assert!(of_kind[0].rest["runId"].is_string());
    }
}

#[tokio::test]
async fn the_last_iteration_is_the_last() {
    let rules =
        vec![Rule::text("try").containing("the work"), Rule::text("try").containing("never good")];
    let bench = bench(script(rules)).await;
    let hooks = [Hook::OnTaskComplete, Hook::OnTaskFailed];
    let reviewer = TestPlugin::new("reviewer", hooks, |_, _| rejects("never good"));
    bench.put(reviewer.clone(), 0).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.text, "heard of it");
    let task = only_task(&bench).await;
    assert_eq!((task.task.state.as_str(), task.task.iteration), ("rejected", 3));
    assert_eq!(reviewer.heard_of(Hook::OnTaskComplete), 3);
    let told = told(&shown(&bench, &id).await);
    assert!(told[0].contains("rejected after 3 iterations") && told[0].contains("never good"));
    settled(&bench).await;
    assert_eq!(reviewer.heard_of(Hook::OnTaskFailed), 1);
}

/// Waits until all plugins were told everything.
async fn settled(bench: &Bench) {
    let heard = async {
        loop {
            let tasks = bench.plugins.tasks().list().await.unwrap();
            let is_open = |task: &TaskDetails| {
                task.ended_at.is_none() || task.questions.iter().any(|asked| asked.answer.is_none())
            };
            if !tasks.iter().any(is_open) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("a task does not come to rest");
}

#[tokio::test]
async fn a_reviewer_that_fails_hangs_panics_or_goes_leaves_the_task_unreviewed() {
    type Says = fn() -> Behaviour;
    let cases: [(&str, Says); 4] = [
        ("no model", || Behaviour::Answers(Err(PluginError("no model".to_owned())))),
        ("did not answer within", || Behaviour::Hangs),
        ("panicked", || Behaviour::Panics),
        ("taken out", || Behaviour::Hangs),
    ];
    for (reason, says) in cases {
        let bench = bench(script(worker())).await;
        let review = if reason == "taken out" { PATIENCE } else { Duration::from_millis(200) };
        bench.plugins.tasks().configure(TaskSettings { review, ..TaskSettings::default() });
        let dead = TestPlugin::new("dead", [Hook::OnTaskComplete], move |_, _| says());
        let fine = TestPlugin::new("fine", [Hook::OnTaskComplete], |_, _| accepts());
        bench.put(dead.clone(), 0).await;
        bench.put(fine.clone(), 1).await;
        let id = bench.start("a", "go").await.unwrap();
        if reason == "taken out" {
            while dead.heard().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(bench.plugins.take_out("dead").await);
        }
        assert_eq!(bench.end_of(&id).await.text, "heard of it");
        let task = only_task(&bench).await;
        assert_eq!((task.task.state.as_str(), task.task.iteration), ("unreviewed", 1), "{reason}");
        assert!(task.task.feedback.unwrap().contains(reason));
        assert_eq!(fine.heard().len(), 1, "the others are asked all the same");
        let told = told(&shown(&bench, &id).await);
        assert!(told[0].contains("unreviewed") && told[0].contains(reason), "{told:?}");
        assert!(told[0].contains("first try"), "{told:?}");
    }
}

#[tokio::test]
async fn a_task_whose_run_fails_is_failed() {
    let broken = Rule::status(400, &[], json!({ "error": { "message": "no such thing" } }));
    let bench = bench(script(vec![broken.containing("the work")])).await;
    let hooks = [Hook::OnTaskCreate, Hook::OnTaskComplete, Hook::OnTaskFailed];
    let observer = TestPlugin::new("observer", hooks, |_, _| nothing());
    bench.put(observer.clone(), 0).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.text, "heard of it");
    settled(&bench).await;
    let task = only_task(&bench).await;
    assert_eq!(task.task.state, "failed");
    let told = told(&shown(&bench, &id).await);
    assert!(told.len() == 1 && told[0].contains("failed"), "{told:?}");
    let heard: Vec<Hook> = observer.heard().iter().map(HookEvent::hook).collect();
    assert_eq!(heard, [Hook::OnTaskCreate, Hook::OnTaskFailed]);
}

#[tokio::test]
async fn a_model_reviews_with_its_own_budget_and_form() {
    let review = |accepted: bool, feedback: &str| {
        let answer = json!({ "accepted": accepted, "feedback": feedback });
        Rule::calls([("return_result", answer)]).with_tool("return_result")
    };
    let mut rules = vec![
        review(false, "too short").containing("first try"),
        review(true, "").containing("second try"),
    ];
    rules.extend(script(worker()));
    let bench = bench(rules).await;
    bench.put_native("validation", json!({ "model": "gemini/fake" })).await;
    let (_, end) = bench.run("a", "go").await;
    assert_eq!(end.text, "heard of it");
    let task = only_task(&bench).await;
    assert_eq!((task.task.state.as_str(), task.task.iteration), ("complete", 2));
    let reviews: Vec<_> = bench
        .runs
        .list()
        .await
        .unwrap()
        .into_iter()
        .filter(|run| run.profile == "plugin:validation")
        .collect();
    assert_eq!(reviews.len(), 2);
    for run in reviews {
        assert_eq!(run.principal.as_str(), "plugin.validation");
        assert_eq!((run.depth, run.model.as_deref()), (0, Some("gemini/fake")));
        let run = shown(&bench, &run.id).await;
        assert!(run.prompt.contains("the work"), "a reviewer sees the task: {}", run.prompt);
    }
}

#[tokio::test]
async fn a_model_that_can_not_review_leaves_the_task_unreviewed() {
    let bench = bench(script(worker())).await;
    bench.put_native("validation", json!({ "model": "nobody/knows" })).await;
    let (_, end) = bench.run("a", "go").await;
    assert_eq!(end.text, "heard of it");
    let task = only_task(&bench).await;
    assert_eq!(task.task.state, "unreviewed");
    assert!(task.task.feedback.unwrap().contains("nobody"), "says why");
}

#[tokio::test]
async fn check_ins_reach_the_parent_while_the_task_goes_on() {
    let rules = vec![
        Rule::calls([("delegation__checkin", json!({ "message": "half done" }))])
            .containing("the work")
            .at_turn(0),
        Rule::text("all done").containing("the work"),
    ];
    let bench = bench(script(rules)).await;
    let (id, _) = bench.run("a", "go").await;
    let told = told(&shown(&bench, &id).await);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0], "half done");
    assert!(told[1].contains("all done"), "{told:?}");
}

#[tokio::test]
async fn who_works_on_no_task_can_not_check_in() {
    let rules = vec![
        Rule::calls([("delegation__checkin", json!({ "message": "hello" }))]).at_turn(0),
        Rule::text("done"),
    ];
    let bench = bench(rules).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Done);
    let failures = failures(&shown(&bench, &id).await);
    assert!(failures[0].contains("works on no task"), "{failures:?}");
}

#[tokio::test]
async fn a_caller_that_is_no_run_delegates_and_asks_for_the_result() {
    let rules = vec![
        Rule::calls([("delegation__checkin", json!({ "message": "half done" }))]).at_turn(0),
        Rule::text("the result"),
    ];
    let bench = bench(rules).await;
    let delegated = bench.gate.call("local", DELEGATE, json!({ "prompt": "work" })).await;
    let said = text(&delegated);
    let id = said.split('`').nth(1).unwrap().to_owned();
    let result = json!({ "taskId": id });
    let shown = async {
        loop {
            let shown = bench.gate.call("local", "delegation__result", result.clone()).await;
            let shown: Value = serde_json::from_str(&text(&shown)).unwrap();
            if shown["state"] == "complete" {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let shown = tokio::time::timeout(PATIENCE, shown).await.unwrap();
    assert_eq!(shown["result"], "the result");
    assert_eq!(shown["messages"], json!(["half done"]));
    let task = only_task(&bench).await;
    assert!(task.task.parent_thread_id.starts_with("caller-"), "{task:?}");
    assert_eq!(task.principal.as_str(), "local");
    let run = bench.runs.show(&task.runs[0]).await.unwrap().unwrap();
    assert_eq!((run.run.depth, run.run.profile.as_str()), (0, "plugin:delegation"));
    bench.gate.grant("stranger", "*", None).await;
    let refused = bench.gate.call("stranger", "delegation__result", result.clone()).await;
    assert!(refused.error.unwrap().message.contains("has not delegated"));
    let mut other = caller("local");
    other.session = Some("another".into());
    let refused = bench.gate.call_as(&other, "delegation__result", result).await;
    assert!(refused.error.is_some(), "another client of the same caller has its own conversation");
}

#[tokio::test]
async fn delegating_again_and_again_is_held_by_depth() {
    let rules = vec![
        Rule::calls([(DELEGATE, json!({ "prompt": "deeper" }))]).at_turn(0),
        Rule::text("done"),
    ];
    let bench = bench(rules).await;
    let (id, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Done, "{end:?}");
    let run = shown(&bench, &id).await;
    assert_eq!(run.below.iter().map(|run| run.depth).max(), Some(3));
    let deepest = run.below.iter().find(|run| run.depth == 3).unwrap();
    let failures = failures(&shown(&bench, &deepest.id).await);
    assert!(failures[0].contains("max_depth"), "{failures:?}");
    let tasks = bench.plugins.tasks().list().await.unwrap();
    assert_eq!(tasks.len(), 3);
    assert!(tasks.iter().all(|task| task.task.state == "complete"), "{tasks:?}");
}

#[tokio::test]
async fn open_tasks_of_a_run_and_of_a_principal_are_bounded() {
    let many: Vec<Value> =
        (0..4).map(|_| json!({ "name": DELEGATE, "arguments": { "prompt": "hang" } })).collect();
    let many: Rule = serde_json::from_value(
        json!({ "when": { "turn": 0, "contains": "go" }, "reply": { "calls": many } }),
    )
    .unwrap();
    let rules = vec![many, Rule::new(Answer::Hang).containing("hang"), Rule::text("waiting")];
    for (per_run, per_principal, words) in
        [(2, 64, "tasks of this run"), (8, 2, "tasks of `local`")]
    {
        let bench = bench(rules.clone()).await;
        bench.plugins.tasks().configure(TaskSettings {
            max_open_per_run: per_run,
            max_open_per_principal: per_principal,
            ..TaskSettings::default()
        });
        let id = bench.start("a", "go").await.unwrap();
        let waiting = async {
            while shown(&bench, &id).await.text != "waiting" {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap();
        let failures = failures(&shown(&bench, &id).await);
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(failures.iter().all(|text| text.contains(words)), "{failures:?}");
        assert!(bench.runs.cancel(&id, "enough"));
        assert_eq!(bench.end_of(&id).await.ending, Ending::Cancelled);
        settled(&bench).await;
        let tasks = bench.plugins.tasks().list().await.unwrap();
        assert!(tasks.iter().all(|task| task.task.state == "failed"), "{tasks:?}");
    }
}

#[tokio::test]
async fn a_run_waits_for_its_tasks_no_longer_than_its_time() {
    let rules = script(vec![Rule::new(Answer::Hang).containing("the work")]);
    let bench = Bench::new(&[&profile("a", "budget: {seconds: 1}")], rules).await;
    bench.put_native("delegation", json!({})).await;
    let (_, end) = bench.run("a", "go").await;
    assert_eq!(end.ending, Ending::Deadline, "{end:?}");
    settled(&bench).await;
    assert_eq!(only_task(&bench).await.task.state, "failed");
}

#[tokio::test]
async fn the_limits_of_the_tree_and_pools_hold_for_tasks() {
    let rules = || script(vec![Rule::text("done").containing("the work")]);
    let cases = [
        (profile("a", ""), RunSettings { max_runs: 1, ..RunSettings::default() }, "max_runs"),
        (profile("a", "budget: {runs: 1}"), RunSettings::default(), "budget of runs"),
    ];
    for (profile, settings, words) in cases {
        let bench = Bench::new(&[&profile], rules()).await;
        bench.put_native("delegation", json!({})).await;
        bench.runs.configure(settings);
        let (id, end) = bench.run("a", "go").await;
        assert_eq!((end.ending, end.text.as_str()), (Ending::Done, "waiting"));
        let failures = failures(&shown(&bench, &id).await);
        assert!(failures[0].contains(words), "{failures:?}");
        assert_eq!(bench.plugins.tasks().list().await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_plugin_delegates_only_for_callers_of_its_tools() {
    let bench = bench(script(worker())).await;
    let id = bench.start("a", "go").await.unwrap();
    let name = drawgate_core::model::SourceId::new("forger").unwrap();
    let context = bench.plugins.context(&name, PluginTerms::default()).unwrap();
    let new = drawgate_agents::plugin::NewTask {
        parent_thread_id: id.clone(),
        prompt: "in the name of another".to_owned(),
        model: None,
        max_iterations: None,
    };
    let error = context.delegate(new).await.unwrap_err();
    assert!(error.0.contains("was called from"), "{error}");
    for error in [
        context.send_to_thread(&id, "psst".to_owned()).await.unwrap_err(),
        context.check_in(&id, "psst".to_owned()).await.unwrap_err(),
    ] {
        assert!(error.0.contains("was not told of"), "{error}");
    }
    bench.end_of(&id).await;
    let task = only_task(&bench).await;
    context.task(&task.task.id).await.unwrap_err();
}

#[tokio::test]
async fn a_run_whose_calls_are_no_steps_delegates_as_often_as_it_likes() {
    let rules =
        vec![Rule::new(Answer::Hang).containing("go"), Rule::new(Answer::Hang).containing("work")];
    let bench = bench(rules).await;
    let id = bench.start("a", "go").await.unwrap();
    let mut caller = caller("local");
    let lineage = Lineage {
        run: id.as_str().into(),
        root: id.as_str().into(),
        thread: id.as_str().into(),
        profile: "a".into(),
        task: None,
        plugin: None,
        depth: 0,
        parent: None,
        bounds: Bounds::default(),
    };
    caller.lineage = Some(Arc::new(lineage));
    // Such as by a program that calls over MCP in the name of its run.
    for _ in 0..2 {
        let delegated = bench.gate.call_as(&caller, DELEGATE, json!({ "prompt": "work" })).await;
        assert!(delegated.error.is_none(), "{delegated:?}");
    }
    let tasks = bench.plugins.tasks().list().await.unwrap();
    assert_eq!(tasks.len(), 2, "{tasks:?}");
    assert!(tasks.iter().all(|task| task.parent_run.as_ref() == Some(&id)));
}
