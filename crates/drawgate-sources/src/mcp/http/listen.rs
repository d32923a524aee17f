//! The stream on which a server announces that its tools have changed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use ::http::{HeaderValue, Method, Response};
use bytes::Bytes;
use drawgate_core::json;
use drawgate_core::source::SourceError;
use drawgate_host::egress::Incoming as ResponseBody;
use serde_json::{Map, json};
use tokio::time::sleep;

use super::answer::{Media, Stream, media_type};
use super::{ASIDE_TIMEOUT, Peer, Session, headers};
use crate::mcp::backoff::Backoff;
use crate::mcp::wire::{self, Era, Incoming, Meta, PlainParams, Request};

/// Listens as long as the server offers a stream, opening it anew whenever it ends.
pub(super) async fn forever(peer: &Arc<Peer>) -> Infallible {
    let mut backoff = Backoff::new();
    loop {
        let session = peer.session();
        if !session.info.announces_changes {
            return std::future::pending().await;
        }
        let began = Instant::now();
        match open(peer, &session).await {
            Ok(Some(response)) => listen(peer, &session, response).await,
            // No stream: the gate learns of changes when it asks.
            Ok(None) => return std::future::pending().await,
            // A connection that fails is noted where it failed; the supervisor acts on it.
            Err(error) => {
                tracing::debug!(%error, "a server's stream of announcements can't be opened");
            }
        }
        backoff.after(began.elapsed());
        sleep(backoff.next(0)).await;
        // Whatever was announced meanwhile went unheard.
        peer.changes.announce();
    }
}

async fn open(
    peer: &Arc<Peer>,
    session: &Arc<Session>,
) -> Result<Option<Response<ResponseBody>>, SourceError> {
    let mut headers = session.headers.clone();
    let deadline = Instant::now() + ASIDE_TIMEOUT;
    let response = match session.era {
        Era::Sessions => {
            headers.insert(::http::header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            peer.send(Method::GET, headers, Bytes::new(), deadline).await?
        }
        Era::Stateless => {
            const METHOD: &str = "subscriptions/listen";
            headers.insert(headers::METHOD, HeaderValue::from_static(METHOD));
            let wanted =
                Map::from_iter([("notifications".to_owned(), json!({ "toolsListChanged": true }))]);
            let params = PlainParams { members: &wanted, meta: Meta::own(Era::Stateless) };
            let body = Request::new(peer.id(), METHOD, &params).to_bytes()?;
            peer.send(Method::POST, headers, body.into(), deadline).await?
        }
    };
    let gone = response.status() == ::http::StatusCode::NOT_FOUND && session.id.is_some();
    if gone {
        peer.renew(session, deadline).await?;
        return Err(SourceError::unreachable("the server has forgotten the session"));
    }
    let usable = response.status().is_success() && media_type(response.headers()) == Media::Events;
    Ok(usable.then_some(response))
}

async fn listen(peer: &Arc<Peer>, session: &Arc<Session>, response: Response<ResponseBody>) {
    let mut stream = Stream::new(response.into_body());
    while let Ok(Some(event)) = stream.next().await {
        let Ok(message) = json::parse(&event.data) else { continue };
        match wire::sort(message) {
            Incoming::ToolsChanged => peer.changes.announce(),
            Incoming::Request { reply } => peer.send_aside(session, &reply),
            Incoming::Nonsense => peer.journal.ignored(),
            Incoming::Answer { .. } | Incoming::Progress { .. } | Incoming::Ignored => {}
        }
    }
}
