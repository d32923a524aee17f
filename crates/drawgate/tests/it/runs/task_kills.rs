//! A gateway with delegated work that is killed again and again loses no iteration, asks no plugin again that
//! was heard, and tells each end once.

#![expect(
    clippy::disallowed_methods,
    reason = "the test starts itself as the process that is killed, and tells it where by a variable"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use drawgate_agents::plugin::{
    CallMeta, Hook, HookAnswer, HookEvent, Plugin, PluginError, PluginTool,
};
use drawgate_agents::plugins::{PluginTerms, Plugins};
use drawgate_agents::profile::Budget;
use drawgate_agents::testing::fake_models::{FakeModels, Rule};
use drawgate_core::model::{Caller, Principal, SourceId, Surface, ToolOutput};
use drawgate_core::redact::Redactor;
use drawgate_core::source::{CallContext, SourceError};
use drawgate_host::{Host, secrets::Secrets};
use drawgate_runtime::assemble::{RuntimeOptions, Start, StateLocation};
use drawgate_runtime::operations::StartRun;
use drawgate_runtime::{Runtime, config::Config};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::{KEY, folder};
use crate::support::{TestFolder, eventually};

const KILLS: usize = 40;
const PROFILE: &str = "---\nname: helper\ndescription: Delegates\n---\nDelegate your work.\n";
/// Where the process works, and whether it ends when all is done.
const FOLDER: &str = "DRAWGATE_TEST_FOLDER";
const FINISH: &str = "DRAWGATE_TEST_FINISH";
/// How long a review takes, so that some kills come meanwhile.
const REVIEW: Duration = Duration::from_millis(15);

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

/// Writes lines that outlive the process.
struct Journal(PathBuf);

impl Journal {
    fn add(&self, line: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Rejects the first try and accepts the second; writes down what it is asked.
struct Reviewer {
    name: SourceId,
    journal: Journal,
}

#[async_trait]
impl Plugin for Reviewer {
    fn name(&self) -> &SourceId {
        &self.name
    }

    fn version(&self) -> &'static str {
        "1.0.0"
    }

    fn tools(&self) -> Vec<PluginTool> {
        Vec::new()
    }

    fn hooks(&self) -> BTreeSet<Hook> {
        BTreeSet::from([Hook::OnTaskCreate, Hook::OnTaskComplete, Hook::OnTaskFailed])
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

    async fn hook(&self, event: &HookEvent) -> Result<HookAnswer, PluginError> {
        let (task, iteration, answer) = match event {
            HookEvent::OnTaskComplete { task_id, result, .. } => {
                let accepted = result == "second try";
                let feedback = (!accepted).then(|| "too short".to_owned());
                let iteration = if accepted { 2 } else { 1 };
                (task_id, iteration, HookAnswer::Verdict { accepted, feedback })
            }
            HookEvent::OnTaskCreate { task_id, .. } | HookEvent::OnTaskFailed { task_id, .. } => {
                (task_id, 1, HookAnswer::Nothing)
            }
            other => return Err(PluginError(format!("not wanted: {other:?}"))),
        };
        self.journal.add(&key("asked", event.hook(), task, iteration));
        tokio::time::sleep(REVIEW).await;
        Ok(answer)
    }
}

fn key(word: &str, hook: Hook, task: &str, iteration: u32) -> String {
    format!("{word} {hook:?} {task} {iteration}")
}

/// No test by itself: the gateway that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the process that another test starts"]
async fn gateway() {
    let Ok(place) = std::env::var(FOLDER) else { return };
    let place = PathBuf::from(place);
    let journal = Journal(place.join("journal"));
    let runtime = Arc::new(open(&place).await);
    let operations = &runtime.operations;
    for task in operations.delegated_tasks().await.unwrap() {
        journal.add(&format!("state {}", task.task.state));
        for asked in task.questions.iter().filter(|asked| asked.answer.is_some()) {
            journal.add(&key("heard", asked.hook, &task.task.id, asked.iteration));
        }
    }
    let plugins = &operations.agents.plugins;
    let id = SourceId::new("delegation").unwrap();
    let context = plugins.context(&id, PluginTerms::default()).unwrap();
    let delegation = Plugins::native("delegation", context).unwrap().unwrap();
    plugins.put(delegation, 0).await.unwrap();
    let name = SourceId::new("reviewer").unwrap();
    let reviewer = Reviewer { name, journal: Journal(place.join("journal")) };
    plugins.put(Arc::new(reviewer), 0).await.unwrap();
    operations.agents.refresh().await;
    runtime.supervisor().settle(Duration::from_secs(5)).await;
    runtime.start_upkeep(Arc::new(Notify::new()));
    if std::env::var(FINISH).is_err() {
        start(&runtime).await;
        journal.add("started");
        std::future::pending::<()>().await;
    }
    eventually("everything is done", async || {
        let runs = operations.runs().await.unwrap();
        let tasks = operations.delegated_tasks().await.unwrap();
        let is_done = runs.iter().all(|run| run.ending.is_some())
            && tasks.iter().all(|task| {
                let all_heard = task.questions.iter().all(|asked| asked.answer.is_some());
                task.ended_at.is_some() && all_heard
            });
        is_done.then_some(())
    })
    .await;
    runtime.close().await;
}

async fn open(place: &Path) -> Runtime {
    let file = place.join("drawgate.toml");
    let loaded = Config::parse(&std::fs::read_to_string(&file).unwrap(), &file).unwrap();
    let secrets = BTreeMap::from([(KEY.0.to_owned(), KEY.1.to_owned())]);
    let options = RuntimeOptions {
        host: Host::new(Secrets::new(secrets), None).unwrap(),
        loaded: &loaded,
        state: StateLocation::Folder(place.join(".drawgate")),
        start: Start::Sources,
        redactor: Arc::new(ArcSwap::from_pointee(Redactor::new([]))),
        embedder: None,
    };
    Runtime::open(options).await.unwrap()
}

async fn start(runtime: &Runtime) {
    let caller = Caller {
        principal: Principal::local(),
        session: None,
        surface: Surface::EMBEDDED,
        carried: Arc::default(),
        lineage: None,
    };
    let start = StartRun {
        profile: "helper".to_owned(),
        prompt: "go".to_owned(),
        model: None,
        budget: Budget::default(),
        thread: None,
        agent: None,
    };
    runtime.operations.start_run(caller, start).await.unwrap();
}

/// Starts this very program as the gateway.
fn spawn(place: &TestFolder, finish: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "runs::task_kills::gateway", "--nocapture"]);
    command.env(FOLDER, place.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let log = std::fs::File::create(place.path().join("gateway.log")).unwrap();
    command.stderr(log);
    if finish {
        command.env(FINISH, "1");
    }
    command.spawn().unwrap()
}

fn journal(place: &TestFolder) -> Vec<String> {
    let text = std::fs::read_to_string(place.path().join("journal")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_in_every_state_lose_no_task() {
    let fake = FakeModels::start(script()).await.unwrap();
    // Requests that a kill cuts off count as spent, so that a small budget would end.
    let place = folder(&fake, &[("helper.md", PROFILE)]);
    let started = || journal(&place).iter().filter(|line| *line == "started").count();
    for round in 0..KILLS {
        let mut gateway = spawn(&place, false);
        let wanted = round + 1;
        eventually("the gateway starts a run", async || {
            if let Some(status) = gateway.try_wait().unwrap() {
                let log = std::fs::read_to_string(place.path().join("gateway.log")).unwrap();
                panic!("the gateway ended with {status}: {log}");
            }
            (started() >= wanted).then_some(())
        })
        .await;
        // Spread over 0 to 150 ms by a step that shares no factor with the span.
        tokio::time::sleep(Duration::from_millis((round * 37 % 151) as u64)).await;
        gateway.kill().unwrap();
        gateway.wait().unwrap();
    }
    let mut gateway = spawn(&place, true);
    let ended = eventually("the last gateway is done", async || gateway.try_wait().unwrap()).await;
    let log = std::fs::read_to_string(place.path().join("gateway.log")).unwrap();
    assert!(ended.success(), "{log}");
    check_journal(&journal(&place));
    let tasks = place.json(&["tasks", "list", "--limit", "1000"]);
    check_tasks(&place, tasks.as_array().unwrap());
    let good = tasks.as_array().unwrap().iter().find(|task| task["state"] == "complete").unwrap();
    let shown = place.ok(&["tasks", "show", good["id"].as_str().unwrap()]);
    for part in ["state     complete", "try       2 of 5", "rejected: too short", "\nsecond try"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(place.ok(&["audit", "verify"]).starts_with("intact"));
}

/// Who was heard is not asked again, and the kills came in every state.
fn check_journal(lines: &[String]) {
    let mut heard = BTreeSet::new();
    for line in lines {
        match line.split_once(' ') {
            Some(("heard", what)) => drop(heard.insert(what)),
            Some(("asked", what)) => assert!(!heard.contains(what), "asked again: {what}"),
            _ => {}
        }
    }
    for state in ["working", "reviewing", "complete", "failed"] {
        assert!(lines.contains(&format!("state {state}")), "no kill came after `{state}`");
    }
}

/// Each run has both tasks, each was worked on as often as it was to be, and each end was told once.
fn check_tasks(place: &TestFolder, tasks: &[Value]) {
    let runs = place.json(&["runs", "list", "--limit", "1000"]);
    let roots: Vec<&Value> =
        runs.as_array().unwrap().iter().filter(|run| run["depth"] == 0).collect();
    assert!(roots.len() >= KILLS, "{}", roots.len());
    for root in roots {
        let id = root["id"].as_str().unwrap();
        assert_eq!(root["ending"], "done", "{id}");
        let own: Vec<&Value> = tasks.iter().filter(|task| task["parentRun"] == id).collect();
        let shown = place.json(&["runs", "show", id]);
        assert_eq!(own.len(), 2, "{id}: {own:?} {}", shown["steps"]);
        for task in own {
            let (state, iterations) =
                if task["prompt"] == "good work" { ("complete", 2) } else { ("failed", 1) };
            assert_eq!((&task["state"], &task["iteration"]), (&json!(state), &json!(iterations)));
            assert_eq!(task["runs"].as_array().unwrap().len(), iterations);
            let hooks: Vec<&str> = task["questions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|asked| asked["hook"].as_str().unwrap())
                .collect();
            let expected: &[&str] = if iterations == 2 {
                &["onTaskCreate", "onTaskComplete", "onTaskComplete"]
            } else {
                &["onTaskCreate", "onTaskFailed"]
            };
            assert_eq!(hooks, expected, "{task}");
            let from_task = format!("task {}", task["id"].as_str().unwrap());
            let steps = shown["steps"].as_array().unwrap();
            let told = steps.iter().filter(|step| step["body"]["message"]["from"] == from_task);
            assert_eq!(told.count(), 1, "{id} hears of {from_task} once");
        }
    }
    let log = place.ok(&["audit", "export", "--events-only"]);
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for kind in ["task_created", "task_ended"] {
        let mut of_kind: BTreeMap<&str, usize> = BTreeMap::new();
        for event in events.iter().filter(|event| event["kind"] == kind) {
            *of_kind.entry(event["taskId"].as_str().unwrap()).or_default() += 1;
        }
        assert_eq!(of_kind.len(), tasks.len(), "{kind}");
        assert!(of_kind.values().all(|count| *count == 1), "{kind}: {of_kind:?}");
    }
}
