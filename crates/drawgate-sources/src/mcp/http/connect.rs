//! The handshake: sessions first, because most servers have them, then the era without.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use drawgate_core::source::SourceError;
use parking_lot::RwLock;
use serde_json::Map;
use tokio::sync::watch;

use super::answer::{Failure, Waiter};
use super::{Link, Peer, Session, headers};
use crate::mcp::changes::Changes;
use crate::mcp::diagnostics::Journal;
use crate::mcp::wire::{self, Era, Meta, PlainParams, Request, ServerInfo};

/// Both forms of answer are understood, and servers insist that this is said.
const ACCEPT: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Link {
    pub(in crate::mcp) async fn connect(
        &self,
        journal: &Arc<Journal>,
        changes: &Changes,
    ) -> Result<Arc<Peer>, SourceError> {
        let peer = Arc::new(Peer {
            host: Arc::clone(&self.host),
            uri: self.uri.clone(),
            configured: self.headers.clone(),
            start_timeout: self.start_timeout,
            next_id: AtomicU64::new(1),
            session: RwLock::new(Arc::new(blank(&self.headers, Era::Sessions))),
            renewal: tokio::sync::Mutex::default(),
            parameters: RwLock::default(),
            lost: watch::Sender::new(None),
            journal: Arc::clone(journal),
            changes: changes.clone(),
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
        let session = self.handshake(deadline.min(Instant::now() + self.start_timeout)).await?;
        *self.session.write() = Arc::clone(&session);
        self.changes.bump();
        Ok(session)
    }

    async fn handshake(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Session>, SourceError> {
        let refused = match self.initialize(deadline).await {
            Ok(session) => return Ok(session),
            Err(failure) if knows_no_sessions(&failure) => failure.into_source(),
            Err(failure) => return Err(failure.into_source()),
        };
        match self.discover(deadline).await {
            Ok(session) => Ok(session),
            // The answer to the usual handshake says more about a server that knows neither.
            Err(Failure::Rejected { .. } | Failure::SessionGone) => Err(not_mcp(&refused)),
            Err(Failure::Source(error)) => {
                Err(if wire::is_unknown_method(&error) { not_mcp(&refused) } else { error })
            }
        }
    }

    async fn initialize(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Session>, Failure> {
        let mut session = blank(&self.configured, Era::Sessions);
        let id = self.id();
        let params = wire::initialize_params();
        let params = PlainParams { members: &params, meta: Meta::own(Era::Sessions) };
        let body = Request::new(id, "initialize", &params).to_bytes()?;
        let response =
            self.send(::http::Method::POST, session.headers.clone(), body.into(), deadline).await?;
        let session_id = response.headers().get(headers::SESSION_ID).cloned();
        let waiting_in = Arc::new(blank(&self.configured, Era::Sessions));
        let waiter = Waiter { peer: self, session: &waiting_in, id, progress: None, deadline };
        let reply = waiter.answer(response).await?;
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

    async fn discover(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Session>, Failure> {
        let mut session = blank(&self.configured, Era::Stateless);
        session
            .headers
            .insert(headers::PROTOCOL_VERSION, HeaderValue::from_static(wire::STATELESS));
        let mut session = Arc::new(session);
        let reply = self.ask_in(&session, "server/discover", &Map::new(), deadline).await?;
        let info = wire::discovered(&reply.result)?;
        if let Some(session) = Arc::get_mut(&mut session) {
            session.info = info;
        }
        Ok(session)
    }
}

/// Whether a refused `initialize` may come from a server of the other era. Those answer with various
/// errors, since a request without `_meta` is wrong to them in the first place.
fn knows_no_sessions(failure: &Failure) -> bool {
    match failure {
        Failure::SessionGone => true,
        Failure::Source(error) => wire::error_code(error).is_some(),
        Failure::Rejected { status, .. } => {
            let access =
                [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
            status.is_client_error() && !access.contains(status)
        }
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
