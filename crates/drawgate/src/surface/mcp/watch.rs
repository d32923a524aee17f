//! Streams that tell a client when its list of tools changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use drawgate_core::model::{Caller, Principal, SurfaceKind};
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::era::PROTOCOL_META;
use super::http::Peer;
use super::message::RequestId;
use super::session::Session;
use super::{Mcp, sse};

/// Streams open at once; more are refused. Each holds a connection, and this is less than half of
/// those that are taken by default: listeners must not shut callers out.
const MAX_STREAMS: usize = 2_000;
/// Of these, one principal's.
const MAX_STREAMS_EACH: usize = 256;
/// How often a silent stream shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A client that does not take an event for this long is gone.
const SLOW_CLIENT: Duration = Duration::from_secs(30);

/// The streams that are open.
#[derive(Default)]
pub(super) struct Streams {
    open: Arc<Mutex<HashMap<Principal, usize>>>,
    closed: CancellationToken,
}

impl Streams {
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    fn enter(&self, principal: &Principal) -> Option<Place> {
        let mut open = self.open.lock();
        let own = open.get(principal).copied().unwrap_or_default();
        if own >= MAX_STREAMS_EACH || open.values().sum::<usize>() >= MAX_STREAMS {
            return None;
        }
        open.insert(principal.clone(), own + 1);
        Some(Place { open: Arc::clone(&self.open), principal: principal.clone() })
    }
}

/// An open stream, until this is dropped.
struct Place {
    open: Arc<Mutex<HashMap<Principal, usize>>>,
    principal: Principal,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(own) = open.get_mut(&self.principal) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.principal);
            }
        }
    }
}

/// The stream of a session, opened by GET.
pub(super) fn session_stream(mcp: &Mcp, session: &Arc<Session>, surface: SurfaceKind) -> Response {
    let caller =
        Caller { principal: session.principal.clone(), session: Some(session.id.clone()), surface };
    let watcher = Watcher {
        mcp: mcp.clone(),
        caller,
        ended: session.closed.clone(),
        wanted: Wanted::Tools,
        params: Map::new(),
        // Holding the session keeps it from ending as idle while somebody listens.
        _session: Some(Arc::clone(session)),
    };
    watcher.respond(None)
}

/// The stream of `subscriptions/listen`.
pub(super) fn subscription(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Response {
    let wanted = params.get("notifications").and_then(Value::as_object);
    let tools = wanted.and_then(|wanted| wanted.get("toolsListChanged")).and_then(Value::as_bool)
        == Some(true);
    let mut granted = Map::new();
    if tools {
        granted.insert("toolsListChanged".to_owned(), true.into());
    }
    let meta = json!({ format!("{PROTOCOL_META}subscriptionId"): id.to_value() });
    let mut params = Map::new();
    params.insert("_meta".to_owned(), meta.clone());
    let acknowledged = json!({
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": { "_meta": meta, "notifications": granted },
    });
    let watcher = Watcher {
        mcp: mcp.clone(),
        caller: peer.caller.clone(),
        ended: CancellationToken::new(),
        wanted: if tools { Wanted::Tools } else { Wanted::Nothing },
        params,
        _session: None,
    };
    watcher.respond(Some(sse::event(acknowledged.to_string().as_bytes())))
}

/// What a client wants to hear of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Tools,
    Nothing,
}

struct Watcher {
    mcp: Mcp,
    caller: Caller,
    ended: CancellationToken,
    wanted: Wanted,
    params: Map<String, Value>,
    _session: Option<Arc<Session>>,
}

impl Watcher {
    fn respond(self, first: Option<Bytes>) -> Response {
        let Some(place) = self.mcp.inner.streams.enter(&self.caller.principal) else {
            return (StatusCode::SERVICE_UNAVAILABLE, "too many streams are open\n")
                .into_response();
        };
        let (events, received) = mpsc::channel(4);
        let gone = CancellationToken::new();
        let guard = gone.clone().drop_guard();
        tokio::spawn(async move {
            let _place = place;
            let shut = self.mcp.inner.streams.closed.clone();
            let ended = self.ended.clone();
            tokio::select! {
                () = self.run(events, first) => {}
                () = gone.cancelled() => {}
                () = ended.cancelled() => {}
                () = shut.cancelled() => {}
            }
        });
        sse::response(Body::new(sse::Events::new(received, guard)))
    }

    async fn run(&self, events: mpsc::Sender<Bytes>, first: Option<Bytes>) {
        let parts = self.mcp.inner.gateway.parts();
        let (mut registry, mut grants) = (parts.registry.subscribe(), parts.grants.subscribe());
        let mut known = self.digest();
        // The first bytes go out at once, so that a client knows that the stream stands.
        let mut next = Some(first.unwrap_or_else(sse::keep_alive));
        loop {
            if let Some(event) = next.take()
                && !matches!(
                    tokio::time::timeout(SLOW_CLIENT, events.send(event)).await,
                    Ok(Ok(()))
                )
            {
                return;
            }
            tokio::select! {
                changed = registry.changed() => if changed.is_err() { return },
                changed = grants.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(KEEP_ALIVE) => next = Some(sse::keep_alive()),
            }
            // Grants end by themselves too, so the list is compared at each turn.
            let now = self.digest();
            if self.wanted == Wanted::Tools && now != known {
                known = now;
                next = Some(self.changed());
            }
        }
    }

    fn digest(&self) -> [u8; 32] {
        self.mcp.inner.lists.of(&self.mcp.inner.gateway, &self.caller).digest
    }

    fn changed(&self) -> Bytes {
        let mut message = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        if !self.params.is_empty() {
            message["params"] = Value::Object(self.params.clone());
        }
        sse::event(message.to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_bounded_for_each_and_for_all() {
        let streams = Streams::default();
        let principal = |number: usize| Principal::new(&format!("a{number}")).unwrap();
        let fill = |principal: &Principal| -> Vec<Place> {
            std::iter::from_fn(|| streams.enter(principal)).collect()
        };
        let mut first = fill(&principal(0));
        assert_eq!(first.len(), MAX_STREAMS_EACH);
        first.pop();
        assert!(streams.enter(&principal(0)).is_some());
        let all: Vec<Place> = (1..20).flat_map(|number| fill(&principal(number))).collect();
        assert_eq!(first.len() + all.len(), MAX_STREAMS);
        drop((first, all));
        assert!(streams.open.lock().is_empty());
    }
}
