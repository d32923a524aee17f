//! A server on the network, over streamable HTTP, in both eras of the protocol.

mod answer;
mod authenticated;
mod connect;
mod exchange;
mod headers;
mod listen;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use answer::Failure;
pub(super) use answer::{Media, Stream, media_type, refused};
pub(super) use authenticated::AuthenticatedEgress;
use authenticated::RequestError;
use bytes::Bytes;
use drawgate_core::model::Operation;
use drawgate_core::source::{CallContext, PermittedCall, SourceError};
use drawgate_host::egress::{AnswerBody as ResponseBody, Body};
use exchange::Answering;
pub(super) use exchange::Exchange;
use parking_lot::RwLock;
use serde_json::{Map, Value};
use tokio::sync::{Notify, Semaphore, watch};

use super::Reply;
use super::callers::{Callers, On};
use super::context::SourceContext;
use super::diagnostics::Journal;
use super::wire::{self, CallParams, Era, Form, Incoming, Meta, PlainParams, ServerInfo};
use crate::line_rpc::Delivery;

/// How long the small messages beside the calls may take.
const ASIDE_TIMEOUT: Duration = Duration::from_secs(5);
/// How many of them may be under way, and how many may wait.
const ASIDES: usize = 32;
const QUEUE: usize = 1024;
/// How much longer than its deadline a call may take whose caller is asked: a few questions.
const ROUNDS: Duration = Duration::from_hours(2);

/// How to reach the server.
pub(super) struct Dialer {
    pub(super) egress: AuthenticatedEgress,
    pub(super) uri: Uri,
    /// The operator's own headers.
    pub(super) headers: HeaderMap,
    pub(super) start_timeout: Duration,
}

/// A server that has answered.
pub(super) struct Peer {
    egress: AuthenticatedEgress,
    uri: Uri,
    configured: HeaderMap,
    start_timeout: Duration,
    next_id: AtomicU64,
    session: RwLock<Arc<Session>>,
    renewal: tokio::sync::Mutex<()>,
    lost: watch::Sender<Option<String>>,
    journal: Arc<Journal>,
    context: SourceContext,
    callers: Arc<Callers>,
    /// Told when there is a new session, which knows of no subscriptions.
    renewed: Notify,
    /// Messages beside the calls: those under way, and those that wait for their turn.
    asides: Semaphore,
    queue: Arc<Semaphore>,
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
    /// Asks for what a caller wants. The way of most requests: one body built once, one request,
    /// one answer parsed.
    pub(super) fn begin(
        self: &Arc<Self>,
        call: &PermittedCall,
        form: Form<'_>,
        cx: &CallContext,
    ) -> Result<Exchange, SourceError> {
        let (session, id) = (self.session(), self.id());
        let meta = Meta::of_call(session.era, self.context.allowed, cx, id)
            .following_tasks(self.context.follows_task(call.tool(), &cx.client));
        let params = CallParams::new(call, form, meta);
        let method = form.method(call);
        let body = wire::Request::new(id, method, &params).to_bytes()?;
        let mut headers = session.headers.clone();
        if session.era == Era::Stateless {
            headers.insert(headers::METHOD, HeaderValue::from_static(method));
            self.describe(call, &mut headers);
        }
        let active_call = self.callers.enter(id, cx);
        let end =
            cx.deadline.latest() + if active_call.is_askable() { ROUNDS } else { Duration::ZERO };
        let answering = Answering::send(self, &session, id, (headers, body.into()), end);
        Ok(Exchange { answering, active_call, cancel: true })
    }

    /// Repeats parts of a request in headers, for those in between.
    fn describe(&self, call: &PermittedCall, headers: &mut HeaderMap) {
        let member = |key: &str| call.arguments().get(key).and_then(Value::as_str);
        let name = match call.operation() {
            Operation::CallTool => Some(call.tool()),
            Operation::GetPrompt => member("name"),
            Operation::ReadResource => member("uri"),
            Operation::Subscribe
            | Operation::Unsubscribe
            | Operation::Complete
            | Operation::SetLogLevel => None,
        };
        if let Some(name) = name {
            headers.insert(headers::NAME, headers::encode(name));
        }
        if call.operation() == Operation::CallTool {
            self.context.parameters_of(call.tool(), |wanted| {
                headers::insert_parameters(headers, wanted, call.arguments());
            });
        }
    }

    /// A request of the gateway's own.
    pub(super) async fn ask(
        self: &Arc<Self>,
        method: &'static str,
        params: &Map<String, Value>,
        deadline: Instant,
    ) -> Result<Reply, SourceError> {
        let session = self.session();
        self.ask_in(&session, method, params, deadline).await.map_err(Failure::into_source)
    }

    async fn ask_in(
        self: &Arc<Self>,
        session: &Arc<Session>,
        method: &'static str,
        params: &Map<String, Value>,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        let id = self.id();
        let meta = Meta::own(session.era, self.context.allowed);
        let mut headers = session.headers.clone();
        if session.era == Era::Stateless {
            headers.insert(headers::METHOD, HeaderValue::from_static(method));
            if let Some(task) = params.get("taskId").and_then(Value::as_str) {
                headers.insert(headers::NAME, headers::encode(task));
            }
        }
        let params = PlainParams { members: params, meta };
        let body = wire::Request::new(id, method, &params).to_bytes()?;
        Answering::send(self, session, id, (headers, body.into()), deadline).reply().await
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
        let outcome = self.egress.request(request, deadline).await;
        outcome.map_err(|closed| {
            if let RequestError::Egress(error) = &closed
                && error.nothing_was_sent()
            {
                self.lost.send_replace(Some(error.to_string()));
            }
            closed.into()
        })
    }

    /// Takes a message that answers no request of the gateway's.
    fn aside(self: &Arc<Self>, session: &Arc<Session>, on: On, message: Incoming) {
        match message {
            Incoming::Progress { token, report } if on == On::Any || on == On::Call(token) => {
                if self.callers.report(token, report) == Delivery::Unknown {
                    tracing::trace!("a report on nothing");
                }
            }
            Incoming::Log(message) => self.callers.log(on, message),
            Incoming::News(news) => self.context.hear(news),
            // Servers of the other era don't ask in this way.
            Incoming::Request(request) if session.era == Era::Sessions => {
                if let Some(reply) = self.callers.ask(on, request) {
                    self.send_aside(session, &reply);
                }
            }
            Incoming::Ignored => {}
            Incoming::Answer { .. }
            | Incoming::Progress { .. }
            | Incoming::Request(_)
            | Incoming::Nonsense => self.journal.ignored(),
        }
    }

    /// Sends a message that has no answer, beside the calls, and forgets about it.
    fn send_aside(self: &Arc<Self>, session: &Arc<Session>, message: &Value) {
        let Ok(queued) = Arc::clone(&self.queue).try_acquire_owned() else {
            return tracing::debug!("a message to a server that does not read was dropped");
        };
        let (peer, headers, body) =
            (Arc::clone(self), session.headers.clone(), message.to_string());
        // There is no runtime to send with while the program ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _queued = queued;
                let Ok(_turn) = peer.asides.acquire().await else { return };
                let deadline = Instant::now() + ASIDE_TIMEOUT;
                if let Err(error) = peer.send(Method::POST, headers, body.into(), deadline).await {
                    tracing::debug!(%error, "a notification did not reach a server");
                }
            });
        }
    }

    /// The rules that the server follows.
    pub(super) fn era(&self) -> Era {
        self.session.read().era
    }

    pub(super) fn context(&self) -> &SourceContext {
        &self.context
    }

    /// Whether calls are under way, those included that wait for their callers' answers.
    pub(super) fn is_busy(&self) -> bool {
        !self.callers.is_empty()
    }

    pub(super) fn info(&self) -> ServerInfo {
        self.session().info.clone()
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
            never = listen::renew_forever(self) => match never {},
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
