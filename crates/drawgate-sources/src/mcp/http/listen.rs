//! The stream of messages that answer no request: changes, updates, questions.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{HeaderValue, Method, Response};
use bytes::Bytes;
use drawgate_core::source::SourceError;
use drawgate_host::egress::AnswerBody as ResponseBody;
use tokio::time::sleep;

use super::answer::{Media, Stream, media_type};
use super::{ASIDE_TIMEOUT, Peer, Session, headers};
use crate::backoff::Backoff;
use crate::mcp::callers::On;
use crate::mcp::listen::{LISTEN, SUBSCRIBE, subscription, wanted};
use crate::mcp::wire::{self, Era, Meta, PlainParams, Request};

/// How long the renewal of one subscription may take.
const RENEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Listens as long as the server offers a stream, opening it anew whenever it ends or something else
/// is to be heard.
pub(super) async fn forever(peer: &Arc<Peer>) -> Infallible {
    let subscriptions = &peer.context.subscriptions;
    let mut versions = subscriptions.follow();
    let mut backoff = Backoff::CONNECTION;
    let mut current: Option<Stream> = None;
    loop {
        let session = peer.session();
        subscriptions.asking(*versions.borrow_and_update());
        let began = Instant::now();
        // The old stream is heard until there is a new one, so that nothing is missed.
        let old = async {
            hear_out(peer, &session, &mut current).await;
            std::future::pending::<Infallible>().await
        };
        let opened = tokio::select! {
            opened = open(peer, &session) => opened,
            never = old => match never {},
        };
        current = match opened {
            Ok(response) => response.map(|response| Stream::new(response.into_body())),
            // A connection that fails is noted where it failed; the supervisor acts on it.
            Err(error) => {
                tracing::debug!(%error, "a server's stream of announcements can't be opened");
                sleep(backoff.next(0)).await;
                continue;
            }
        };
        let refused = current.is_none();
        tokio::select! {
            // No stream: the gate learns of changes when it asks.
            () = hear_out(peer, &session, &mut current), if !refused => {
                current = None;
                backoff.after(began.elapsed());
                sleep(backoff.next(0)).await;
                peer.context.missed();
            }
            // In the other era a subscription is a request, and the stream stays.
            _changed = versions.changed(), if session.era == Era::Stateless => {}
            never = std::future::pending::<Infallible>() => match never {},
        }
    }
}

/// Subscribes anew to everything whenever there is a new session.
pub(super) async fn renew_forever(peer: &Arc<Peer>) -> Infallible {
    loop {
        renew(peer).await;
        peer.renewed.notified().await;
    }
}

async fn renew(peer: &Arc<Peer>) {
    let (session, subscriptions) = (peer.session(), &peer.context.subscriptions);
    if session.era == Era::Stateless || subscriptions.is_empty() {
        return;
    }
    for uri in subscriptions.uris() {
        let deadline = Instant::now() + RENEW_TIMEOUT;
        if let Err(error) = peer.ask(SUBSCRIBE, &subscription(uri), deadline).await {
            tracing::warn!(%error, "a subscription could not be renewed");
        }
    }
    peer.context.missed();
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
            let Some(members) = wanted(&session.info, &peer.context.subscriptions) else {
                return Ok(None);
            };
            headers.insert(headers::METHOD, HeaderValue::from_static(LISTEN));
            let meta = Meta::own(Era::Stateless, peer.context.allowed);
            let params = PlainParams { members: &members, meta };
            let body = Request::new(peer.id(), LISTEN, &params).to_bytes()?;
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

/// Takes what a stream brings, until it ends. May be dropped and called again.
async fn hear_out(peer: &Arc<Peer>, session: &Arc<Session>, stream: &mut Option<Stream>) {
    let Some(stream) = stream else { return };
    while let Ok(Some(event)) = stream.next().await {
        if event.data.is_empty() {
            continue;
        }
        match wire::read(&event.data) {
            Ok(messages) => {
                for message in messages {
                    peer.aside(session, On::Any, wire::sort(message));
                }
            }
            Err(_) => peer.journal.ignored(),
        }
    }
}
