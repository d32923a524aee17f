//! A server on the network, over streamable HTTP, in both eras of the protocol.

mod answer;
mod connect;
mod headers;
mod listen;
mod sse;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use answer::{Failure, Waiter};
use bytes::Bytes;
use drawgate_core::model::ToolOutput;
use drawgate_core::source::{CallContext, PermittedCall, SourceError};
use drawgate_host::Host;
use drawgate_host::egress::{Body, EgressError, Incoming as ResponseBody};
use parking_lot::RwLock;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::changes::Changes;
use super::diagnostics::Journal;
use super::parameters::ParameterHeader;
use super::progress::Progress;
use super::wire::{self, CallParams, Era, Meta, PlainParams, ServerInfo};
use super::{Reply, too_late};

/// How long the small messages beside the calls may take.
const ASIDE_TIMEOUT: Duration = Duration::from_secs(5);

/// How to reach the server.
pub(super) struct Link {
    pub(super) host: Arc<Host>,
    pub(super) uri: Uri,
    /// The operator's own headers.
    pub(super) headers: HeaderMap,
    pub(super) start_timeout: Duration,
}

/// A server that has answered.
pub(super) struct Peer {
    host: Arc<Host>,
    uri: Uri,
    configured: HeaderMap,
    start_timeout: Duration,
    next_id: AtomicU64,
    session: RwLock<Arc<Session>>,
    renewal: tokio::sync::Mutex<()>,
    parameters: RwLock<BTreeMap<String, Vec<ParameterHeader>>>,
    lost: watch::Sender<Option<String>>,
    journal: Arc<Journal>,
    changes: Changes,
}

/// What the handshake brought.
struct Session {
    era: Era,
    info: ServerInfo,
    id: Option<HeaderValue>,
    /// All headers that every request has.
    headers: HeaderMap,
}

impl Peer {
    /// Calls a tool. The way of most requests: one body built once, one request, one answer parsed.
    pub(super) async fn call(
        self: &Arc<Self>,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let session = self.session();
        let failure = match self.call_in(&session, call, cx).await {
            Ok(reply) => return wire::output(reply.result),
            Err(failure) => failure,
        };
        match failure {
            // The server has forgotten the session, and therefore has not seen the call.
            Failure::SessionGone => {
                let session = self.renew(&session, cx.deadline).await?;
                let again = self.call_in(&session, call, cx).await;
                again.map_err(Failure::into_source).and_then(|reply| wire::output(reply.result))
            }
            other => Err(other.into_source()),
        }
    }

    async fn call_in(
        self: &Arc<Self>,
        session: &Arc<Session>,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<Reply, Failure> {
        let id = self.id();
        let meta = Meta::of_call(session.era, cx, id);
        let params = CallParams { name: call.tool(), arguments: call.arguments(), meta };
        let body = wire::Request::new(id, "tools/call", &params).to_bytes()?;
        let mut headers = session.headers.clone();
        if session.era == Era::Stateless {
            headers.insert(headers::METHOD, HeaderValue::from_static("tools/call"));
            headers.insert(headers::NAME, headers::encode(call.tool()));
            if let Some(wanted) = self.parameters.read().get(call.tool()) {
                headers::insert_parameters(&mut headers, wanted, call.arguments());
            }
        }
        let mut guard = GiveUp { peer: self, session, id, armed: session.era == Era::Sessions };
        let progress = cx.progress.clone().map(|sink| Progress::new(sink, Instant::now()));
        let outcome = self.exchange(session, id, headers, body, progress, cx.deadline).await;
        guard.armed &= matches!(outcome, Err(Failure::Source(SourceError::Timeout(_))));
        outcome
    }

    /// A request of the gateway's own.
    pub(super) async fn ask(
        self: &Arc<Self>,
        method: &'static str,
        params: &Map<String, Value>,
        deadline: Instant,
    ) -> Result<Reply, SourceError> {
        let session = self.session();
        match self.ask_in(&session, method, params, deadline).await {
            Err(Failure::SessionGone) => {
                let session = self.renew(&session, deadline).await?;
                self.ask_in(&session, method, params, deadline).await.map_err(Failure::into_source)
            }
            outcome => outcome.map_err(Failure::into_source),
        }
    }

    async fn ask_in(
        self: &Arc<Self>,
        session: &Arc<Session>,
        method: &'static str,
        params: &Map<String, Value>,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        let id = self.id();
        let params = PlainParams { members: params, meta: Meta::own(session.era) };
        let body = wire::Request::new(id, method, &params).to_bytes()?;
        let mut headers = session.headers.clone();
        if session.era == Era::Stateless {
            headers.insert(headers::METHOD, HeaderValue::from_static(method));
        }
        self.exchange(session, id, headers, body, None, deadline).await
    }

    async fn exchange(
        self: &Arc<Self>,
        session: &Arc<Session>,
        id: u64,
        headers: HeaderMap,
        body: Vec<u8>,
        progress: Option<Progress>,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        let response = self.send(Method::POST, headers, body.into(), deadline).await?;
        Waiter { peer: self, session, id, progress, deadline }.answer(response).await
    }

    async fn send(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Response<ResponseBody>, SourceError> {
        let mut request = Request::new(Body::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        let outcome = self.host.egress.request(request, deadline).await;
        outcome.map_err(|error| {
            if error.nothing_was_sent() {
                self.lost.send_replace(Some(error.to_string()));
            }
            source_error(&error)
        })
    }

    /// Sends a message that has no answer, beside the calls, and forgets about it.
    fn send_aside(self: &Arc<Self>, session: &Arc<Session>, message: &Value) {
        let (peer, headers, body) =
            (Arc::clone(self), session.headers.clone(), message.to_string());
        // There is no runtime to send with while the program ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let deadline = Instant::now() + ASIDE_TIMEOUT;
                if let Err(error) = peer.send(Method::POST, headers, body.into(), deadline).await {
                    tracing::debug!(%error, "a notification did not reach a server");
                }
            });
        }
    }

    pub(super) fn info(&self) -> ServerInfo {
        self.session().info.clone()
    }

    pub(super) fn set_parameters(&self, parameters: BTreeMap<String, Vec<ParameterHeader>>) {
        *self.parameters.write() = parameters;
    }

    /// Waits until the server is lost, listening for changes meanwhile.
    pub(super) async fn served(self: &Arc<Self>) -> String {
        let mut lost = self.lost.subscribe();
        let gone = async {
            match lost.wait_for(Option::is_some).await {
                Ok(reason) => reason.clone().unwrap_or_default(),
                Err(_) => String::new(),
            }
        };
        tokio::select! {
            reason = gone => reason,
            never = listen::forever(self) => match never {},
        }
    }

    /// Gives the session back.
    pub(super) async fn end(self: &Arc<Self>) {
        let session = self.session();
        if session.id.is_some() {
            let deadline = Instant::now() + Duration::from_secs(1);
            let farewell =
                self.send(Method::DELETE, session.headers.clone(), Bytes::new(), deadline).await;
            if let Err(error) = farewell {
                tracing::debug!(%error, "a server did not take its session back");
            }
        }
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.read())
    }

    fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// Tells a server with sessions when nobody waits any more; in the other era the closed connection
/// says it.
struct GiveUp<'a> {
    peer: &'a Arc<Peer>,
    session: &'a Arc<Session>,
    id: u64,
    armed: bool,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.peer.send_aside(self.session, &wire::cancelled(self.id));
        }
    }
}

fn source_error(error: &EgressError) -> SourceError {
    match error {
        EgressError::Deadline => too_late(),
        EgressError::TooLarge(_) => {
            SourceError::Protocol(format!("the server's answer can't be used: {error}"))
        }
        EgressError::Connect { .. } | EgressError::Address(_) | EgressError::Tls(_) => {
            SourceError::unreachable(error.to_string())
        }
        EgressError::Lost(_) => SourceError::lost(error.to_string()),
    }
}
