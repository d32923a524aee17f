//! Hosts a plugin in a process of its own, in the sandbox.
//!
//! The process speaks JSON-RPC in lines on its standard streams. What it does to itself (a crash, a hang, a
//! flood) fails its own calls and nothing else: it is started again with growing pauses, and given up for
//! a while after five failures in a row.

mod answers;
mod asks;
mod call_hooks;
mod check;
mod child;
mod inbox;
mod launch;
mod observed;
mod pace;
mod report;
mod session;
mod supervise;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use drawgate_core::hooks::CallHook;
use drawgate_core::model::{SourceId, ToolOutput};
use drawgate_core::source::{CallContext, SourceError};
use drawgate_host::Host;
use drawgate_host::process::Spawn;
use drawgate_host::sandbox::ResourceLimits;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::call_hooks::CallHooks;
pub use self::check::Checked;
use self::check::NoGateway;
use self::child::Child;
use self::observed::Observed;
use self::report::Journal;
pub use self::report::ProcessReport;
use self::session::Session;
use self::supervise::Supervisor;
use super::declared::{self, Declared};
use super::problems::Problems;
use super::{
    CallMeta, Hook, HookAnswer, HookEvent, Plugin, PluginContext, PluginError, PluginManifest,
    PluginPermissions, PluginTool, wire,
};

/// How long a call waits for a process that is being started again.
const DOWN_PATIENCE: Duration = Duration::from_secs(5);

/// Where a plugin is, and what runs it.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// The plugin's folder, which its process reads.
    pub folder: PathBuf,
    /// A folder of its own that its process may write, and has as its home.
    pub workspace: PathBuf,
    /// The Node that runs it, a path or a name; the first `node` in `PATH` by default.
    pub node: Option<String>,
    /// The Python that runs it, a path or a name; the first `python3` in `PATH` by default.
    pub python: Option<String>,
    /// How much its process may use.
    pub resources: ResourceLimits,
    /// How long things may take.
    pub limits: ProcessLimits,
}

/// How long a plugin's process may take, and how often it is started again.
#[derive(Debug, Clone, Copy)]
pub struct ProcessLimits {
    /// To say what it offers, and to finish `start`.
    pub start: Duration,
    /// To stop, before it is killed.
    pub stop: Duration,
    /// To answer whether it is still there, after a request was given up.
    pub ping: Duration,
    /// For a hook that only tells.
    pub observe: Duration,
    /// Before it is started again the first time.
    pub first_pause: Duration,
    /// Before it is started again, at the longest.
    pub longest_pause: Duration,
    /// Before it is started again after five failures in a row.
    pub breaker_pause: Duration,
    /// How many hooks that only tell may wait.
    pub queue: usize,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(10),
            stop: Duration::from_secs(5),
            ping: Duration::from_secs(5),
            observe: Duration::from_secs(5),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_mins(1),
            breaker_pause: Duration::from_mins(5),
            queue: 1000,
        }
    }
}

/// Why a plugin can't be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Its manifest, or what it declares, is wrong.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// A folder can't be given to it.
    #[error("{0}")]
    Folder(String),
    /// Its process did not start.
    #[error("plugin `{plugin}` did not start: {reason}")]
    Start {
        /// The plugin.
        plugin: String,
        /// Why.
        reason: String,
    },
}

/// A plugin in a process of its own.
pub struct ProcessPlugin {
    shared: Arc<Shared>,
    declared: Declared,
    observed: Observed,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    _stop_on_drop: DropGuard,
}

/// What the parts of the host share.
struct Shared {
    id: SourceId,
    manifest: PluginManifest,
    spawn: Spawn,
    host: Arc<Host>,
    context: Arc<dyn PluginContext>,
    limits: ProcessLimits,
    journal: Journal,
    state: watch::Sender<State>,
    /// Whether it has begun its work, so that a process that follows must begin it, too.
    started: AtomicBool,
}

/// Where a plugin's process stands.
#[derive(Clone)]
enum State {
    Starting,
    Ready(Arc<Session>),
    Down { reason: Arc<str>, given_up: bool },
    Stopped,
}

impl State {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready(_) => "ready",
            Self::Down { given_up: false, .. } => "down",
            Self::Down { given_up: true, .. } => "given_up",
            Self::Stopped => "stopped",
        }
    }
}

impl ProcessPlugin {
    /// Reads a plugin's manifest, starts its process, and checks what it declares. Whoever calls has made
    /// sure that the operator agreed to this content.
    pub async fn load(
        settings: ProcessSettings,
        host: Arc<Host>,
        context: Arc<dyn PluginContext>,
    ) -> Result<Self, LoadError> {
        let manifest = PluginManifest::read(&settings.folder)?;
        let spawn = launch::spawn(&manifest, &settings, &host)?;
        let (shared, declared, child) =
            Self::introduced(manifest, spawn, &settings, host, context).await?;
        Ok(Self::serving(shared, declared, child))
    }

    /// Starts a plugin's process, asks what it offers, and ends it. No operator has agreed to it: it reads its
    /// own folder and nothing else, whatever its manifest asks for.
    pub async fn check(settings: ProcessSettings, host: Arc<Host>) -> Result<Checked, LoadError> {
        let manifest = PluginManifest::read(&settings.folder)?;
        let permissions = PluginPermissions::default();
        let without = PluginManifest { permissions, ..manifest.clone() };
        let spawn = launch::spawn(&without, &settings, &host)?;
        let context = Arc::new(NoGateway);
        let (shared, declared, child) =
            Self::introduced(manifest, spawn, &settings, host, context).await?;
        child.end(&shared.limits).await;
        let tools = declared.tools.into_iter().map(|tool| tool.name).collect();
        Ok(Checked { manifest: shared.manifest.clone(), tools, hooks: declared.hooks })
    }

    /// A process that has said what it offers, which is as it should be.
    async fn introduced(
        manifest: PluginManifest,
        spawn: Spawn,
        settings: &ProcessSettings,
        host: Arc<Host>,
        context: Arc<dyn PluginContext>,
    ) -> Result<(Arc<Shared>, Declared, Child), LoadError> {
        let failed =
            |plugin: &str, reason: String| LoadError::Start { plugin: plugin.to_owned(), reason };
        let id = SourceId::new(&manifest.name)
            .map_err(|error| failed(&manifest.name, error.to_string()))?;
        let shared = Arc::new(Shared {
            spawn,
            id,
            manifest,
            host,
            context,
            limits: settings.limits,
            journal: Journal::default(),
            state: watch::Sender::new(State::Starting),
            started: AtomicBool::new(false),
        });
        shared.set(State::Starting);
        let (child, statement) =
            Child::start(&shared).await.map_err(|reason| failed(shared.id.as_str(), reason))?;
        let declared = declared::check(&shared.manifest, &shared.id, statement)?;
        Ok((shared, declared, child))
    }

    fn serving(shared: Arc<Shared>, declared: Declared, child: Child) -> Self {
        let stop = CancellationToken::new();
        shared.set(State::Ready(Arc::clone(&child.session)));
        let supervisor = Supervisor {
            shared: Arc::clone(&shared),
            declared: declared.clone(),
            stop: stop.clone(),
        };
        Self {
            observed: Observed::new(&shared, stop.clone()),
            shared,
            declared,
            task: Mutex::new(Some(tokio::spawn(supervisor.run(child)))),
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        }
    }

    /// The plugin's manifest.
    #[must_use]
    pub fn manifest(&self) -> &PluginManifest {
        &self.shared.manifest
    }

    /// The sandbox profile that its process is held to.
    #[must_use]
    pub fn confinement(&self) -> &'static str {
        let profile = self.shared.spawn.confinement.as_ref().map(|confinement| confinement.profile);
        profile.unwrap_or_default().as_str()
    }

    /// How its process is.
    #[must_use]
    pub fn report(&self) -> ProcessReport {
        self.shared.journal.report()
    }
}

impl Shared {
    fn set(&self, state: State) {
        let name = state.as_str();
        self.journal.change(|report| report.state = name);
        self.state.send_replace(state);
    }

    fn down(&self, reason: &str, failures: u32, given_up: bool) {
        tracing::warn!(plugin = %self.id, reason, failures, given_up, "a plugin's process is down");
        self.journal.change(|report| {
            report.last_error = Some(reason.to_owned());
            report.failures = failures;
        });
        self.set(State::Down { reason: reason.into(), given_up });
    }

    fn dropped_hook(&self, why: &str) {
        tracing::debug!(plugin = %self.id, why, "a plugin was not told of a hook");
        self.journal.change(|report| report.dropped_hooks += 1);
    }

    /// The process, as soon as there is one. One that is being started again is waited for.
    async fn ready(&self) -> Result<Arc<Session>, SourceError> {
        let mut state = self.state.subscribe();
        let settled = |state: &State| match state {
            State::Starting | State::Down { given_up: false, .. } => false,
            State::Ready(_) | State::Down { given_up: true, .. } | State::Stopped => true,
        };
        // What it is after the wait is said below. What the wait returns holds a lock on the state, which
        // must not be held while the state is read again.
        drop(timeout(DOWN_PATIENCE, state.wait_for(settled)).await);
        let now = self.state.borrow().clone();
        let unreachable = |text: String| {
            Err(SourceError::unreachable(format!("the plugin `{}` {text}", self.id)))
        };
        match now {
            State::Ready(session) => Ok(session),
            State::Starting => unreachable("is being started".to_owned()),
            State::Down { reason, given_up: false } => unreachable(format!("is down: {reason}")),
            State::Down { reason, given_up: true } => unreachable(format!(
                "failed again and again, and is not started for some minutes: {reason}"
            )),
            State::Stopped => unreachable("is stopped".to_owned()),
        }
    }

    /// Tells the process of an event, or asks it.
    async fn tell(&self, event: &HookEvent) -> Result<Map<String, Value>, SourceError> {
        let params = serde_json::to_value(event)
            .map_err(|error| SourceError::Protocol(error.to_string()))?;
        self.ready().await?.ask("drawgate/hook", &params).await
    }
}

#[async_trait]
impl Plugin for ProcessPlugin {
    fn name(&self) -> &SourceId {
        &self.shared.id
    }

    fn version(&self) -> &str {
        &self.shared.manifest.version
    }

    fn tools(&self) -> Vec<PluginTool> {
        self.declared.tools.clone()
    }

    fn hooks(&self) -> BTreeSet<Hook> {
        self.declared.hooks.clone()
    }

    async fn start(&self) -> Result<(), PluginError> {
        let failed = |error: SourceError| PluginError(error.to_string());
        self.shared.started.store(true, Ordering::Release);
        let session = self.shared.ready().await.map_err(failed)?;
        session.begin(self.shared.limits.start).await.map_err(failed)
    }

    async fn stop(&self) {
        self.stop.cancel();
        let task = self.task.lock().take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, plugin = %self.shared.id, "the task that looks after a plugin has failed");
        }
    }

    async fn call(
        &self,
        tool: &str,
        input: Map<String, Value>,
        meta: &CallMeta,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let mut about =
            Map::from_iter([("dev.drawgate/threadId".to_owned(), json!(meta.thread_id))]);
        if let Some(task) = &meta.task_id {
            about.insert("dev.drawgate/taskId".to_owned(), json!(task));
        }
        let params = json!({ "name": tool, "arguments": input, "_meta": about });
        let work = async {
            let session = self.shared.ready().await?;
            let result = session.ask("tools/call", &params).await?;
            // A handler need not wait for what it asks for. A run whose call has delegated a task would end
            // before the task is known.
            session.settled().await;
            Ok::<_, SourceError>(result)
        };
        let result = tokio::select! {
            result = work => result?,
            () = cx.cancel.cancelled() => {
                return Err(SourceError::lost("the caller gave up"));
            }
        };
        answers::output(self.shared.id.as_str(), result)
    }

    async fn hook(&self, event: &HookEvent) -> Result<HookAnswer, PluginError> {
        let hook = event.hook();
        if !self.declared.hooks.contains(&hook) {
            return Ok(HookAnswer::Nothing);
        }
        if hook.observes() {
            self.observed.push(event.clone());
            return Ok(HookAnswer::Nothing);
        }
        let answer =
            self.shared.tell(event).await.map_err(|error| PluginError(error.to_string()))?;
        wire::answer(hook, &answer)
    }

    fn call_hook(&self) -> Option<Arc<dyn CallHook>> {
        let around = [Hook::RewriteCall, Hook::BeforeCall, Hook::AfterCall];
        let hooks: BTreeSet<Hook> =
            self.declared.hooks.iter().copied().filter(|hook| around.contains(hook)).collect();
        if hooks.is_empty() {
            return None;
        }
        Some(Arc::new(CallHooks { shared: Arc::clone(&self.shared), hooks }))
    }
}
