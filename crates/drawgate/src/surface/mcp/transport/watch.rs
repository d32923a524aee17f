//! Streams that tell a client when its lists and the resources that it subscribed to change.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use drawgate_core::model::{Caller, Surface};
use drawgate_runtime::callers::Identity;
use drawgate_runtime::tasks::Tasks;
use http::StatusCode;
use serde_json::{Map, Value};
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::response::{self, Events};
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::methods::listen::{ChangeFeed, Wanted};
use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::state::streams::OpenStream;
use crate::surface::mcp::wire::message::{RequestId, RpcError};
use crate::surface::mcp::wire::sse;

/// How often a silent stream shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A client that does not take an event for this long is gone.
const SLOW_CLIENT: Duration = Duration::from_secs(30);

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
    let feed = ChangeFeed {
        mcp: mcp.clone(),
        caller: Caller { principal, session: session_id, surface, carried, lineage },
        wanted: Wanted::all_lists(),
        subscribed: Arc::clone(&session.subscribed),
        id: None,
    };
    // Holding the session keeps it from ending as idle while there is a listener.
    let stream =
        ChangeStream { feed, ended: session.closed.clone(), _session: Some(Arc::clone(session)) };
    stream.respond(open_stream)
}

/// The stream of `subscriptions/listen`.
pub(crate) fn subscription(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
    let wanted = Wanted::of_request(peer, params)?;
    let Some(open_stream) = mcp.inner.streams.enter(&peer.caller.principal) else {
        return Ok(too_many());
    };
    let feed = ChangeFeed {
        mcp: mcp.clone(),
        caller: peer.caller.clone(),
        wanted,
        subscribed: Arc::default(),
        id: Some(id.clone()),
    };
    let stream = ChangeStream { feed, ended: CancellationToken::new(), _session: None };
    Ok(stream.respond(open_stream))
}

fn too_many() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "too many streams are open\n").into_response()
}

/// A stream that is open.
struct ChangeStream {
    feed: ChangeFeed,
    ended: CancellationToken,
    _session: Option<Arc<Session>>,
}

impl ChangeStream {
    fn respond(self, open_stream: OpenStream) -> Response {
        let (events, received) = mpsc::channel(4);
        let gone = CancellationToken::new();
        let guard = gone.clone().drop_guard();
        let closed = self.feed.mcp.inner.streams.closed();
        tokio::spawn(async move {
            let _open_stream = open_stream;
            tokio::select! {
                () = self.run(&events) => {}
                () = gone.cancelled() => {}
                () = self.ended.cancelled() => {}
                () = closed.cancelled() => self.conclude(&events),
            }
            drop(events);
            self.feed.end().await;
        });
        response::stream(Body::new(Events::new(received, guard)))
    }

    fn conclude(&self, events: &mpsc::Sender<Bytes>) {
        let Some(message) = self.feed.conclusion() else { return };
        // A client that does not read will see the end of the stream.
        let _ = events.try_send(sse::event(&message));
    }

    async fn run(&self, events: &mpsc::Sender<Bytes>) {
        let (feed, inner) = (&self.feed, &self.feed.mcp.inner);
        let mut registry = inner.gateway.registry_changes();
        let mut grants = inner.gateway.grant_changes();
        let mut updates = inner.subscription_table.updates();
        let mut tasks = inner.tasks.as_ref().map(Tasks::subscribe);
        let mut known = feed.lists();
        let mut next = vec![feed.open().await.as_ref().map_or_else(sse::keep_alive, event)];
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
                    let message = update.ok().and_then(|changed| feed.resource_updated(&changed));
                    next.extend(message.as_ref().map(event));
                    continue;
                }
                changed = task_change(&mut tasks) => {
                    next.extend(feed.task_changed(&changed).as_ref().map(event));
                    continue;
                }
                // Grants end by themselves too, so the lists are also compared now and then.
                _ = alive.tick() => next.push(sse::keep_alive()),
            }
            let now = feed.lists();
            next.extend(feed.lists_changed(&now, &known).iter().map(event));
            known = now;
        }
    }
}

fn event(message: &Value) -> Bytes {
    sse::event(message.to_string().as_bytes())
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
