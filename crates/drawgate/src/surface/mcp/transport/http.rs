//! The HTTP end: POST for messages, GET for a stream, DELETE for the end of a session.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use drawgate_core::model::Principal;
use drawgate_runtime::callers::Identity;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

use super::negotiation::{accepts, check_types};
use super::response::{self, empty, plain, rpc};
use super::sessions::{find_session, no_such_session};
use super::{post, watch};
use crate::surface::intake::Received;
use crate::surface::mcp::caller::request;
use crate::surface::mcp::caller::transport::Transport;
use crate::surface::mcp::session::event_buffer;
use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::era::{LAST_EVENT_ID, SESSION_HEADER};

/// How long a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Answers one HTTP request of an authenticated caller.
pub async fn handle(
    mcp: &Mcp,
    identity: impl Into<Identity>,
    transport: Transport,
    request: Request<Body>,
) -> Response {
    let identity = identity.into();
    match *request.method() {
        Method::POST => post(mcp, identity, transport, request).await,
        Method::GET => Box::pin(get(mcp, identity, transport, request.headers())).await,
        Method::DELETE => Box::pin(delete(mcp, &identity.principal, request.headers())).await,
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "use POST, GET or DELETE"),
    }
}

async fn post(
    mcp: &Mcp,
    identity: Identity,
    transport: Transport,
    request: Request<Body>,
) -> Response {
    let (head, body) = request.into_parts();
    let body = match check_types(&head.headers) {
        Ok(()) => read(mcp, &identity.principal, body).await,
        Err(response) => Err(response),
    };
    let body = match body {
        Ok(body) => body,
        Err(response) => {
            let why = "the request could not be read";
            Box::pin(request::refused(&mcp.inner.gateway, &identity, transport, why)).await;
            return *response;
        }
    };
    post::answer(mcp, identity, transport, &head.headers, body)
        .await
        .unwrap_or_else(|error| rpc(&error))
}

async fn get(mcp: &Mcp, identity: Identity, transport: Transport, headers: &HeaderMap) -> Response {
    if !accepts(headers, "text/event-stream") {
        return plain(StatusCode::NOT_ACCEPTABLE, "a GET needs `Accept: text/event-stream`");
    }
    if !headers.contains_key(SESSION_HEADER) {
        return plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "a GET needs the `Mcp-Session-Id` of a session",
        );
    }
    let surface = transport.surface();
    match find_session(mcp, &identity.principal, headers).await {
        Ok(session) => match headers.get(LAST_EVENT_ID) {
            None => watch::session_stream(mcp, identity, &session, surface),
            Some(id) => taken_up(&session, id),
        },
        Err(error) => rpc(&error),
    }
}

/// The stream of a request, after the last event that the client has got.
fn taken_up(session: &Session, last: &HeaderValue) -> Response {
    let place = last.to_str().ok().and_then(event_buffer::parse_id);
    match place.and_then(|(stream, event)| Some((session.replays.find(stream)?, event))) {
        Some((buffer, event)) => {
            response::stream(Body::from_stream(buffer.read_after(event).into_stream()))
        }
        None => plain(
            StatusCode::BAD_REQUEST,
            "the stream of this `Last-Event-ID` is not kept (any more); make the request again",
        ),
    }
}

async fn delete(mcp: &Mcp, principal: &Principal, headers: &HeaderMap) -> Response {
    let Some(id) = headers.get(SESSION_HEADER) else {
        return plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "a DELETE needs the `Mcp-Session-Id` of a session",
        );
    };
    let id = id.to_str().unwrap_or_default();
    if mcp.inner.sessions.close(id, principal) {
        return empty(StatusCode::NO_CONTENT);
    }
    rpc(&no_such_session(mcp, principal, id).await)
}

async fn read(mcp: &Mcp, caller: &Principal, body: Body) -> Result<Received, Box<Response>> {
    let read = mcp.intake().read(caller, body, (mcp.inner.max_body, BODY_TIME)).await;
    read.map_err(|error| Box::new(plain(error.status(), &error.to_string())))
}
