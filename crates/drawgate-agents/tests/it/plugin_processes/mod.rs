//! Plugins in processes of their own: real Node, real Python, the real sandbox. The gateway behind them is a
//! context that writes down what it is asked for.

mod bad_tools;
mod contract;
mod examples;
mod hostile;
mod lifecycle;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use drawgate_agents::plugin::process::{LoadError, ProcessLimits, ProcessPlugin, ProcessSettings};
use drawgate_agents::plugin::{
    CallMeta, InvokeOptions, InvokeResult, NewTask, Plugin, PluginContext, PluginError, TaskView,
};
use drawgate_core::model::ToolOutput;
use drawgate_core::source::{CallContext, SourceError};
use drawgate_host::Host;
use drawgate_host::sandbox::ResourceLimits;
use drawgate_host::secrets::Secrets;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::support::PATIENCE;

/// A variable of the gateway's environment that no plugin may see.
const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-not-for-plugins");

/// Writes down what a plugin asks for.
#[derive(Default)]
struct Recorder {
    asked: Mutex<Vec<String>>,
    stored: Mutex<BTreeMap<String, Value>>,
    /// What a model answers.
    output: Mutex<String>,
}

impl Recorder {
    fn note(&self, text: String) {
        self.asked.lock().push(text);
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// Waits until something was asked for.
    async fn until(&self, text: &str) {
        until(text, || self.asked.lock().iter().any(|asked| asked == text)).await;
    }
}

fn task_of(parent: &str) -> TaskView {
    let task = json!({
        "id": "task-1", "threadId": "thread-of-task", "parentThreadId": parent, "prompt": "do it",
        "state": "working", "iteration": 1, "maxIterations": 2,
    });
    serde_json::from_value(task).unwrap()
}

#[async_trait]
impl PluginContext for Recorder {
    async fn invoke(&self, prompt: String, options: InvokeOptions) -> InvokeResult {
        let tools = options.allowed_tools.join(",");
        self.note(format!("invoke {prompt} {:?} {:?} {tools}", options.model, options.timeout));
        let output = self.output.lock().clone();
        InvokeResult {
            output,
            duration_ms: 5,
            input_tokens: 3,
            output_tokens: 1,
            ..InvokeResult::default()
        }
    }

    async fn send_to_thread(&self, thread: &str, message: String) -> Result<(), PluginError> {
        if !thread.starts_with("thread-") {
            return Err(PluginError(format!("the plugin was not told of a thread `{thread}`")));
        }
        self.note(format!("send {thread} {message}"));
        Ok(())
    }

    async fn broadcast(&self, event: String, data: Value) -> Result<(), PluginError> {
        self.note(format!("{event} {}", data.as_str().unwrap_or_default()));
        Ok(())
    }

    async fn delegate(&self, task: NewTask) -> Result<TaskView, PluginError> {
        let (parent, model) = (&task.parent_thread_id, &task.model);
        self.note(format!("delegate {} {parent} {model:?} {:?}", task.prompt, task.max_iterations));
        Ok(task_of(parent))
    }

    async fn task(&self, id: &str) -> Result<TaskView, PluginError> {
        self.note(format!("task {id}"));
        Ok(task_of("thread-1"))
    }

    async fn check_in(&self, thread: &str, message: String) -> Result<(), PluginError> {
        self.note(format!("check in {thread} {message}"));
        Ok(())
    }

    async fn load(&self, key: &str) -> Result<Option<Value>, PluginError> {
        Ok(self.stored.lock().get(key).cloned())
    }

    async fn save(&self, key: &str, value: Option<Value>) -> Result<(), PluginError> {
        let mut stored = self.stored.lock();
        match value {
            Some(value) => stored.insert(key.to_owned(), value),
            None => stored.remove(key),
        };
        Ok(())
    }

    fn settings(&self) -> Value {
        json!({ "greeting": "hello" })
    }
}

/// A machine with a folder of the gateway's own, and folders for plugins.
struct Machine {
    folder: TempDir,
    host: Arc<Host>,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let path = "/usr/local/bin:/usr/bin:/bin";
        let environment = [("PATH", path), ("HOME", home.to_str().unwrap()), KEY]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let launcher = PathBuf::from(env!("CARGO_BIN_EXE_box-launcher"));
        let host = Host::new(Secrets::new(BTreeMap::from(environment)), Some(launcher)).unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::fs::write(folder.path().join("data/drawgate.db"), "secret").unwrap();
        Self { folder, host: Arc::new(host) }
    }

    /// Writes a plugin's files.
    fn write(&self, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let folder = self.folder.path().join("plugins").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (file, text) in files {
            std::fs::write(folder.join(file), text).unwrap();
        }
        folder
    }

    fn settings(&self, folder: &Path) -> ProcessSettings {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let workspace = self.folder.path().join("workspaces").join(name);
        std::fs::create_dir_all(&workspace).unwrap();
        ProcessSettings {
            folder: folder.to_owned(),
            workspace,
            node: Some(current_node()),
            python: None,
            resources: ResourceLimits::default(),
            limits: ProcessLimits { start: Duration::from_secs(30), ..ProcessLimits::default() },
        }
    }

    async fn load(&self, folder: &Path) -> Result<(ProcessPlugin, Arc<Recorder>), LoadError> {
        self.load_with(self.settings(folder)).await
    }

    async fn load_with(
        &self,
        settings: ProcessSettings,
    ) -> Result<(ProcessPlugin, Arc<Recorder>), LoadError> {
        let recorder = Arc::new(Recorder::default());
        let context = Arc::clone(&recorder) as Arc<dyn PluginContext>;
        let plugin = ProcessPlugin::load(settings, Arc::clone(&self.host), context).await?;
        Ok((plugin, recorder))
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/plugins").join(name)
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins").join(name)
}

/// The Node of the client tests, which is newer than a distribution's.
fn current_node() -> String {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/node_modules");
    let node = modules.join(format!("node-linux-{arch}/bin/node"));
    let node =
        node.canonicalize().expect("`./test packages` installs the Node of the client tests");
    node.to_str().unwrap().to_owned()
}

fn in_thread(thread: &str, task: Option<&str>) -> CallMeta {
    CallMeta { thread_id: thread.to_owned(), task_id: task.map(str::to_owned) }
}

fn call_context() -> CallContext {
    CallContext {
        deadline: (Instant::now() + PATIENCE).into(),
        cancel: CancellationToken::new(),
        progress: None,
        trace: None,
        meta: Map::new(),
        client: Arc::default(),
        input: None,
        resume: None,
        affinity: "local".into(),
        lineage: None,
        carried: Arc::default(),
    }
}

async fn call(plugin: &ProcessPlugin, tool: &str, input: Value) -> Result<ToolOutput, SourceError> {
    let Value::Object(input) = input else { panic!("input is an object") };
    let (meta, cx) = (in_thread("thread-1", None), call_context());
    let work = plugin.call(tool, input, &meta, &cx);
    tokio::time::timeout(PATIENCE, work).await.expect("a call ends")
}

fn text(output: &ToolOutput) -> &str {
    output.content.first().and_then(|block| block["text"].as_str()).unwrap_or_default()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let wait = async {
        while !condition() {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never happened: {what}"));
}
