//! Streams that tell a client when its lists and the resources that it subscribed to change.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use drawgate_core::model::{Caller, Operation, Surface};
use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::caller::view::CallerView;
use crate::surface::mcp::lists::Prepared;
use crate::surface::mcp::methods::subscriptions;
use crate::surface::mcp::methods::tasks;
use crate::surface::mcp::methods::tools;
use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::session::subscribed::{MAX_EACH, Resource, Subscriptions};
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::state::streams::OpenStream;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::era::Era;
use crate::surface::mcp::wire::message::{RequestId, RpcError};
use crate::surface::mcp::wire::notice::Notice;
use crate::surface::mcp::wire::sse;
use drawgate_runtime::callers::Identity;

/// Where a message says which subscription it belongs to.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// How often a silent stream shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A client that does not take an event for this long is gone.
const SLOW_CLIENT: Duration = Duration::from_secs(30);
/// How long sources may take to accept the subscriptions of a stream.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The stream of a session, opened by GET.
pub(crate) fn session_stream(
    mcp: &Mcp,
    identity: Identity,
    session: &Arc<Session>,
    surface: Surface,
) -> Response {
    let Some(open_stream) = mcp.inner.streams.enter(&session.principal) else { return too_many() };
    let Identity { principal, carried, lineage } = identity;
    let session_id = Some(Arc::clone(&session.id));
    let caller = Caller { principal, session: session_id, surface, carried, lineage };
    let watcher = Watcher {
        mcp: mcp.clone(),
        caller,
        ended: session.closed.clone(),
        lists: List::ALL.to_vec(),
        uris: Vec::new(),
        tasks: Vec::new(),
        subscribed: Arc::clone(&session.subscribed),
        id: None,
        // Holding the session keeps it from ending as idle while somebody listens.
        _session: Some(Arc::clone(session)),
    };
    watcher.respond(open_stream)
}

/// The stream of `subscriptions/listen`.
pub(crate) fn subscription(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
    tools::check_meta(params)?;
    let empty = Map::new();
    let wanted = params.get("notifications").and_then(Value::as_object).unwrap_or(&empty);
    let task_ids = wanted.get("taskIds").and_then(Value::as_array);
    if task_ids.is_some() {
        tasks::check(peer)?;
    }
    let task_ids = task_ids.into_iter().flatten().filter_map(Value::as_str);
    let Some(open_stream) = mcp.inner.streams.enter(&peer.caller.principal) else {
        return Ok(too_many());
    };
    let is_wanted = |list: &List| wanted.get(list.member()) == Some(&Value::Bool(true));
    let uris = wanted.get("resourceSubscriptions").and_then(Value::as_array);
    let uris = uris.into_iter().flatten().filter_map(Value::as_str).take(MAX_EACH);
    let watcher = Watcher {
        mcp: mcp.clone(),
        caller: peer.caller.clone(),
        ended: CancellationToken::new(),
        lists: List::ALL.into_iter().filter(is_wanted).collect(),
        uris: uris.map(str::to_owned).collect(),
        tasks: task_ids.take(MAX_EACH).map(str::to_owned).collect(),
        subscribed: Arc::default(),
        id: Some(id.clone()),
        _session: None,
    };
    Ok(watcher.respond(open_stream))
}

fn too_many() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "too many streams are open\n").into_response()
}

/// The lists of which a client may want to hear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Tools,
    Prompts,
    Resources,
}

impl List {
    const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    const fn member(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
            Self::Resources => "resourcesListChanged",
        }
    }

    const fn notice(self) -> Notice {
        match self {
            Self::Tools => Notice::ToolsChanged,
            Self::Prompts => Notice::PromptsChanged,
            Self::Resources => Notice::ResourcesChanged,
        }
    }

    fn changed(self, now: &Prepared, before: &Prepared) -> bool {
        match self {
            Self::Tools => now.tools.digest != before.tools.digest,
            Self::Prompts => now.prompts.digest != before.prompts.digest,
            Self::Resources => {
                now.resources.digest != before.resources.digest
                    || now.templates.digest != before.templates.digest
            }
        }
    }
}

struct Watcher {
    mcp: Mcp,
    caller: Caller,
    ended: CancellationToken,
    lists: Vec<List>,
    /// Resources to subscribe to at first.
    uris: Vec<String>,
    /// Tasks to hear of.
    tasks: Vec<String>,
    subscribed: Arc<Subscriptions>,
    /// The request that asked for the stream, where one did.
    id: Option<RequestId>,
    _session: Option<Arc<Session>>,
}

impl Watcher {
    fn respond(self, open_stream: OpenStream) -> Response {
        let (events, received) = mpsc::channel(4);
        let gone = CancellationToken::new();
        let guard = gone.clone().drop_guard();
        let closed = self.mcp.inner.streams.closed();
        tokio::spawn(async move {
            let _open_stream = open_stream;
            tokio::select! {
                () = self.run(&events) => {}
                () = gone.cancelled() => {}
                () = self.ended.cancelled() => {}
                () = closed.cancelled() => self.conclude(&events),
            }
            drop(events);
            if self.id.is_some() {
                subscriptions::release(&self.mcp, &self.caller, &self.subscribed).await;
            }
        });
        sse::response(Body::new(sse::Events::new(received, guard)))
    }

    /// The answer to the request, when the gateway ends the stream in order.
    fn conclude(&self, events: &mpsc::Sender<Bytes>) {
        let Some(id) = &self.id else { return };
        let result = json!({ "resultType": "complete", "_meta": { SUBSCRIPTION: id.to_value() } });
        let Ok(message) = Answer::Value(result).to_message(id) else { return };
        // A client that does not read will see the end of the stream.
        let _ = events.try_send(sse::event(&message));
    }

    async fn run(&self, events: &mpsc::Sender<Bytes>) {
        let inner = &self.mcp.inner;
        let mut registry = inner.gateway.registry_changes();
        let mut grants = inner.gateway.grant_changes();
        let mut updates = inner.subscription_table.updates();
        let mut tasks = inner.tasks.as_ref().map(drawgate_runtime::tasks::Tasks::subscribe);
        let mut known = inner.lists.of(&inner.gateway, &self.caller);
        let mut next = vec![self.open().await];
        let mut alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            for event in next.drain(..) {
                let sent = tokio::time::timeout(SLOW_CLIENT, events.send(event)).await;
                if !matches!(sent, Ok(Ok(()))) {
                    return;
                }
            }
            tokio::select! {
                changed = registry.changed() => if changed.is_err() { return },
                changed = grants.changed() => if changed.is_err() { return },
                // A server may report as often as it likes; that says nothing about the lists.
                update = updates.recv() => {
                    // A stream that was too slow has missed some; what follows still counts.
                    next.extend(update.ok().and_then(|changed| self.updated(&changed)));
                    continue;
                }
                changed = task_change(&mut tasks) => {
                    next.extend(self.task(&changed));
                    continue;
                }
                // Grants end by themselves too, so the lists are also compared now and then.
                _ = alive.tick() => next.push(sse::keep_alive()),
            }
            let now = inner.lists.of(&inner.gateway, &self.caller);
            let changed = self.lists.iter().filter(|list| list.changed(&now, &known));
            next.extend(changed.map(|list| self.message(list.notice(), Map::new())));
            known = now;
        }
    }

    /// The first bytes, by which a client knows that the stream stands.
    async fn open(&self) -> Bytes {
        if self.id.is_none() {
            return sse::keep_alive();
        }
        let mut granted: Map<String, Value> =
            self.lists.iter().map(|list| (list.member().to_owned(), true.into())).collect();
        let resources = self.join_all().await;
        if !resources.is_empty() {
            granted.insert("resourceSubscriptions".to_owned(), resources.into());
        }
        let own: Vec<&str> =
            self.tasks.iter().filter(|id| self.show(id).is_some()).map(String::as_str).collect();
        if !own.is_empty() {
            granted.insert("taskIds".to_owned(), own.into());
        }
        let mut params = Map::new();
        params.insert("notifications".to_owned(), granted.into());
        self.message(Notice::Acknowledged, params)
    }

    /// Subscribes to what the caller may use. What is missing from the result, in the client's
    /// order, was not to be had.
    async fn join_all(&self) -> Vec<&str> {
        let until = Instant::now() + SUBSCRIBE_TIMEOUT;
        let mut joined = Vec::new();
        for uri in &self.uris {
            let asked = subscriptions::join(
                &self.mcp,
                &self.caller,
                Era::Stateless,
                &self.subscribed,
                uri.clone(),
            );
            let done = tokio::time::timeout_at(until, asked).await;
            if matches!(done, Ok(Ok(()))) && !joined.contains(&uri.as_str()) {
                joined.push(uri.as_str());
            }
        }
        joined
    }

    /// That a resource has changed, for those who asked and may still use it.
    fn updated(&self, changed: &Resource) -> Option<Bytes> {
        let uri = self.subscribed.name(changed)?;
        if !CallerView::of(&self.mcp.inner.gateway, &self.caller)
            .open(Operation::Subscribe)
            .contains(&changed.source)
        {
            return None;
        }
        let mut params = Map::new();
        params.insert("uri".to_owned(), uri.into());
        Some(self.message(Notice::ResourceUpdated, params))
    }

    fn show(&self, task: &str) -> Option<Map<String, Value>> {
        let task = self.mcp.inner.tasks.as_ref()?.get(&self.caller.principal, task)?;
        Some(tasks::details(&task))
    }

    /// That a task has changed, for its owner, who asked to hear of it.
    fn task(&self, id: &str) -> Option<Bytes> {
        self.tasks.iter().find(|wanted| *wanted == id)?;
        Some(self.message(Notice::TaskChanged, self.show(id)?))
    }

    fn message(&self, notice: Notice, mut params: Map<String, Value>) -> Bytes {
        if let Some(id) = &self.id {
            params.insert("_meta".to_owned(), json!({ SUBSCRIPTION: id.to_value() }));
        }
        let message = if params.is_empty() { notice.plain() } else { notice.with(params) };
        sse::event(message.to_string().as_bytes())
    }
}

/// The next task that changes; never, where there are none.
async fn task_change(tasks: &mut Option<broadcast::Receiver<String>>) -> String {
    loop {
        match tasks {
            Some(changes) => match changes.recv().await {
                Ok(id) => return id,
                // A stream that was too slow has missed some; what follows still counts.
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => *tasks = None,
            },
            None => std::future::pending().await,
        }
    }
}
