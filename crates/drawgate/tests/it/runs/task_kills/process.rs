//! The gateway that is killed: this very program, with plugins that delegate and review, on a folder that it is
//! told by a variable.

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
use drawgate_core::model::{Caller, Principal, SourceId, Surface, ToolOutput};
use drawgate_core::redact::Redactor;
use drawgate_core::source::{CallContext, SourceError};
use drawgate_host::{Host, secrets::Secrets};
use drawgate_runtime::assemble::{RuntimeOptions, Start, StateLocation};
use drawgate_runtime::operations::StartRun;
use drawgate_runtime::{Runtime, config::Config};
use serde_json::{Map, Value};

use super::super::KEY;
use super::REVIEWED;
use crate::support::{TestFolder, eventually};

/// Where the process works, and the prompt of the run that it starts. Without one, it ends when all is done.
const FOLDER: &str = "DRAWGATE_TEST_FOLDER";
const PROMPT: &str = "DRAWGATE_TEST_PROMPT";
/// How long a review takes, so that some kills come meanwhile.
const REVIEW: Duration = Duration::from_millis(15);
/// The file by whose presence last reviews are answered that are held.
const RELEASED: &str = "released";

/// Starts the gateway.
pub(super) fn spawn(place: &TestFolder, prompt: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "runs::task_kills::process::gateway", "--nocapture"]);
    command.env(FOLDER, place.path()).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(place.path().join("gateway.log")).unwrap());
    if let Some(prompt) = prompt {
        command.env(PROMPT, prompt);
    }
    command.spawn().unwrap()
}

/// What the gateways have written down.
pub(super) fn journal(place: &TestFolder) -> Vec<String> {
    let text = std::fs::read_to_string(place.path().join("journal")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Has last reviews be answered that are held.
pub(super) fn release(place: &TestFolder) {
    std::fs::write(place.path().join(RELEASED), "").unwrap();
}

/// Writes lines that outlive the process.
struct Journal(PathBuf);

impl Journal {
    fn add(&self, line: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Reviews by the text of the result; writes down what it is asked.
struct Reviewer {
    name: SourceId,
    journal: Journal,
    /// The file that it waits for before it answers a last review.
    held: Option<PathBuf>,
}

/// The try that a result is of, and what is said about it. After `Last`, no other try follows.
enum Review {
    First(HookAnswer),
    Last(u32, Result<HookAnswer, PluginError>),
}

fn review(result: &str) -> Review {
    let rejected = |feedback: &str| HookAnswer::Verdict {
        accepted: false,
        feedback: Some(feedback.to_owned()),
    };
    match result {
        "first try" => Review::First(rejected("too short")),
        "second try" => Review::Last(2, Ok(HookAnswer::Verdict { accepted: true, feedback: None })),
        "poor try" => Review::First(rejected("too poor")),
        "poorer try" => Review::Last(2, Ok(rejected("too poor"))),
        "odd try" => Review::Last(1, Err(PluginError("it can't be said".to_owned()))),
        other => panic!("nobody tries this: {other}"),
    }
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
        let (task, iteration, answer, held) = match event {
            HookEvent::OnTaskComplete { task_id, result, .. } => match review(result) {
                Review::First(answer) => (task_id, 1, Ok(answer), None),
                Review::Last(iteration, answer) => {
                    (task_id, iteration, answer, self.held.as_deref())
                }
            },
            HookEvent::OnTaskCreate { task_id, .. } => (task_id, 1, Ok(HookAnswer::Nothing), None),
            HookEvent::OnTaskFailed { task_id, error, .. } => {
                let iteration = if error.contains("too poor") { 2 } else { 1 };
                (task_id, iteration, Ok(HookAnswer::Nothing), None)
            }
            other => return Err(PluginError(format!("not wanted: {other:?}"))),
        };
        self.journal.add(&key("asked", event.hook(), task, iteration));
        tokio::time::sleep(REVIEW).await;
        while held.is_some_and(|file| !file.exists()) {
            tokio::time::sleep(REVIEW).await;
        }
        answer
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
    let (place, prompt) = (PathBuf::from(place), std::env::var(PROMPT).ok());
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
    let reviewer = Reviewer {
        name: SourceId::new("reviewer").unwrap(),
        journal: Journal(place.join("journal")),
        held: (prompt.as_deref() == Some(REVIEWED)).then(|| place.join(RELEASED)),
    };
    for plugin in [delegation, Arc::new(reviewer)] {
        plugins.start(&plugin).await.unwrap();
        plugins.seat(plugin, 0).await;
    }
    operations.agents.refresh().await;
    runtime.supervisor().settle(Duration::from_secs(5)).await;
    runtime.start_upkeep();
    if let Some(prompt) = prompt {
        start(&runtime, prompt).await;
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

async fn start(runtime: &Runtime, prompt: String) {
    let caller = Caller {
        principal: Principal::local(),
        session: None,
        surface: Surface::EMBEDDED,
        carried: Arc::default(),
        lineage: None,
    };
    let start = StartRun {
        profile: "helper".to_owned(),
        prompt,
        model: None,
        budget: Budget::default(),
        thread: None,
        agent: None,
    };
    runtime.operations.start_run(caller, start).await.unwrap();
}
