//! What commands talk to: the gateway that runs on the data folder, or one of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use arc_swap::ArcSwap;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use drawgate_core::redact::Redactor;
use drawgate_core::registry::{SourceState, SourceStatus};
use drawgate_host::store::{DataDir, DataDirError};
use drawgate_sources::suggest::nearest;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::BodyExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt;

use super::Context;
use super::exit::Exit;
use super::machine::runtime_options;
use super::progress::Progress;
use super::running::Running;
use super::screen::count;
use crate::server::{self, Server, Timeouts};
use crate::surface::control::{APPROVAL_SOCKET, Control, NameList, Refused, UnknownName};
use crate::surface::mcp::{Mcp, Sessions};
use crate::telemetry::Spans;
use drawgate_runtime::assemble::{Runtime, RuntimeOptions, Start, StateLocation};
use drawgate_runtime::config::{Config, Loaded};
use drawgate_runtime::operations::{ListedTool, ServerReport};

/// How long a gateway of a command's own waits for its sources.
const SETTLE: Duration = Duration::from_secs(15);
/// How long a gateway that has the folder and does not answer is waited for, beyond the time that calls of
/// one that ends may take.
const SUCCESSION: Duration = Duration::from_secs(5);
/// How often another process is asked whether its sources have started.
const PAUSE: Duration = Duration::from_millis(100);
/// How long decisions about calls of a command's own gateway get to be answered, when it ends.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Sessions in a gateway of a command's own.
const FEW_SESSIONS: usize = 16;

/// A gateway to talk to.
pub(super) enum Backend {
    /// Another process.
    Running(Running),
    /// This process.
    Own(Box<OwnGateway>),
}

/// A gateway of a command's own, without an endpoint.
pub(super) struct OwnGateway {
    loaded: Loaded,
    data: PathBuf,
    start: Start,
    /// Which sources are waited for.
    waits_for: WaitsFor,
    is_home: bool,
    opened: tokio::sync::Mutex<Opened>,
}

/// The sources that a gateway of a command's own waits for before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// All of them: each has started, or failed.
    All,
    /// Those whose tools are not known from before.
    Unlisted,
}

/// What of it is open.
enum Opened {
    Nothing,
    /// In memory, on a data folder that is not there: a command that only looks creates none.
    Memory(Box<Runtime>, Router),
    /// In its folder.
    Folder(Box<Runtime>, Router, Option<ApprovalSocket>),
}

impl Backend {
    /// Finds the running gateway, or puts one together without an endpoint.
    pub(super) async fn open(context: &Context, start: Start) -> anyhow::Result<Self> {
        Self::open_and_wait(context, start, WaitsFor::All).await
    }

    /// The same, where not all sources need to have started.
    pub(super) async fn open_and_wait(
        context: &Context,
        start: Start,
        waits_for: WaitsFor,
    ) -> anyhow::Result<Self> {
        if let Some(running) = Running::find(&context.data).await {
            context.warn_of_errors();
            return Ok(Self::Running(running));
        }
        let loaded = match start {
            Start::Sources => context.whole()?,
            Start::Nothing => {
                context.warn_of_errors();
                &context.loaded
            }
        };
        context.note_other_gateway().await;
        let own = OwnGateway::new(context, loaded.clone(), start, waits_for);
        if own.data.exists() { own.opened(context).await } else { Ok(Self::Own(Box::new(own))) }
    }

    /// A gateway of our own that starts these servers once, all at the same time: their tools are known at the
    /// next start, before they are up.
    pub(super) async fn open_for_trial(context: &Context, names: &[&str]) -> anyhow::Result<Self> {
        let mut loaded = Config::load(context.loaded.source.clone())?;
        for (id, server) in &mut loaded.config.servers {
            server.enabled &= names.contains(&id.as_str());
        }
        let own = OwnGateway::new(context, loaded, Start::Sources, WaitsFor::All);
        own.opened(context).await
    }

    /// The same for approvals: those of a gateway that another command has for itself, too.
    pub(super) async fn open_for_approvals(context: &Context) -> anyhow::Result<Self> {
        if Running::find(&context.data).await.is_none()
            && let Some(of_command) = Running::find_own(&context.data).await
        {
            context.warn_of_errors();
            return Ok(Self::Running(of_command));
        }
        Self::open(context, Start::Nothing).await
    }

    /// The same for a call of one tool. A gateway of our own starts only the servers that its name begins
    /// with; where none of them has it, all.
    pub(super) async fn open_for_call(context: &Context, tool: &str) -> anyhow::Result<Self> {
        if Running::find(&context.data).await.is_none() {
            let mut loaded = context.whole()?.clone();
            for (id, server) in &mut loaded.config.servers {
                let rest = tool.strip_prefix(id.as_str());
                server.enabled &= rest.is_some_and(|rest| rest.starts_with(['_', ':']));
            }
            let own = OwnGateway::new(context, loaded, Start::Sources, WaitsFor::Unlisted);
            let few = own.opened(context).await?;
            let tools: Vec<ListedTool> = few.get("/tools").await?;
            let is_it = |it: &ListedTool| it.wire_name.as_str() == tool || it.tool_id == tool;
            if few.is_running() || tools.iter().any(is_it) {
                return Ok(few);
            }
            few.close().await;
        }
        Self::open(context, Start::Sources).await
    }

    /// Whether it is the gateway that callers use.
    pub(super) const fn is_running(&self) -> bool {
        match self {
            Self::Running(_) => true,
            Self::Own(_) => false,
        }
    }

    /// Waits until all sources have started or failed.
    pub(super) async fn settle(&self, limit: Duration) {
        match self {
            Self::Running(_) => self.settle_elsewhere(limit).await,
            Self::Own(own) => {
                if let Opened::Memory(runtime, _) | Opened::Folder(runtime, ..) =
                    &*own.opened.lock().await
                {
                    settle(runtime, limit, WaitsFor::All).await;
                }
            }
        }
    }

    async fn settle_elsewhere(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let progress = Progress::new("asking the gateway for its servers");
        while Instant::now() < until {
            // The next request reports what is wrong.
            let Ok(servers) = self.get::<Vec<ServerReport>>("/servers").await else { return };
            let statuses = servers.into_iter().map(|server| server.source.status);
            match still_starting(&statuses.collect::<Vec<_>>()) {
                Some(text) => progress.say(text),
                None => return,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks for something.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let answer = self.exchange(Method::GET, path, Vec::new()).await?;
        serde_json::from_slice(&answer).context("the gateway's answer can't be read")
    }

    /// Asks for bytes.
    pub(super) async fn get_bytes(&self, path: &str) -> anyhow::Result<Bytes> {
        self.exchange(Method::GET, path, Vec::new()).await
    }

    /// Has something done.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        let answer = self.exchange(Method::POST, path, serde_json::to_vec(body)?).await?;
        serde_json::from_slice(&answer).context("the gateway's answer can't be read")
    }

    /// Has something removed.
    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.exchange(Method::DELETE, path, Vec::new()).await.map(drop)
    }

    async fn exchange(&self, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Bytes> {
        let _progress = Progress::fallback("waiting for the gateway's answer");
        let answer = self.send(method, path, body).await?;
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        let Ok(refused) = serde_json::from_slice::<Refused>(answer.body()) else {
            bail!(
                "the gateway answered {}: {}",
                answer.status(),
                String::from_utf8_lossy(answer.body())
            )
        };
        let exit = match answer.status() {
            StatusCode::FORBIDDEN => Exit::Operator,
            StatusCode::SERVICE_UNAVAILABLE => Exit::Unavailable,
            _ => Exit::Failed,
        };
        let near = match &refused.unknown {
            Some(UnknownName { name, list }) => self.similar(*list, name).await,
            None => None,
        };
        let advice = near.or(refused.advice).map(|advice| format!("; {advice}"));
        Err(exit.error(format!("{}{}", refused.error, advice.unwrap_or_default())))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> anyhow::Result<Response<Bytes>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body))?;
        match self {
            Self::Running(running) => running.exchange(request).await,
            Self::Own(own) => {
                let router = own.router(request.method() == Method::GET).await?;
                let (head, body) = router.oneshot(request).await?.into_parts();
                Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
            }
        }
    }

    /// The question about a name that is not known: whether a similar one was meant.
    pub(super) async fn similar(&self, list: NameList, typed: &str) -> Option<String> {
        let answer = self.send(Method::GET, list.path(), Vec::new()).await.ok()?;
        let entries: Vec<Value> = serde_json::from_slice(answer.body()).ok()?;
        let names = |entry: &Value| {
            let names = list.members().iter().filter_map(|member| entry.pointer(member));
            names.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let names: Vec<String> = entries.iter().flat_map(names).collect();
        did_you_mean(typed, names.iter().map(String::as_str))
    }

    /// Ends a gateway of our own in order.
    pub(super) async fn close(self) {
        match self {
            Self::Running(_) => {}
            Self::Own(own) => {
                let _progress = Progress::new("ending the servers that were started");
                own.opened.into_inner().close().await;
            }
        }
    }
}

impl OwnGateway {
    fn new(context: &Context, loaded: Loaded, start: Start, waits_for: WaitsFor) -> Self {
        Self {
            loaded,
            data: context.data.clone(),
            start,
            waits_for,
            is_home: context.target.is_home,
            opened: tokio::sync::Mutex::new(Opened::Nothing),
        }
    }

    /// Opens it in its folder. Where another process has that, a gateway that starts or ends, that is
    /// waited for, and the next one that runs is talked to.
    async fn opened(self, context: &Context) -> anyhow::Result<Backend> {
        let drain = Duration::from_secs(self.loaded.config.server.drain_seconds);
        let until = Instant::now() + drain + SUCCESSION;
        let mut progress = None;
        loop {
            match self.in_folder().await {
                Ok(opened) => {
                    *self.opened.lock().await = opened;
                    return Ok(Backend::Own(Box::new(self)));
                }
                Err(error) if is_in_use(&error) => {}
                Err(error) => return Err(error),
            }
            progress.get_or_insert_with(|| Progress::new(changing(&context.data)));
            if let Some(running) = Running::find(&context.data).await {
                return Ok(Backend::Running(running));
            }
            if Instant::now() > until {
                let text = format!("{}, and does not answer", changing(&context.data));
                return Err(Exit::Unavailable.error(text));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The control routes, of a gateway that is opened now if need be.
    async fn router(&self, only_looks: bool) -> anyhow::Result<Router> {
        let mut opened = self.opened.lock().await;
        let is_enough = match &*opened {
            Opened::Nothing => false,
            Opened::Memory(..) => only_looks,
            Opened::Folder(..) => true,
        };
        if !is_enough {
            std::mem::replace(&mut *opened, Opened::Nothing).close().await;
            *opened = if only_looks { self.in_memory().await? } else { self.in_folder().await? };
        }
        match &*opened {
            Opened::Memory(_, router) | Opened::Folder(_, router, _) => Ok(router.clone()),
            Opened::Nothing => bail!("no gateway is open"),
        }
    }

    async fn in_memory(&self) -> anyhow::Result<Opened> {
        if !self.is_home {
            notice!("drawgate: no gateway has run on `{}` yet", self.data.display());
        }
        let (runtime, router) = Box::pin(self.runtime(StateLocation::Memory)).await?;
        Ok(Opened::Memory(runtime, router))
    }

    async fn in_folder(&self) -> anyhow::Result<Opened> {
        let (runtime, router) =
            Box::pin(self.runtime(StateLocation::Folder(self.data.clone()))).await?;
        // Where there are no sources, no call is held.
        let socket = match self.start {
            Start::Sources => ApprovalSocket::open(&runtime),
            Start::Nothing => None,
        };
        Ok(Opened::Folder(runtime, router, socket))
    }

    async fn runtime(&self, state: StateLocation) -> anyhow::Result<(Box<Runtime>, Router)> {
        let redactor = Arc::new(ArcSwap::from_pointee(Redactor::new([])));
        let options = runtime_options(&self.loaded, &self.data, self.start, redactor)?;
        let runtime = Runtime::open(RuntimeOptions { state, ..options }).await?;
        settle(&runtime, SETTLE, self.waits_for).await;
        let router = control(&runtime).router();
        Ok((Box::new(runtime), router))
    }
}

impl Opened {
    async fn close(self) {
        match self {
            Self::Nothing => {}
            Self::Memory(runtime, _) => runtime.close().await,
            Self::Folder(runtime, _, socket) => {
                if let Some(socket) = socket {
                    socket.close().await;
                }
                runtime.close().await;
            }
        }
    }
}

/// Where calls that a command's own gateway holds are decided from another terminal. It is not the control
/// socket: that gateway has perhaps not all servers, and is gone with its command.
struct ApprovalSocket {
    server: Server,
    path: PathBuf,
}

impl ApprovalSocket {
    fn open(runtime: &Runtime) -> Option<Self> {
        let path = runtime.data.join(APPROVAL_SOCKET);
        // Without it the call can still be decided afterwards.
        let listener = server::bind_unix(&path)
            .inspect_err(|error| tracing::warn!(%error, "the socket for approvals can't be opened"))
            .ok()?;
        let server = Server::with_timeouts(FEW_SESSIONS, Timeouts::default());
        tokio::spawn(server.clone().serve_unix(listener, control(runtime).approval_router()));
        Some(Self { server, path })
    }

    /// Ends it. Decisions that were made are answered.
    async fn close(self) {
        self.server.stop.cancel();
        // A leftover socket would only be tried in vain.
        let _ = std::fs::remove_file(self.path);
        self.server.connections.close();
        let _ = tokio::time::timeout(LAST_ANSWERS, self.server.connections.wait()).await;
        self.server.cut.cancel();
    }
}

/// Waits for the sources of a gateway of our own, and shows which are missing.
async fn settle(runtime: &Runtime, limit: Duration, waits_for: WaitsFor) {
    let supervisor = runtime.supervisor();
    let settled = async {
        match waits_for {
            WaitsFor::All => supervisor.settle(limit).await,
            WaitsFor::Unlisted => supervisor.settle_lists(limit).await,
        }
    };
    tokio::pin!(settled);
    let progress = Progress::new("starting servers");
    loop {
        tokio::select! {
            () = &mut settled => return,
            () = tokio::time::sleep(PAUSE) => {
                if let Some(text) = still_starting(&supervisor.status()) {
                    progress.say(text);
                }
            }
        }
    }
}

/// How many sources have started or failed, and which have not, in words; nothing if all have.
fn still_starting(statuses: &[SourceStatus]) -> Option<String> {
    let starting = statuses.iter().filter(|status| status.state == SourceState::Starting);
    let starting: Vec<&str> = starting.map(|status| status.id.as_str()).collect();
    let (done, all) = (statuses.len() - starting.len(), count(statuses.len(), "server"));
    let names = starting.join("`, `");
    (!starting.is_empty())
        .then(|| format!("starting servers: {done} of {all} done, waiting for `{names}`"))
}

/// The control routes of a runtime without an endpoint.
pub(super) fn control(runtime: &Runtime) -> Control {
    let (clock, ids) = (runtime.host.clock.clone(), runtime.host.ids.clone());
    let sessions = Sessions::new(FEW_SESSIONS, u64::MAX, clock, ids);
    let max_body = drawgate_runtime::config::Config::default().server.max_body_bytes;
    Control {
        operations: runtime.operations.clone(),
        mcp: Mcp::new(runtime.gateway().clone(), sessions, Spans::default(), max_body),
        endpoint: None,
        make_way: None,
        edits: Arc::clone(&runtime.edits),
    }
}

/// The question whether a name was meant that is similar to the one that was typed.
pub(super) fn did_you_mean<'a>(
    typed: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let others = names.into_iter().filter(|name| *name != typed);
    nearest(typed, others).map(|near| format!("did you mean `{near}`?"))
}

/// What is said of a data folder that is in use where no gateway answers.
pub(super) fn changing(data: &Path) -> String {
    let user =
        DataDir::user(data).map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"));
    let next = DataDir::successor(data)
        .map(|pid| format!("; `drawgate serve`, process {pid}, takes over"))
        .unwrap_or_default();
    format!("{user} starts or ends a gateway on `{}`{next}", data.display())
}

/// Whether the folder could not be opened because another process has it.
pub(super) fn is_in_use(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<DataDirError>(), Some(DataDirError::Locked { .. }))
}

/// A name as one part of a path.
pub(super) fn part(name: &str) -> String {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(name, ESCAPED).to_string()
}
