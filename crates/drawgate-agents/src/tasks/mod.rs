//! Delegated work: tasks that runs of their own work on, and that plugins review.
//!
//! A task is kept like a run: every change is in the store before its effect, and `cycle` goes on where
//! the record says. The first run of each iteration is stored in one step with the task itself. What a plugin
//! answers is stored as it comes, so that only those are asked again after a restart who were not heard.

mod cycle;
pub mod record;
mod verdict;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::{Caller, CapabilityGrant, Principal, Surface};
use drawgate_core::store::{Owed, StoreError, Write};
use parking_lot::Mutex;

use self::record::{TaskParent, TaskRecord, TaskState};
pub use self::view::TaskDetails;
use crate::plugin::{Hook, HookAnswer, HookEvent, PluginError, TaskView};
use crate::profile::{Budget, Invoker, Profile, ToolChoice};
use crate::runs::store::Change;
use crate::runs::{NewRun, Origin, Runs, StartError};

/// The kind of the documents.
const KIND: &str = "delegated_task";
/// How often a task is tried unless it says, and at most.
const ITERATIONS: u32 = 5;
const MAX_ITERATIONS: u32 = 20;
/// Bytes of a prompt, and of a message.
const MAX_PROMPT: usize = 256 * 1024;
const MAX_MESSAGE: usize = 16 * 1024;
/// Messages that are kept for a caller that is no run; the oldest go first.
const MAX_MESSAGES: usize = 50;
/// Messages that may wait for a run.
const MAX_WAITING: usize = 100;
/// What an agent without a profile is told that works for a caller that is no run.
const INSTRUCTIONS: &str = "You work on a task that was delegated to you. Do all of it yourself, and answer \
    with the result: whoever delegated it reads nothing else.";

/// The limits of tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSettings {
    /// Tasks of one run that are not over.
    pub max_open_per_run: usize,
    /// Tasks of one principal that are not over.
    pub max_open_per_principal: usize,
    /// How long a plugin may take that is told of a task.
    pub notice: Duration,
    /// How long a plugin may take that reviews a result.
    pub review: Duration,
    /// How long a plugin is waited for that is not at work, such as after a restart.
    pub absent: Duration,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            max_open_per_run: 8,
            max_open_per_principal: 64,
            notice: Duration::from_secs(5),
            review: Duration::from_mins(2),
            absent: Duration::from_secs(10),
        }
    }
}

/// The plugins that are told of tasks and review them.
#[async_trait]
pub trait TaskHooks: Send + Sync + 'static {
    /// Those that want a hook now, in the order in which they are asked.
    fn wanting(&self, hook: Hook) -> Vec<String>;

    /// Asks one of them: waits `absent` for it to be there, and `answer` for what it says.
    async fn ask(
        &self,
        plugin: &str,
        event: HookEvent,
        absent: Duration,
        answer: Duration,
    ) -> Result<HookAnswer, PluginError>;
}

/// Work to delegate, with who delegates it.
pub struct Delegation {
    /// The caller. One with a lineage is the run that hears of the end.
    pub caller: Caller,
    /// The step of the run's call, where calls are steps.
    pub step: Option<u32>,
    /// The conversation from which it is delegated.
    pub parent_thread: String,
    /// The plugin by which it is delegated.
    pub plugin: String,
    /// What is to be done.
    pub prompt: String,
    /// The model; that of the run without one.
    pub model: Option<String>,
    /// How often it may be tried.
    pub max_iterations: Option<u32>,
}

/// Why a task can't be created or changed.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The prompt is empty or too long.
    #[error("`prompt` must have 1 to {MAX_PROMPT} bytes; it has {0}")]
    Prompt(usize),
    /// The message is empty or too long.
    #[error("a message must have 1 to {MAX_MESSAGE} bytes; it has {0}")]
    Message(usize),
    /// Too few or too many iterations.
    #[error("`maxIterations` must be 1 to {MAX_ITERATIONS}; it is {0}")]
    Iterations(u32),
    /// Too many tasks of one run.
    #[error("{0} tasks of this run are not over; wait for one to end")]
    OpenPerRun(usize),
    /// Too many tasks of one principal.
    #[error("{0} tasks of `{1}` are not over; wait for one to end")]
    OpenPerPrincipal(usize, String),
    /// No task belongs to the conversation.
    #[error("conversation `{0}` works on no task; say it in the answer instead")]
    NoTask(String),
    /// Nobody reads the conversation.
    #[error("no run is at work in conversation `{0}`, and no caller can ask for messages to it")]
    NobodyThere(String),
    /// Nobody has read the messages of before.
    #[error("{MAX_WAITING} messages wait for the run already; send it later")]
    TooManyMessages,
    /// The run can't be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store can't be written.
    #[error("the task can't be stored")]
    Store(#[from] StoreError),
}

/// All tasks of a gateway. Cheap to clone.
#[derive(Clone)]
pub struct Tasks(Arc<Inner>);

struct Inner {
    runs: Runs,
    hooks: Arc<dyn TaskHooks>,
    settings: ArcSwap<TaskSettings>,
    /// Tasks that are not settled.
    open: Mutex<BTreeMap<String, Arc<OpenTask>>>,
    /// One is created at a time, so that limits hold.
    creating: tokio::sync::Mutex<()>,
}

/// A task that is not settled, in memory.
struct OpenTask {
    record: Mutex<TaskRecord>,
    /// One change at a time, from reading to writing.
    changing: tokio::sync::Mutex<()>,
}

impl OpenTask {
    fn new(record: TaskRecord) -> Arc<Self> {
        Arc::new(Self { record: Mutex::new(record), changing: tokio::sync::Mutex::default() })
    }

    fn read(&self) -> TaskRecord {
        self.record.lock().clone()
    }
}

impl Tasks {
    /// Tasks that these runs work on; none is taken up yet.
    #[must_use]
    pub fn new(runs: Runs, hooks: Arc<dyn TaskHooks>) -> Self {
        Self(Arc::new(Inner {
            runs,
            hooks,
            settings: ArcSwap::default(),
            open: Mutex::default(),
            creating: tokio::sync::Mutex::default(),
        }))
    }

    /// Puts other limits into force.
    pub fn configure(&self, settings: TaskSettings) {
        self.0.settings.store(Arc::new(settings));
    }

    /// Delegates work; its first run is started when this returns. A call of a run that is made again has the
    /// task of the first time.
    pub async fn delegate(&self, new: Delegation) -> Result<TaskView, TaskError> {
        let _alone = self.0.creating.lock().await;
        if let Some(known) = self.0.of_call(&new) {
            return Ok(known.read().view());
        }
        let task = self.0.task(new)?;
        self.0.admit(&task)?;
        let parent = task.parent.clone();
        if let Some(parent) = &parent {
            self.0.runs.0.await_task(&parent.run, &task.id);
        }
        match self.create(&task).await {
            Ok(task) => Ok(task),
            Err(error) => {
                if let Some(parent) = &parent {
                    self.0.runs.0.task_is_over(&parent.run, &task.id);
                }
                Err(error)
            }
        }
    }

    async fn create(&self, task: &TaskRecord) -> Result<TaskView, TaskError> {
        let new = self.0.run_of(task, task.prompt.clone())?;
        let mut stored = None;
        self.0
            .runs
            .start_with(new, |run| {
                let mut task = task.clone();
                task.runs.push(run.id.clone());
                let owed = self.0.runs.0.acts.owe(self.0.event(EventKind::TaskCreated, &task));
                let writes = vec![self.0.put(&task)?, Write::Owe(owed.clone())];
                stored = Some((task, owed));
                Ok(writes)
            })
            .await?;
        let Some((task, owed)) = stored else { return Err(StartError::Stopping.into()) };
        let view = task.view();
        let task = OpenTask::new(task);
        self.0.open.lock().insert(view.id.clone(), Arc::clone(&task));
        self.0.runs.0.acts.report(owed).await;
        self.drive(task);
        Ok(view)
    }

    /// Takes up all runs and tasks that are not over; how many runs there are. To be called once, when
    /// tools can be called again and plugins are at work.
    pub async fn recover(&self) -> Result<usize, StoreError> {
        let inner = &self.0;
        let mut tasks = Vec::new();
        // Meanwhile none is between the store and memory.
        let alone = inner.creating.lock().await;
        for record in inner.stored("").await?.into_iter().filter(|task| !task.settled) {
            if inner.open.lock().contains_key(&record.id) {
                continue;
            }
            // Before the runs go on, so that none ends that has to wait.
            if let Some(parent) = record.parent.as_ref().filter(|_| !record.state.is_over()) {
                inner.runs.0.await_task(&parent.run, &record.id);
            }
            let task = OpenTask::new(record);
            inner.open.lock().insert(task.read().id, Arc::clone(&task));
            tasks.push(task);
        }
        drop(alone);
        let count = inner.runs.recover().await?;
        for task in tasks {
            self.drive(task);
        }
        Ok(count)
    }

    /// Tells whoever delegated a task how it gets on. `thread` is the task's own conversation.
    pub async fn check_in(&self, thread: &str, message: String) -> Result<(), TaskError> {
        checked(&message)?;
        let task = self.0.open.lock().get(thread).cloned();
        let is_open = |task: &Arc<OpenTask>| !task.record.lock().state.is_over();
        let task = task.filter(is_open).ok_or_else(|| TaskError::NoTask(thread.to_owned()))?;
        let (parent, from) = {
            let record = task.record.lock();
            (record.parent.clone(), format!("task {}", record.id))
        };
        match parent {
            Some(parent) => {
                let is_taken = self.0.send_to_run(&parent.run, Some(&from), &message).await?;
                if is_taken { Ok(()) } else { Err(StartError::Ended.into()) }
            }
            None => self.0.keep_message(&task, message).await,
        }
    }

    /// Puts a message into a conversation: into the inbox of the run that is at work there, or where a
    /// caller that is no run can ask for it. Without `from` they are the words of the run's own caller.
    pub async fn say(
        &self,
        thread: &str,
        from: Option<&str>,
        message: String,
    ) -> Result<(), TaskError> {
        checked(&message)?;
        if let Some(run) = self.0.runs.at_work_in(thread)
            && self.0.send_to_run(&run, from, &message).await?
        {
            return Ok(());
        }
        match self.0.latest_of_caller(thread) {
            Some(task) => self.0.keep_message(&task, message).await,
            None => Err(TaskError::NobodyThere(thread.to_owned())),
        }
    }

    /// Lets the tasks of a principal have no further iteration: it is gone, and nothing is started in its
    /// name. Its runs are cancelled elsewhere.
    pub async fn stop_of(&self, principal: &Principal) {
        let is_own = |task: &&Arc<OpenTask>| task.record.lock().principal == *principal;
        let own: Vec<_> = self.0.open.lock().values().filter(is_own).cloned().collect();
        for task in own {
            self.0.change(&task, |next| next.max_iterations = next.iteration).await;
        }
    }

    /// Removes tasks that were over too long ago; how many went.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let oldest = self.0.runs.0.oldest_kept();
        let old =
            self.0.stored("").await?.into_iter().filter(|task| {
                task.settled && task.ended_at.is_some_and(|ended_at| ended_at < oldest)
            });
        let mut removed = 0;
        for task in old {
            self.0.runs.0.store.remove_sealed(KIND, task.id).await?;
            removed += 1;
        }
        Ok(removed)
    }
}

fn checked(message: &str) -> Result<(), TaskError> {
    let fits = !message.is_empty() && message.len() <= MAX_MESSAGE;
    if fits { Ok(()) } else { Err(TaskError::Message(message.len())) }
}

impl Inner {
    /// The task that a call has delegated before, as far as it is not settled.
    fn of_call(&self, new: &Delegation) -> Option<Arc<OpenTask>> {
        let run = &new.caller.lineage.as_ref().filter(|_| new.step.is_some())?.run;
        let open = self.open.lock();
        let mut of_call = open.values().filter(|task| {
            let record = task.record.lock();
            let parent = record.parent.as_ref();
            parent.is_some_and(|parent| *parent.run == **run && parent.step == new.step)
        });
        of_call.next().cloned()
    }

    /// The newest task of a caller that is no run, by its conversation.
    fn latest_of_caller(&self, thread: &str) -> Option<Arc<OpenTask>> {
        let open = self.open.lock();
        let own = open.values().filter(|task| {
            let record = task.record.lock();
            record.parent.is_none() && record.parent_thread == thread
        });
        own.max_by_key(|task| task.record.lock().created_at).cloned()
    }

    /// The record of a new task, without its run.
    fn task(&self, new: Delegation) -> Result<TaskRecord, TaskError> {
        if new.prompt.is_empty() || new.prompt.len() > MAX_PROMPT {
            return Err(TaskError::Prompt(new.prompt.len()));
        }
        let max_iterations = new.max_iterations.unwrap_or(ITERATIONS);
        if !(1..=MAX_ITERATIONS).contains(&max_iterations) {
            return Err(TaskError::Iterations(max_iterations));
        }
        let parent = new
            .caller
            .lineage
            .as_ref()
            .map(|lineage| TaskParent { run: lineage.run.to_string(), step: new.step });
        let profile = match &parent {
            Some(parent) => self.profile_like(&parent.run).ok_or(StartError::Ended)?,
            None => anonymous(&new.plugin),
        };
        let carried = new.caller.carried.iter().map(|grant| CapabilityGrant::clone(grant));
        let mut task = TaskRecord {
            id: self.runs.0.gateway.ids().unique(),
            parent_thread: new.parent_thread,
            parent,
            plugin: new.plugin,
            principal: new.caller.principal.clone(),
            carried: carried.collect(),
            profile,
            model: new.model,
            prompt: new.prompt,
            state: TaskState::Working,
            iteration: 1,
            max_iterations,
            runs: Vec::new(),
            result: None,
            feedback: None,
            questions: Vec::new(),
            messages: Vec::new(),
            created_at: self.runs.0.now(),
            ended_at: None,
            settled: false,
        };
        task.ask(Hook::OnTaskCreate, self.hooks.wanting(Hook::OnTaskCreate));
        Ok(task)
    }

    /// A profile like that of a run. Budgets are drawn from the run's own anyway.
    fn profile_like(&self, run: &str) -> Option<Profile> {
        let run = self.runs.0.find(run).filter(|run| run.end().is_none())?;
        let profile = run.record.lock().profile.clone();
        Some(Profile { budget: Budget::default(), ..profile })
    }

    fn admit(&self, task: &TaskRecord) -> Result<(), TaskError> {
        let settings = self.settings.load();
        if let Some(parent) = &task.parent {
            let open = self.runs.0.awaited_by(&parent.run);
            if open >= settings.max_open_per_run {
                return Err(TaskError::OpenPerRun(open));
            }
        }
        let open = self.open.lock();
        let own = open.values().filter(|other| {
            let other = other.record.lock();
            other.principal == task.principal && !other.state.is_over()
        });
        let count = own.count();
        if count >= settings.max_open_per_principal {
            return Err(TaskError::OpenPerPrincipal(count, task.principal.to_string()));
        }
        Ok(())
    }

    /// The next run of a task.
    fn run_of(&self, task: &TaskRecord, prompt: String) -> Result<NewRun, StartError> {
        let (caller, step) = match &task.parent {
            Some(parent) => {
                let run = self.runs.0.find(&parent.run).filter(|run| run.end().is_none());
                (run.ok_or(StartError::Ended)?.caller(), parent.step.unwrap_or_default())
            }
            None => (outsider(task), 0),
        };
        Ok(NewRun {
            caller,
            profile: Arc::new(task.profile.clone()),
            tool: None,
            prompt,
            model: task.model.clone(),
            answer: None,
            budget: Budget::default(),
            origin: Origin::Task { task: task.id.clone(), step },
            trace: None,
        })
    }

    fn put(&self, task: &TaskRecord) -> Result<Write, StoreError> {
        self.runs.0.store.put(KIND, task.id.clone(), task)
    }

    async fn stored(&self, prefix: &str) -> Result<Vec<TaskRecord>, StoreError> {
        self.runs.0.store.sealed(KIND, prefix).await
    }

    /// Puts a message into the inbox of a run; `false` if it takes none any more.
    async fn send_to_run(
        &self,
        run: &str,
        from: Option<&str>,
        message: &str,
    ) -> Result<bool, TaskError> {
        let runs = &self.runs.0;
        let Some(live) = runs.find(run).filter(|run| run.end().is_none()) else {
            return Ok(false);
        };
        if live.inbox.lock().len() >= MAX_WAITING {
            return Err(TaskError::TooManyMessages);
        }
        let message = runs.message(run, from, message.to_owned());
        runs.store.commit(&[Change::Message(&message)]).await?;
        let id = message.id.clone();
        let is_taken = runs.hand_over(run, message);
        if !is_taken {
            runs.store.commit(&[Change::Delivered(&id)]).await?;
        }
        Ok(is_taken)
    }

    async fn keep_message(&self, task: &OpenTask, message: String) -> Result<(), TaskError> {
        let _turn = task.changing.lock().await;
        let mut next = task.read();
        next.messages.push(message);
        let excess = next.messages.len().saturating_sub(MAX_MESSAGES);
        next.messages.drain(..excess);
        let write = self.put(&next)?;
        self.runs.0.store.commit(&[Change::Beside(&write)]).await?;
        *task.record.lock() = next;
        Ok(())
    }

    /// An event about a task.
    fn event(&self, kind: EventKind, task: &TaskRecord) -> EventDraft {
        let parent = task.parent.as_ref().map(|parent| parent.run.as_str());
        EventDraft::new(kind, self.runs.0.now())
            .text("principal", task.principal.as_str())
            .text("taskId", &task.id)
            .text("threadId", &task.id)
            .text("parentThreadId", &task.parent_thread)
            .text("runId", task.run())
            .maybe_text("parentRunId", parent)
            .text("plugin", &task.plugin)
            .number("iteration", u64::from(task.iteration))
    }

    fn owe_end(&self, task: &TaskRecord) -> Owed {
        let draft = self.event(EventKind::TaskEnded, task);
        self.runs.0.acts.owe(draft.text("state", task.state.as_str()))
    }
}

/// An agent without a profile. Its name can't be that of a profile.
fn anonymous(plugin: &str) -> Profile {
    Profile {
        name: format!("plugin:{plugin}"),
        description: format!("works on what was delegated by plugin `{plugin}`"),
        invoker: Invoker::Api,
        model: None,
        instructions: INSTRUCTIONS.to_owned(),
        tools: ToolChoice::default(),
        custom: Vec::new(),
        ceiling: None,
        budget: Budget::default(),
        max_turns: None,
        temperature: None,
        public: false,
        hash: String::new(),
    }
}

/// The caller of a task that no run delegated.
fn outsider(task: &TaskRecord) -> Caller {
    Caller {
        principal: task.principal.clone(),
        session: None,
        surface: Surface::RUN,
        carried: task.carried.iter().cloned().map(Arc::new).collect(),
        lineage: None,
    }
}
