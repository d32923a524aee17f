//! A gateway that is stopped at any write takes its tasks up again: no iteration is lost, plugins are asked
//! again only if they were not heard, and the run that delegated hears of the end once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use drawgate_agents::plugin::{
    CallMeta, Hook, HookAnswer, HookEvent, Plugin, PluginError, PluginTool,
};
use drawgate_agents::runs::Ending;
use drawgate_agents::runs::record::StepBody;
use drawgate_agents::tasks::{TaskDetails, TaskSettings};
use drawgate_agents::testing::fake_models::{Answer, Rule};
use drawgate_core::audit::EventKind;
use drawgate_core::model::{SourceId, ToolOutput};
use drawgate_core::source::{CallContext, SourceError};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::restart::die_at;
use super::reviewer::{Behaviour, TestPlugin, accepts, nothing, rejects};
use super::support::{Bench, PATIENCE, profile};

fn script() -> Vec<Rule> {
    let broken = Rule::status(400, &[], json!({ "error": { "message": "no such thing" } }));
    let calls = [
        ("delegation__delegate", json!({ "prompt": "good work" })),
        ("delegation__delegate", json!({ "prompt": "bad work" })),
    ];
    vec![
        Rule::text("heard of it").containing("[message from task"),
        Rule::text("first try").containing("good work"),
        Rule::text("second try").containing("too short"),
        broken.containing("bad work"),
        Rule::calls(calls).at_turn(0),
        Rule::text("waiting"),
    ]
}

/// Rejects the first try and accepts the second, however often it is asked about each.
fn reviewer() -> Arc<TestPlugin> {
    let hooks = [Hook::OnTaskCreate, Hook::OnTaskComplete, Hook::OnTaskFailed];
    TestPlugin::new("reviewer", hooks, |_, event| match event {
        HookEvent::OnTaskComplete { result, .. } => {
            if result == "first try" {
                rejects("too short")
            } else {
                accepts()
            }
        }
        _ => nothing(),
    })
}

/// Says nothing, and wants to know everything.
fn observer() -> Arc<TestPlugin> {
    let hooks = [Hook::OnTaskCreate, Hook::OnTaskComplete, Hook::OnTaskFailed];
    TestPlugin::new("observer", hooks, |_, _| nothing())
}

async fn put_in(bench: &Bench) -> [Arc<TestPlugin>; 2] {
    bench.put_native("delegation", json!({})).await;
    let plugins = [reviewer(), observer()];
    for plugin in &plugins {
        bench.put(plugin.clone(), 1).await;
    }
    plugins
}

/// How often each plugin was asked what about which task.
type Asked = BTreeMap<(String, Hook, String, u32), usize>;

/// What is stored as answered.
fn answered(tasks: &[TaskDetails]) -> Asked {
    let of_task = |task: &TaskDetails| {
        let id = task.task.id.clone();
        let heard = task.questions.clone().into_iter().filter(|asked| asked.answer.is_some());
        heard.map(move |asked| ((asked.plugin, asked.hook, id.clone(), asked.iteration), 1))
    };
    tasks.iter().flat_map(of_task).collect()
}

async fn settled(bench: &Bench) -> Vec<TaskDetails> {
    let rest = async {
        loop {
            let tasks = bench.plugins.tasks().list().await.unwrap();
            let is_open = |task: &TaskDetails| {
                task.ended_at.is_none() || task.questions.iter().any(|asked| asked.answer.is_none())
            };
            if !tasks.iter().any(is_open) {
                return tasks;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, rest).await.expect("a task does not come to rest")
}

#[tokio::test]
async fn a_task_goes_on_after_a_stop_at_every_write() {
    let mut stop_at = 0;
    loop {
        assert!(stop_at < 300, "this script has fewer writes");
        let bench = Bench::new(&[&profile("a", "")], script()).await;
        let before = put_in(&bench).await;
        let dead = die_at(&bench.gate.store, stop_at);
        let work = async {
            let id = bench.start("a", "go").await.unwrap();
            bench.runs.ended(&id).await;
            settled(&bench).await;
        };
        let finished_without_stop = tokio::select! {
            () = work => true,
            () = dead.notified() => false,
        };
        bench.runs.close().await;
        bench.gate.store.faults().heal();
        let heard_before = answered(&bench.plugins.tasks().list().await.unwrap());
        check_unheard(&before, &heard_before, stop_at);
        let bench = bench.reopened().await;
        let plugins = put_in(&bench).await;
        bench.recover().await;
        let started = bench.runs.list().await.unwrap().into_iter().find(|run| run.depth == 0);
        if let Some(id) = started.map(|run| run.id) {
            check(&bench, &id, &plugins, &heard_before, stop_at).await;
        }
        if finished_without_stop {
            break;
        }
        stop_at += 1;
    }
    assert!(stop_at > 20, "{stop_at}");
}

/// Each answer is stored before the next question: of each task, one at most was lost.
fn check_unheard(plugins: &[Arc<TestPlugin>], heard: &Asked, stop_at: usize) {
    let mut lost: BTreeMap<String, usize> = BTreeMap::new();
    for event in plugins.iter().flat_map(|plugin| plugin.heard()) {
        match event {
            HookEvent::OnTaskCreate { task_id, .. }
            | HookEvent::OnTaskComplete { task_id, .. }
            | HookEvent::OnTaskFailed { task_id, .. } => *lost.entry(task_id).or_default() += 1,
            other => panic!("{other:?}"),
        }
    }
    for (task, asked) in lost {
        let stored = heard.keys().filter(|key| key.2 == task).count();
        assert!(asked - stored <= 1, "stopped at {stop_at}: {asked} asked, {stored} stored");
    }
}

async fn check(
    bench: &Bench,
    id: &str,
    plugins: &[Arc<TestPlugin>],
    heard_before: &Asked,
    stop_at: usize,
) {
    let end = bench.end_of(id).await;
    assert_eq!(
        (end.ending, end.text.as_str()),
        (Ending::Done, "heard of it"),
        "{stop_at}: {end:?}"
    );
    let tasks = settled(bench).await;
    assert_eq!(tasks.len(), 2, "stopped at {stop_at}: {tasks:?}");
    let [good, bad] = ["good work", "bad work"]
        .map(|prompt| tasks.iter().find(|task| task.task.prompt == prompt).unwrap());
    assert_eq!((good.task.state.as_str(), good.task.iteration), ("complete", 2), "{stop_at}");
    assert_eq!((good.runs.len(), good.task.result.as_deref()), (2, Some("second try")));
    assert_eq!((bad.task.state.as_str(), bad.task.iteration), ("failed", 1), "{stop_at}");
    let shown = bench.runs.show(id).await.unwrap().unwrap();
    for task in [good, bad] {
        let from_task = format!("task {}", task.task.id);
        let told = shown.steps.iter().filter(|step| match &step.body {
            StepBody::Message { from, .. } => from.as_deref() == Some(from_task.as_str()),
            _ => false,
        });
        assert_eq!(told.count(), 1, "stopped at {stop_at}: the run hears of each end once");
    }
    assert_eq!(shown.below.len(), 3, "stopped at {stop_at}: a run for each iteration");
    // Each plugin was asked everything once; what was heard before the stop is not asked again.
    let hooks = |task: &TaskDetails| -> Vec<(Hook, u32)> {
        let questions = task.questions.iter().filter(|asked| asked.plugin == "observer");
        questions.map(|asked| (asked.hook, asked.iteration)).collect()
    };
    let (create, review) = (Hook::OnTaskCreate, Hook::OnTaskComplete);
    assert_eq!(hooks(good), [(create, 1), (review, 1), (review, 2)], "stopped at {stop_at}");
    assert_eq!(hooks(bad), [(create, 1), (Hook::OnTaskFailed, 1)], "stopped at {stop_at}");
    let all = answered(&tasks);
    for plugin in plugins {
        let name = plugin.name().as_str();
        let expected =
            all.keys().filter(|key| key.0 == name && !heard_before.contains_key(*key)).count();
        assert_eq!(plugin.heard().len(), expected, "stopped at {stop_at}: {name}");
    }
    let events = bench.gate.events().await;
    for kind in [EventKind::TaskCreated, EventKind::TaskEnded] {
        let count = events.iter().filter(|event| event.kind == kind).count();
        assert_eq!(count, 2, "stopped at {stop_at}: {kind} once for each task");
    }
}

#[tokio::test]
async fn a_reviewer_that_does_not_come_back_leaves_the_task_unreviewed() {
    let bench = Bench::new(&[&profile("a", "")], script()).await;
    bench.put_native("delegation", json!({})).await;
    let hanging = TestPlugin::new("gone", [Hook::OnTaskComplete], |_, _| Behaviour::Hangs);
    bench.put(hanging.clone(), 0).await;
    let id = bench.start("a", "go").await.unwrap();
    while hanging.heard().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    bench.runs.close().await;
    let bench = bench.reopened().await;
    bench.put_native("delegation", json!({})).await;
    let absent = Duration::from_millis(50);
    bench.plugins.tasks().configure(TaskSettings { absent, ..TaskSettings::default() });
    bench.recover().await;
    assert_eq!(bench.end_of(&id).await.text, "heard of it");
    let tasks = settled(&bench).await;
    let good = tasks.iter().find(|task| task.task.prompt == "good work").unwrap();
    assert_eq!(good.task.state, "unreviewed");
    assert_eq!(good.task.feedback.as_deref(), Some("gone: it is not at work"));
}

#[tokio::test]
async fn who_may_change_a_prompt_is_asked_again_if_it_was_not_heard() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::text("done")]).await;
    let hooks = [Hook::OnBeforeInvoke];
    let hanging = TestPlugin::new("p", hooks, |_, _| Behaviour::Hangs);
    bench.put(hanging.clone(), 0).await;
    let id = bench.start("a", "go").await.unwrap();
    while hanging.heard().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    bench.runs.close().await;
    let bench = bench.reopened().await;
    let answer = || Behaviour::Answers(Ok(HookAnswer::Prompt("go on".to_owned())));
    bench.put(TestPlugin::new("p", hooks, move |_, _| answer()), 0).await;
    bench.recover().await;
    assert_eq!(bench.end_of(&id).await.text, "done");
    let asked = bench.fake.requests()[0].body.to_string();
    assert!(asked.contains("go on"), "{asked}");
}

#[tokio::test]
async fn what_a_plugin_waited_for_ends_with_the_gateway_and_is_asked_anew() {
    let review = Rule::calls([("return_result", json!({ "accepted": true }))]);
    let mut rules = vec![
        Rule::new(Answer::Hang).with_tool("return_result").for_model("slow"),
        review.with_tool("return_result"),
    ];
    rules.extend(script());
    let bench = Bench::new(&[&profile("a", "")], rules).await;
    bench.put_native("delegation", json!({})).await;
    bench.put_native("validation", json!({ "model": "anthropic/slow" })).await;
    let id = bench.start("a", "go").await.unwrap();
    let is_review = |run: &drawgate_agents::runs::RunSummary| run.profile == "plugin:validation";
    while !bench.runs.list().await.unwrap().iter().any(is_review) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    bench.runs.close().await;
    let bench = bench.reopened().await;
    bench.put_native("delegation", json!({})).await;
    bench.put_native("validation", json!({})).await;
    bench.recover().await;
    assert_eq!(bench.end_of(&id).await.text, "heard of it");
    let tasks = settled(&bench).await;
    let good = tasks.iter().find(|task| task.task.prompt == "good work").unwrap();
    assert_eq!(good.task.state, "complete");
    let runs = bench.runs.list().await.unwrap();
    let endings: Vec<_> = runs.iter().filter(|run| is_review(run)).map(|run| run.ending).collect();
    assert_eq!(endings, [Some(Ending::Done), Some(Ending::Cancelled)]);
}

#[tokio::test]
async fn nothing_is_tried_again_for_a_caller_that_is_gone() {
    let bench = Bench::new(&[&profile("a", "")], vec![Rule::text("a try")]).await;
    bench.put_native("delegation", json!({})).await;
    let (asked, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let rejects = Waiting { asked: Arc::clone(&asked), answer: Arc::clone(&answer) };
    bench.put(Arc::new(rejects), 0).await;
    bench.gate.call("local", "delegation__delegate", json!({ "prompt": "work" })).await;
    asked.notified().await;
    bench.plugins.tasks().stop_of(&drawgate_core::model::Principal::local()).await;
    answer.notify_one();
    let tasks = settled(&bench).await;
    assert_eq!((tasks[0].task.state.as_str(), tasks[0].runs.len()), ("rejected", 1));
}

/// Rejects when it is told to.
struct Waiting {
    asked: Arc<Notify>,
    answer: Arc<Notify>,
}

#[async_trait::async_trait]
impl Plugin for Waiting {
    fn name(&self) -> &SourceId {
        static NAME: LazyLock<SourceId> = LazyLock::new(|| SourceId::new("waiting").unwrap());
        &NAME
    }

    fn version(&self) -> &'static str {
        "1.0.0"
    }

    fn tools(&self) -> Vec<PluginTool> {
        Vec::new()
    }

    fn hooks(&self) -> BTreeSet<Hook> {
        BTreeSet::from([Hook::OnTaskComplete])
    }

    async fn call(
        &self,
        tool: &str,
        _input: Map<String, Value>,
        _meta: &CallMeta,
        _cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        Err(SourceError::Protocol(format!("there is no tool `{tool}`")))
    }

    async fn hook(&self, _event: &HookEvent) -> Result<HookAnswer, PluginError> {
        self.asked.notify_one();
        self.answer.notified().await;
        Ok(HookAnswer::Verdict { accepted: false, feedback: None })
    }
}
