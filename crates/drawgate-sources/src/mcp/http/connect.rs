//! The handshake: the era without sessions first, as the specification asks, then the one with.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use drawgate_core::source::{Sent, SourceError};
use parking_lot::RwLock;
use serde_json::Map;
use tokio::sync::{Notify, Semaphore, watch};

use super::answer::Failure;
use super::exchange::Answering;
use super::{ASIDES, Dialer, Peer, QUEUE, Session, headers};
use crate::mcp::callers::Callers;
use crate::mcp::context::SourceContext;
use crate::mcp::diagnostics::Journal;
use crate::mcp::probe::{DISCOVER, DISCOVER_TIMEOUT, Verdict, judge};
use crate::mcp::wire::{self, Era, Meta, PlainParams, Request, ServerInfo};

/// Both forms of answer are understood, and servers insist that this is said.
const ACCEPT: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Dialer {
    pub(in crate::mcp) async fn connect(
        &self,
        journal: &Arc<Journal>,
        context: &SourceContext,
    ) -> Result<Arc<Peer>, SourceError> {
        let peer = Arc::new(Peer {
            egress: self.egress.clone(),
            uri: self.uri.clone(),
            configured: self.headers.clone(),
            start_timeout: self.start_timeout,
            next_id: AtomicU64::new(1),
            session: RwLock::new(Arc::new(blank(&self.headers, Era::Sessions))),
            renewal: tokio::sync::Mutex::default(),
            lost: watch::Sender::new(None),
            journal: Arc::clone(journal),
            context: context.clone(),
            callers: Callers::new(context.allowed),
            renewed: Notify::new(),
            asides: Semaphore::new(ASIDES),
            queue: Arc::new(Semaphore::new(QUEUE)),
        });
        let session = peer.handshake(Instant::now() + self.start_timeout).await?;
        *peer.session.write() = session;
        Ok(peer)
    }
}

impl Peer {
    /// A new session in place of one that the server has forgotten. Many may ask; one shakes hands.
    pub(super) async fn renew(
        self: &Arc<Self>,
        old: &Arc<Session>,
        deadline: Instant,
    ) -> Result<Arc<Session>, SourceError> {
        let _turn = self.renewal.lock().await;
        let current = self.session();
        if !Arc::ptr_eq(&current, old) {
            return Ok(current);
        }
        let deadline = deadline.min(Instant::now() + self.start_timeout);
        // A server that had sessions most likely still has.
        let session = match self.initialize(deadline).await {
            Err(failure) if knows_no_sessions(&failure) => self.handshake(deadline).await?,
            outcome => outcome.map_err(Failure::into_source)?,
        };
        *self.session.write() = Arc::clone(&session);
        self.context.changes.bump();
        self.renewed.notify_one();
        Ok(session)
    }

    async fn handshake(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Session>, SourceError> {
        let soon = deadline.min(Instant::now() + DISCOVER_TIMEOUT);
        if let Some(session) = self.discover(soon).await? {
            return Ok(session);
        }
        let refused = match self.initialize(deadline).await {
            Err(failure) if knows_no_sessions(&failure) => failure.into_source(),
            outcome => return outcome.map_err(Failure::into_source),
        };
        // A server of the newer era that was slow to answer.
        self.discover(deadline).await?.ok_or_else(|| not_mcp(&refused))
    }

    async fn initialize(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Session>, Failure> {
        let mut session = blank(&self.configured, Era::Sessions);
        let id = self.id();
        let params = wire::initialize_params(self.context.allowed);
        let meta = Meta::own(Era::Sessions, self.context.allowed);
        let params = PlainParams { members: &params, meta };
        let body = Request::new(id, "initialize", &params).to_bytes()?;
        let response =
            self.send(::http::Method::POST, session.headers.clone(), body.into(), deadline).await?;
        let session_id = response.headers().get(headers::SESSION_ID).cloned();
        let waiting_in = Arc::new(blank(&self.configured, Era::Sessions));
        let reply = Answering::of(self, &waiting_in, id, response, deadline).await?;
        session.info = wire::initialized(&reply.result)?;
        session.headers.insert(headers::PROTOCOL_VERSION, version(&session.info));
        if let Some(session_id) = session_id {
            session.headers.insert(headers::SESSION_ID, session_id.clone());
            session.id = Some(session_id);
        }
        let ready = wire::ready().to_string();
        self.send(::http::Method::POST, session.headers.clone(), ready.into(), deadline).await?;
        Ok(Arc::new(session))
    }

    /// A session without a session, if the server is of the newer era.
    async fn discover(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<Option<Arc<Session>>, SourceError> {
        let mut session = blank(&self.configured, Era::Stateless);
        session
            .headers
            .insert(headers::PROTOCOL_VERSION, HeaderValue::from_static(wire::STATELESS));
        let mut session = Arc::new(session);
        for _ in 0..2 {
            let outcome = match self.ask_in(&session, DISCOVER, &Map::new(), deadline).await {
                Err(failure) if is_final(&failure) => return Err(failure.into_source()),
                outcome => outcome.map_err(Failure::into_source),
            };
            match judge(outcome.as_ref().map(|reply| &reply.result)) {
                Verdict::Stateless(info) => {
                    if let Some(session) = Arc::get_mut(&mut session) {
                        session.info = info;
                    }
                    return Ok(Some(session));
                }
                Verdict::Again => {}
                Verdict::Sessions => break,
                Verdict::Hopeless(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Whether there is no use in asking the server anything else.
fn is_final(failure: &Failure) -> bool {
    match failure {
        Failure::Source(SourceError::Unavailable { sent: Sent::Nothing, .. }) => true,
        Failure::Source(_) | Failure::SessionGone => false,
        Failure::Rejected { status, .. } => is_about_access(*status),
    }
}

fn is_about_access(status: StatusCode) -> bool {
    let access = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
    access.contains(&status)
}

/// Whether a refused `initialize` may come from a server of the other era. Those answer with various
/// errors, since a request without `_meta` is wrong to them in the first place.
fn knows_no_sessions(failure: &Failure) -> bool {
    match failure {
        Failure::SessionGone => true,
        Failure::Source(error) => wire::error_code(error).is_some(),
        Failure::Rejected { status, .. } => status.is_client_error() && !is_about_access(*status),
    }
}

fn not_mcp(refused: &SourceError) -> SourceError {
    SourceError::unreachable(format!(
        "the server accepts neither `initialize` nor `server/discover`: {refused}"
    ))
}

fn blank(configured: &HeaderMap, era: Era) -> Session {
    let mut headers = HeaderMap::with_capacity(configured.len() + 8);
    headers.extend(configured.clone());
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::ACCEPT, ACCEPT);
    Session { era, info: ServerInfo::default(), id: None, headers }
}

fn version(info: &ServerInfo) -> HeaderValue {
    // It is one of the known revisions by now.
    HeaderValue::from_str(&info.protocol)
        .unwrap_or_else(|_| HeaderValue::from_static(wire::NEWEST_WITH_SESSIONS))
}
