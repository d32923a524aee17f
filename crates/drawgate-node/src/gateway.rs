//! One gateway of the program: what its methods do, and how it ends.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use drawgate_core::model::{Caller, ErrorCode, Principal, SourceId};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::redact::Redactor;
use drawgate_core::registry::SourceState;
use drawgate_core::source::ProgressSink;
use drawgate_runtime::Runtime;
use drawgate_runtime::assemble::{RuntimeOptions, Start, StateLocation};
use drawgate_runtime::config::Config;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::caller::caller;
use crate::calls::ToolCalls;
use crate::fault::Fault;
use crate::invocation::Invocation;
use crate::mailbox::Mailbox;
use crate::options::Options;
use crate::registered::Registered;
use crate::{fault, threads};

/// How long a synchronous method may take, and how long opening may, which may have to look through a
/// log that was not closed.
pub(crate) const METHOD_TIME: Duration = Duration::from_secs(5);
const OPEN_TIME: Duration = Duration::from_mins(1);

/// How long the end of an environment of Node waits for the end of its gateways.
const EXIT_TIME: Duration = Duration::from_secs(2);

/// How long calls that were ended may take to be answered.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// A gateway of the program.
pub(crate) struct Gateway {
    threads: &'static Handle,
    /// Absent once the gateway is closed.
    runtime: Mutex<Option<Arc<Runtime>>>,
    pub(crate) caller: Caller,
    pub(crate) registered: tokio::sync::Mutex<Registered>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) tool_calls: Arc<ToolCalls>,
    /// The calls under way, by the numbers that JavaScript gave them.
    calls: Mutex<HashMap<u32, CancellationToken>>,
    /// Cancelled by a reset, and replaced.
    since_reset: Mutex<CancellationToken>,
    /// Calls and waits under way.
    under_way: TaskTracker,
    /// What listeners in JavaScript are told of, and what tells them.
    followed: Mutex<BTreeSet<String>>,
    followers: TaskTracker,
    stop: CancellationToken,
    /// Nothing new begins, and then nothing is left.
    closing: CancellationToken,
    closed: CancellationToken,
}

impl Gateway {
    /// Opens a gateway.
    pub(crate) fn open(options: &Options, mailbox: Arc<Mailbox>) -> Result<Arc<Self>, Fault> {
        let threads = threads::start(options.threads()?).map_err(anyhow::Error::from)?;
        let principal = options.principal()?;
        let document = options.document()?;
        let loaded = Config::from_document(document.clone())?;
        let host = options.host()?;
        let state = match &options.data_dir {
            Some(folder) => {
                StateLocation::Folder(std::path::absolute(folder).map_err(anyhow::Error::from)?)
            }
            None => StateLocation::Memory,
        };
        let embedder = Some(principal.clone());
        let runtime = threads::wait(threads, OPEN_TIME, async move {
            let redactor = Arc::new(ArcSwap::from_pointee(Redactor::new([])));
            let (loaded, start) = (&loaded, Start::Sources);
            let options = RuntimeOptions { host, loaded, state, start, redactor, embedder };
            let runtime = Arc::new(Runtime::open(options).await?);
            runtime.start_upkeep();
            Ok(runtime)
        })?;
        Ok(Arc::new(Self {
            threads,
            runtime: Mutex::new(Some(runtime)),
            caller: caller(principal, options.session()?, &options.capabilities),
            registered: tokio::sync::Mutex::new(Registered::new(document)),
            mailbox,
            tool_calls: Arc::default(),
            calls: Mutex::default(),
            since_reset: Mutex::default(),
            under_way: TaskTracker::new(),
            followed: Mutex::default(),
            followers: TaskTracker::new(),
            stop: CancellationToken::new(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
        }))
    }

    pub(crate) fn runtime(&self) -> Result<Arc<Runtime>, Fault> {
        self.runtime.lock().clone().ok_or_else(Fault::closed)
    }

    /// Whoever acts through the methods of the class owns the gateway.
    pub(crate) fn actor() -> Principal {
        Principal::local()
    }

    /// Waits for work of a synchronous method.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> Result<T, Fault> {
        threads::wait(self.threads, METHOD_TIME, work)
    }

    /// Begins a call; its result goes to the mailbox under this number.
    pub(crate) fn call(self: &Arc<Self>, id: u32, text: &str) -> Result<(), Fault> {
        let runtime = self.runtime()?;
        let gateway = runtime.gateway().clone();
        let invocation: Invocation = fault::read(text, "the invocation")?;
        let progress = invocation.progress.then(|| {
            let sink = CallProgress { id, mailbox: Arc::clone(&self.mailbox) };
            Arc::new(sink) as Arc<dyn ProgressSink>
        });
        let call = invocation.into_call(gateway.ids());
        let cancel = self.since_reset.lock().child_token();
        self.calls.lock().insert(id, cancel.clone());
        let own = Arc::clone(self);
        self.under_way.spawn_on(
            async move {
                let options = CallOptions { progress, cancel, ..CallOptions::default() };
                let result = gateway.call(&own.caller, call, options).await;
                own.calls.lock().remove(&id);
                let text = serde_json::to_string(&result);
                own.mailbox.answer("result", id, text.as_deref().unwrap_or("null"));
            },
            self.threads,
        );
        Ok(())
    }

    /// The caller gave a call up.
    pub(crate) fn cancel(&self, id: u32) {
        if let Some(call) = self.calls.lock().get(&id) {
            call.cancel();
        }
    }

    /// Ends all calls under way.
    pub(crate) fn cancel_all(&self) {
        std::mem::take(&mut *self.since_reset.lock()).cancel();
    }

    /// Waits until a server, or every one, has been tried; the answer goes to the mailbox.
    pub(crate) fn ready(
        self: &Arc<Self>,
        id: u32,
        server: Option<SourceId>,
        limit: Duration,
    ) -> Result<(), Fault> {
        let runtime = self.runtime()?;
        let own = Arc::clone(self);
        self.under_way.spawn_on(
            async move {
                let waiting = is_ready(&runtime, server.as_ref(), limit);
                let done = tokio::select! {
                    done = waiting => done,
                    () = own.closing.cancelled() => Err(Fault::closed()),
                };
                drop(runtime);
                own.settle(id, done);
            },
            self.threads,
        );
        Ok(())
    }

    fn settle(&self, id: u32, done: Result<(), Fault>) {
        self.mailbox.answer("settled", id, &fault::text(done.map(|()| Value::Null)));
    }

    /// Has listeners told of a kind of events from now on.
    pub(crate) fn follow(&self, name: &str) -> Result<(), Fault> {
        let runtime = self.runtime()?;
        if !self.followed.lock().insert(name.to_owned()) {
            return Ok(());
        }
        let (gateway, mailbox) = (runtime.gateway().clone(), Arc::clone(&self.mailbox));
        match name {
            "audit" => {
                let (audit, head) = (Arc::clone(runtime.audit()), gateway.audit_head());
                self.spawn_follower(crate::events::follow_audit(audit, mailbox, head));
            }
            "tools" => {
                let mut revisions = gateway.registry_changes();
                revisions.mark_unchanged();
                self.spawn_follower(crate::events::follow_tools(gateway, mailbox, revisions));
            }
            "approval" => {
                let requests = gateway.approval_requests();
                let operations = Arc::clone(&runtime.operations);
                let follow = crate::events::follow_approvals(operations, mailbox, requests);
                self.spawn_follower(follow);
            }
            _ => {}
        }
        Ok(())
    }

    fn spawn_follower(&self, follow: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        let follow = async move {
            stop.run_until_cancelled_owned(follow).await;
        };
        self.followers.spawn_on(follow, self.threads);
    }

    /// Ends the gateway: no new calls from now on, `grace` for those under way. The answer goes to the
    /// mailbox.
    pub(crate) fn close(self: &Arc<Self>, id: u32, grace: Duration) {
        let own = Arc::clone(self);
        self.threads.spawn(async move {
            own.end(grace).await;
            own.settle(id, Ok(()));
        });
    }

    /// The environment of Node ends: nothing reaches JavaScript any more.
    pub(crate) fn abandon(self: &Arc<Self>) {
        self.mailbox.close();
        self.tool_calls.end_all();
        let own = Arc::clone(self);
        let end = async move {
            own.end(Duration::ZERO).await;
            Ok(())
        };
        // What has not ended by then ends with the process.
        let _late = threads::wait(self.threads, EXIT_TIME, end);
    }

    async fn end(&self, grace: Duration) {
        let runtime = self.runtime.lock().take();
        let Some(runtime) = runtime else {
            self.closed.cancelled().await;
            return;
        };
        self.closing.cancel();
        self.under_way.close();
        let _grace_is_over = timeout(grace, self.under_way.wait()).await;
        runtime.gateway().stop();
        self.stop.cancel();
        self.followers.close();
        let _some_hang = timeout(ANSWER_TIME, self.under_way.wait()).await;
        self.followers.wait().await;
        runtime.close().await;
        // Another gateway may open the folder once the last reference is gone.
        drop(runtime);
        self.closed.cancel();
    }
}

/// Progress of a call, for who made it.
struct CallProgress {
    id: u32,
    mailbox: Arc<Mailbox>,
}

impl ProgressSink for CallProgress {
    fn report(&self, progress: Map<String, Value>) {
        self.mailbox.progress(self.id, &Value::Object(progress));
    }
}

/// Waits until a server, or every one, has been tried. Fails if it does not work.
async fn is_ready(
    runtime: &Runtime,
    server: Option<&SourceId>,
    limit: Duration,
) -> Result<(), Fault> {
    let supervisor = runtime.supervisor();
    match server {
        Some(id) => supervisor.settle_one(id, limit).await,
        None => supervisor.settle(limit).await,
    }
    let statuses = supervisor.status();
    let wanted: Vec<_> =
        statuses.iter().filter(|status| server.is_none_or(|id| status.id == *id)).collect();
    if let (Some(id), true) = (server, wanted.is_empty()) {
        let message = format!("there is no server `{id}`");
        return Err(Fault::new(ErrorCode::ResourceNotFound, message));
    }
    let starting: Vec<&str> = wanted
        .iter()
        .filter(|status| status.state == SourceState::Starting)
        .map(|status| status.id.as_str())
        .collect();
    if !starting.is_empty() {
        let message = format!("not ready within {} ms: {}", limit.as_millis(), starting.join(", "));
        return Err(Fault::new(ErrorCode::Timeout, message));
    }
    let problems: Vec<String> = wanted
        .iter()
        .filter(|status| status.state != SourceState::Ready)
        .map(|status| {
            let problem = status.problem.as_deref().unwrap_or("it is gone");
            format!("`{}`: {problem}", status.id)
        })
        .collect();
    if problems.is_empty() {
        return Ok(());
    }
    let text = problems.join("; ");
    let text = runtime.gateway().redactor().redact_text(&text).into_owned();
    Err(Fault::new(ErrorCode::Unavailable, text))
}
