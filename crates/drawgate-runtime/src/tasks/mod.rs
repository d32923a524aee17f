//! Tasks: calls that go on without their client. A client that knows the extension gets a task where a call
//! takes long, may leave, and fetches the result later, from this gateway or from its successor. How a
//! task is written is its surface's to say ([`Format`]).

mod record;
mod sinks;
mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::{
    Caller, CapabilityGrant, Client, ErrorCode, InputGiven, Principal, ToolInvocation, ToolResult,
};
use drawgate_core::pipeline::{CallOptions, Gateway, PageRequest};
use drawgate_core::registry::Resolution;
use drawgate_core::source::ProgressSink;
use drawgate_core::store::Documents;
use drawgate_host::seal::SealingKey;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::CancellationToken;

use record::Record;
pub use record::{LIFETIME_MS, Outcome, Status, Task};
use sinks::{CancelOnDrop, ResumeHandles, TaskProgress};
pub use stored::KIND;

/// Tasks in all and of one caller; more calls are simply waited for.
const MAX_TASKS: usize = 1000;
const MAX_EACH: usize = 100;
/// Of these, under way: each may hold a slot of its server for long.
const MAX_UNDER_WAY: usize = 16;
/// Rounds of questions in one task.
const MAX_ROUNDS: u32 = 16;

/// How a surface writes the results of its tasks.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The result of a call of this tool, or the error that takes its place.
    pub result: fn(&str, &ToolResult) -> Result<Value, Value>,
    /// An error of the gateway itself.
    pub failure: fn(&str) -> Value,
    /// How a client is asked to open a page, if it can.
    pub page_request: fn(&Client) -> Option<PageRequest>,
}

/// All tasks. Cheap to clone.
#[derive(Clone)]
pub struct Tasks(Arc<Inner>);

struct Inner {
    gateway: Gateway,
    documents: Arc<dyn Documents>,
    key: SealingKey,
    format: Format,
    /// How long a call is waited for before it becomes a task.
    after: Duration,
    live: Mutex<BTreeMap<String, LiveTask>>,
    /// One end at a time, so that memory and store agree on it.
    ending: tokio::sync::Mutex<()>,
    changed: broadcast::Sender<String>,
}

struct LiveTask {
    record: Record,
    cancel: CancellationToken,
    /// Whether its call waits for runs.
    waits: bool,
    /// Bytes of its result.
    size: usize,
}

/// The result of a call, or the task that it has become because it takes long.
pub enum TaskOrResult {
    /// It has ended.
    Done(Box<ToolResult>),
    /// It goes on as a task.
    Task(Box<Task>),
}

/// When a call becomes a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskOffer {
    /// When it takes long, or when its server has made a task of it: the client has shown that it follows tasks.
    WhenLong,
    /// When its server has made a task of it. Otherwise a client that does not follow tasks would lose the answer.
    WhenServerMakesOne,
}

impl Tasks {
    /// Makes a call, and a task of it if its server does, or if it takes long and the client is offered that.
    /// A client that leaves before that cancels it.
    pub async fn begin(
        &self,
        caller: &Caller,
        call: ToolInvocation,
        mut options: CallOptions,
        offer: TaskOffer,
    ) -> TaskOrResult {
        let handles =
            Arc::new(ResumeHandles { tasks: Arc::downgrade(&self.0), ..ResumeHandles::default() });
        let leaving = options.cancel.clone();
        // Its own token: the client's leaving must not end a task.
        let cancel = CancellationToken::new();
        let cancel_on_drop = CancelOnDrop { cancel: cancel.clone(), armed: true };
        options.cancel = cancel.clone();
        // Who has many under way gets no more time than others for the next.
        options.as_task = self.under_way(&caller.principal) < MAX_UNDER_WAY;
        let shown = options.progress.take();
        options.progress = Some(Arc::new(TaskProgress { shown, handles: Arc::clone(&handles) }));
        let (gateway, owner) = (self.0.gateway.clone(), caller.clone());
        let client = Arc::clone(&options.client);
        let (done, mut result) = oneshot::channel();
        let task_call = call.clone();
        let by_time = offer == TaskOffer::WhenLong;
        tokio::spawn(async move {
            // Whoever waited may be gone.
            let _ = done.send(gateway.call(&owner, call, options).await);
        });
        tokio::select! {
            biased;
            // Without any time to wait, no call is so fast that it becomes no task.
            result = &mut result, if !(by_time && self.0.after.is_zero()) => {
                return TaskOrResult::Done(Box::new(result.unwrap_or_else(|_| lost_result())));
            }
            () = tokio::time::sleep(self.0.after), if by_time => {}
            // The server has made a task of it: then it is one here, too.
            () = handles.arrived.notified() => {}
            () = leaving.cancelled() => cancel.cancel(),
            // Whoever waits is answered; what is a task already goes on.
            () = self.0.gateway.stopped() => cancel.cancel(),
        }
        let made = self.create(caller, &client, task_call, cancel, &handles).await;
        match made {
            Some(task) => {
                cancel_on_drop.disarm();
                let (tasks, id) = (self.clone(), task.id.clone());
                tokio::spawn(async move {
                    tasks.settle(&id, result.await.unwrap_or_else(|_| lost_result())).await;
                });
                TaskOrResult::Task(Box::new(task))
            }
            // No room for one more: then it is waited for like any other.
            None => TaskOrResult::Done(Box::new(result.await.unwrap_or_else(|_| lost_result()))),
        }
    }

    /// A task that is in the store before anybody hears of it. A run's calls don't become tasks: they
    /// end with the run, and what bounds it is not kept with a task.
    async fn create(
        &self,
        caller: &Caller,
        client: &Client,
        call: ToolInvocation,
        cancel: CancellationToken,
        handles: &ResumeHandles,
    ) -> Option<Task> {
        let gateway = &self.0.gateway;
        let now = gateway.clock().now_ms();
        let is_run = caller.lineage.is_some();
        if is_run || cancel.is_cancelled() || !self.has_room(&caller.principal) {
            return None;
        }
        let record = Record {
            id: gateway.ids().secret(),
            principal: caller.principal.clone(),
            surface: caller.surface.clone(),
            status: Status::Working,
            created_at: now,
            updated_at: now,
            carried: caller.carried.iter().map(|grant| CapabilityGrant::clone(grant)).collect(),
            capabilities: client.capabilities.clone(),
            call,
            handle: handles.given.lock().clone(),
            outcome: None,
            questions: Map::new(),
            answers: Map::new(),
            state: None,
            rounds: 0,
        };
        let (id, task) = (record.id.clone(), record.task());
        self.store(&record).await.ok()?;
        let tool = gateway.registry().resolve(&record.call.tool_id, caller, |_| true);
        let waits = matches!(tool, Resolution::Found(entry) if entry.waits());
        self.0.live.lock().insert(id.clone(), LiveTask { record, cancel, waits, size: 0 });
        // A handle that came meanwhile is not lost.
        if handles.task.set(id.clone()).is_ok()
            && let Some(handle) = handles.given.lock().clone()
        {
            tokio::spawn(self.clone().store_handle(id, handle));
        }
        Some(task)
    }

    /// Whether a call of a task is under way, or its outcome is not stored yet. Calls that wait for runs do
    /// not count.
    #[must_use]
    pub fn are_working(&self) -> bool {
        let live = self.0.live.lock();
        live.values().any(|task| task.record.status == Status::Working && !task.waits)
    }

    fn under_way(&self, principal: &Principal) -> usize {
        let live = self.0.live.lock();
        let own = live.values().filter(|task| task.record.principal == *principal);
        own.filter(|task| !task.record.status.is_over()).count()
    }

    fn has_room(&self, principal: &Principal) -> bool {
        let live = self.0.live.lock();
        let own = live.values().filter(|task| task.record.principal == *principal).count();
        live.len() < MAX_TASKS && own < MAX_EACH
    }

    /// What a call came to.
    async fn settle(&self, id: &str, result: ToolResult) {
        if let Some(required) = result.input_required {
            if self.ask(id, &required.requests, required.state) {
                return;
            }
            return self.fail(id, "the tool asks again and again").await;
        }
        let asked = self.tool_of(id).unwrap_or_default();
        let (status, outcome) = match (self.0.format.result)(&asked, &result) {
            Ok(result) => (Status::Completed, Outcome::Result(result)),
            Err(error) => (Status::Failed, Outcome::Error(error)),
        };
        self.end(id, status, Some(outcome)).await;
    }

    /// Shows a call's questions to whoever looks at the task; `false` if it has asked too often.
    fn ask(&self, id: &str, requests: &Map<String, Value>, state: Option<String>) -> bool {
        let now = self.0.gateway.clock().now_ms();
        let mut live = self.0.live.lock();
        let Some(task) = live.get_mut(id).filter(|task| !task.record.status.is_over()) else {
            return true;
        };
        let record = &mut task.record;
        record.rounds += 1;
        if record.rounds > MAX_ROUNDS {
            return false;
        }
        let round = record.rounds;
        let unique =
            |(key, question): (&String, &Value)| (format!("{round}.{key}"), question.clone());
        record.questions = requests.iter().map(unique).collect();
        record.answers = Map::new();
        record.state = state;
        record.status = Status::InputRequired;
        record.updated_at = now;
        drop(live);
        let _ = self.0.changed.send(id.to_owned());
        true
    }

    /// Takes answers. With the last one the call goes on.
    #[must_use]
    pub fn answer(&self, principal: &Principal, id: &str, given: Map<String, Value>) -> bool {
        let mut live = self.0.live.lock();
        let Some(task) = live.get_mut(id).filter(|task| task.record.principal == *principal) else {
            return false;
        };
        let record = &mut task.record;
        for (key, answer) in given {
            // Unknown and answered ones are ignored.
            if record.questions.shift_remove(&key).is_some()
                && let Some((_, own)) = key.split_once('.')
            {
                record.answers.insert(own.to_owned(), answer);
            }
        }
        if record.status != Status::InputRequired || !record.questions.is_empty() {
            return true;
        }
        record.status = Status::Working;
        let responses = std::mem::take(&mut record.answers);
        let mut call = record.call.clone();
        call.input = Some(InputGiven { responses, state: record.state.take() });
        let (caller, cancel) = (record.caller(), task.cancel.clone());
        let client = client_of(&task.record);
        drop(live);
        let (tasks, id) = (self.clone(), id.to_owned());
        tokio::spawn(async move {
            let progress: Option<Arc<dyn ProgressSink>> = Some(tasks.handles(&id));
            let options = CallOptions {
                cancel,
                page_request: (tasks.0.format.page_request)(&client),
                client,
                as_task: true,
                progress,
                ..CallOptions::default()
            };
            let result = tasks.0.gateway.call(&caller, call, options).await;
            tasks.settle(&id, result).await;
        });
        true
    }

    /// Ends a task, if it is this caller's. Over or not, the answer is the same.
    pub async fn cancel(&self, principal: &Principal, id: &str) -> bool {
        let state = {
            let mut live = self.0.live.lock();
            let Some(task) = live.get_mut(id).filter(|task| task.record.principal == *principal)
            else {
                return false;
            };
            task.cancel.cancel();
            if task.record.status.is_over() {
                return true;
            }
            task.record.state.take()
        };
        if let Some(state) = state {
            self.0.gateway.abandon(&state);
        }
        self.end(id, Status::Cancelled, None).await;
        true
    }

    /// A task of this caller's.
    #[must_use]
    pub fn get(&self, principal: &Principal, id: &str) -> Option<Task> {
        let now = self.0.gateway.clock().now_ms();
        let live = self.0.live.lock();
        let task = live
            .get(id)
            .filter(|task| task.record.principal == *principal && task.record.expires_at() > now)?;
        Some(task.record.task())
    }

    /// The ids of tasks, as they change.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<String> {
        self.0.changed.subscribe()
    }

    async fn fail(&self, id: &str, message: &str) {
        let error = (self.0.format.failure)(message);
        self.end(id, Status::Failed, Some(Outcome::Error(error))).await;
    }

    /// What can be seen to be over is in the store already.
    async fn end(&self, id: &str, status: Status, outcome: Option<Outcome>) {
        let _turn = self.0.ending.lock().await;
        let now = self.0.gateway.clock().now_ms();
        let ended = self.0.live.lock().get(id).map(|task| task.record.clone());
        let Some(mut ended) = ended.filter(|record| !record.status.is_over()) else { return };
        ended.status = status;
        ended.outcome = outcome;
        ended.updated_at = now;
        ended.questions = Map::new();
        if let Err(error) = self.store(&ended).await {
            tracing::error!(error, "the end of a task could not be kept");
        }
        if let Some(task) = self.0.live.lock().get_mut(id) {
            task.size = size_of(&ended);
            task.record = ended;
        }
        self.sweep().await;
        let _ = self.0.changed.send(id.to_owned());
    }

    fn handles(&self, id: &str) -> Arc<ResumeHandles> {
        let handles = ResumeHandles { tasks: Arc::downgrade(&self.0), ..ResumeHandles::default() };
        // It is new, so that nobody has set it.
        let _ = handles.task.set(id.to_owned());
        Arc::new(handles)
    }

    fn parts_of(&self, id: &str) -> Option<(Caller, ToolInvocation, Arc<Client>)> {
        let live = self.0.live.lock();
        let record = &live.get(id)?.record;
        Some((record.caller(), record.call.clone(), client_of(record)))
    }

    fn tool_of(&self, id: &str) -> Option<String> {
        Some(self.0.live.lock().get(id)?.record.call.tool_id.clone())
    }
}

fn client_of(record: &Record) -> Arc<Client> {
    let capabilities = record.capabilities.clone();
    Arc::new(Client { capabilities, knows_tasks: true, ..Client::default() })
}

fn size_of(record: &Record) -> usize {
    let Some(Outcome::Result(value) | Outcome::Error(value)) = &record.outcome else { return 0 };
    serde_json::to_string(value).map_or(0, |text| text.len())
}

/// The result of a call whose task has panicked.
fn lost_result() -> ToolResult {
    let error =
        drawgate_core::model::ToolError::new(ErrorCode::ExecutionFailed, "the call was lost");
    ToolResult {
        success: false,
        content: Vec::new(),
        structured_content: None,
        error: Some(error),
        meta: drawgate_core::model::ResultMeta::default(),
        artifacts: Vec::new(),
        rest: Map::new(),
        input_required: None,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
