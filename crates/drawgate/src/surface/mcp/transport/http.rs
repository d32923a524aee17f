//! The HTTP end: what a request must look like, which session it belongs to, how it is answered.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use drawgate_core::model::{Caller, Principal};
use http::header::{ACCEPT, ALLOW, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use serde_json::{Map, Value};

use crate::surface::intake::{Charge, Received};
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::caller::request::{self, CallRequest};
use crate::surface::mcp::caller::transport::{OVER_HTTP, Transport};
use crate::surface::mcp::methods;
use crate::surface::mcp::methods::handshake;
use crate::surface::mcp::session::event_buffer;
use crate::surface::mcp::session::reply::{Reply, ReplyChannel, Streaming};
use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::transport::watch;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::client;
use crate::surface::mcp::wire::era::{Era, LAST_EVENT_ID, SESSION_HEADER};
use crate::surface::mcp::wire::headers::{self as request_headers, Headers};
use crate::surface::mcp::wire::message::{
    self, INVALID_PARAMS, INVALID_REQUEST, Message, Params, RequestId, RpcError, SESSION_NOT_FOUND,
};
use crate::surface::mcp::wire::method::{self, MethodName, Need};
use crate::surface::mcp::wire::sse;
use drawgate_runtime::callers::Identity;

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
    answer(mcp, identity, transport, &head.headers, body).await.unwrap_or_else(|error| rpc(&error))
}

async fn answer(
    mcp: &Mcp,
    identity: Identity,
    transport: Transport,
    headers: &HeaderMap,
    body: Received,
) -> Result<Response, RpcError> {
    let message = match message::parse(&body) {
        Ok(message) => message,
        Err(error) => {
            Box::pin(request::refused(&mcp.inner.gateway, &identity, transport, &error.message))
                .await;
            return Err(error);
        }
    };
    let charge = body.into_charge();
    match message {
        Message::Response { id, result } => {
            if let Some(session) = named_session(mcp, &identity.principal, headers).await? {
                session.questions.answered(&id, result);
            }
            Ok(empty(StatusCode::ACCEPTED))
        }
        Message::Notification { method, params } => {
            let session = Box::pin(named_session(mcp, &identity.principal, headers)).await?;
            if let (Some(session), Params::Given(params)) = (session, params) {
                notification(&session, &method, &params);
            }
            Ok(empty(StatusCode::ACCEPTED))
        }
        Message::Request { id, method, params } => {
            let params = match params {
                Params::Given(params) => Ok(params),
                Params::Malformed => {
                    Err(RpcError::new(INVALID_PARAMS, "`params` must be an object"))
                }
            };
            let given = params.as_ref().ok();
            let call_request = CallRequest::of(&identity, transport, &id, &method, given);
            let done = match params {
                Ok(params) => {
                    let call_request = call_request.clone();
                    let sender = Sender { identity, transport, call_request, charge };
                    request(mcp, sender, headers, &id, &method, params).await
                }
                Err(error) => Err(error),
            };
            request::noted(&mcp.inner.gateway, call_request, done)
                .await
                .map_err(|error| error.of(&id))
        }
    }
}

/// Who sent a request, how, for which call, and what it takes up until it is answered.
struct Sender {
    identity: Identity,
    transport: Transport,
    call_request: Option<Arc<CallRequest>>,
    charge: Charge,
}

async fn request(
    mcp: &Mcp,
    sender: Sender,
    headers: &HeaderMap,
    id: &RequestId,
    method: &MethodName,
    mut params: Map<String, Value>,
) -> Result<Response, RpcError> {
    let Sender { identity, transport, call_request, charge } = sender;
    let mode = match transport {
        Transport::Http | Transport::Run => Headers::Checked,
        Transport::Stdio => Headers::Absent,
    };
    let Identity { principal, carried, lineage } = identity;
    let surface = transport.surface();
    let mut caller = Caller { principal, session: None, surface, carried, lineage };
    let era = request_headers::establish(method, &params, headers, mode)?;
    let session = match era {
        Era::Sessions if method.is(method::Method::Initialize) => {
            return opened(handshake::initialize(mcp, &caller, &params)?, id);
        }
        Era::Sessions => Some(find_session(mcp, &caller.principal, headers).await?),
        Era::Stateless => None,
    };
    caller.session = session.as_ref().map(|session| Arc::clone(&session.id));
    if (era, mode) == (Era::Stateless, Headers::Checked) && method.is(method::Method::CallTool) {
        mcp.inner.parameters.check(&mcp.inner.gateway, &caller, &params, headers)?;
    }
    let client = match &session {
        Some(session) => session.client(),
        None => Arc::new(client::of_request(&mut params)?),
    };
    let peer = Peer { caller, era, session, client, reply: None, call_request };
    let done = match streaming(&peer, method, &params, headers) {
        None if method.request_in(era) == Some(method::Method::Listen) => {
            watch::subscription(mcp, &peer, id, &params)
        }
        None => Box::pin(methods::dispatch(mcp, &peer, id, method, params))
            .await
            .and_then(|answer| Ok(json(StatusCode::OK, answer.to_message(id)?))),
        Some(streaming) => respond(mcp, peer, id, method, (params, charge), streaming).await,
    };
    // Revisions with sessions report a request's error in an answer that is itself a success.
    match era {
        Era::Sessions => done.map_err(|error| error.with_status(StatusCode::OK)),
        Era::Stateless => done,
    }
}

/// Whether and when an answer may become a stream: where questions, progress or logs can come.
fn streaming(
    peer: &Peer,
    method: &MethodName,
    params: &Map<String, Value>,
    headers: &HeaderMap,
) -> Option<Streaming> {
    if !method.needs().contains(&Need::Reports) || !takes_events(headers) {
        return None;
    }
    let meta = params.get("_meta").and_then(Value::as_object);
    if meta.is_some_and(|meta| meta.contains_key("progressToken")) {
        return Some(Streaming::AtOnce);
    }
    let speaks = peer.era == Era::Sessions || peer.client.log_level.is_some();
    speaks.then_some(Streaming::WhenNeeded)
}

fn takes_events(headers: &HeaderMap) -> bool {
    !headers.contains_key(ACCEPT) || accepts(headers, "text/event-stream")
}

async fn respond(
    mcp: &Mcp,
    peer: Peer,
    id: &RequestId,
    method: &MethodName,
    (params, charge): (Map<String, Value>, Charge),
    streaming: Streaming,
) -> Result<Response, RpcError> {
    let reply = match (&peer.session, peer.caller.surface == OVER_HTTP) {
        (Some(session), true) => ReplyChannel::resumable(session),
        // Who leaves has cancelled, and over standard input and output nobody comes back.
        _ => ReplyChannel::new(),
    };
    let peer = Peer { reply: Some(reply.clone()), ..peer };
    let (mcp, own, method) = (mcp.clone(), id.clone(), method.clone());
    let work = Box::pin(async move {
        let call_request = peer.call_request.clone();
        let done = methods::dispatch(&mcp, &peer, &own, &method, params).await;
        let done = done.and_then(|answer| answer.to_message(&own));
        drop(charge);
        // The error leaves in the stream, so this is the last place that sees it.
        request::noted(&mcp.inner.gateway, call_request, done).await
    });
    Ok(match reply.respond(id, streaming, work).await? {
        Reply::Message(message) => json(StatusCode::OK, message),
        Reply::Stream(response) => response,
    })
}

/// The answer to `initialize`, with the session in a header.
fn opened((session, answer): (Arc<Session>, Answer), id: &RequestId) -> Result<Response, RpcError> {
    let mut response = json(StatusCode::OK, answer.to_message(id)?);
    if let Ok(value) = HeaderValue::from_str(&session.id) {
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    Ok(response)
}

fn notification(session: &Session, method: &MethodName, params: &Map<String, Value>) {
    if method.is(method::Method::Cancelled) {
        let id = match params.get("requestId") {
            Some(Value::String(text)) => RequestId::Text(text.clone()),
            Some(Value::Number(number)) => RequestId::Number(number.clone()),
            _ => return,
        };
        session.cancel(&id);
    }
}

/// The session that a message names, if it names one. One that has ended is an error, by which a client learns
/// that it must begin anew.
async fn named_session(
    mcp: &Mcp,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Option<Arc<Session>>, RpcError> {
    if !headers.contains_key(SESSION_HEADER) {
        return Ok(None);
    }
    find_session(mcp, principal, headers).await.map(Some)
}

async fn find_session(
    mcp: &Mcp,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Arc<Session>, RpcError> {
    let Some(id) = headers.get(SESSION_HEADER) else {
        return Err(RpcError::new(
            INVALID_REQUEST,
            "`Mcp-Session-Id` is missing; send `initialize` first",
        ));
    };
    let id = id.to_str().unwrap_or_default();
    match mcp.inner.sessions.find(id, principal) {
        Some(session) => Ok(session),
        None => Err(Box::pin(no_such_session(mcp, principal, id)).await),
    }
}

/// Whose session it is makes no difference to the answer, only to the audit log.
async fn no_such_session(mcp: &Mcp, principal: &Principal, id: &str) -> RpcError {
    if mcp.inner.sessions.is_foreign(id, principal) {
        mcp.inner.gateway.record_refused_caller(Some(principal), "foreign_session").await;
    }
    // As the SDKs' servers say it: clients know by status, code and words that they must begin anew.
    RpcError::new(SESSION_NOT_FOUND, "Session not found; send `initialize` again")
        .with_status(StatusCode::NOT_FOUND)
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
        Some((buffer, event)) => sse::response(buffer.read_after(event).into_body()),
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

/// A browser can send a form across sites without asking; it can't send JSON.
fn check_types(headers: &HeaderMap) -> Result<(), Box<Response>> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (essence, parameters) = kind.split_once(';').unwrap_or((kind, ""));
    let parameters = parameters.to_ascii_lowercase();
    let plain_charset = !parameters.contains("charset=") || parameters.contains("utf-8");
    if !essence.trim().eq_ignore_ascii_case("application/json") || !plain_charset {
        return Err(Box::new(plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send `Content-Type: application/json`",
        )));
    }
    if headers.get(CONTENT_ENCODING).is_some_and(|value| value != "identity") {
        return Err(Box::new(plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send the body without `Content-Encoding`",
        )));
    }
    if headers.contains_key(ACCEPT)
        && !accepts(headers, "application/json")
        && !accepts(headers, "text/event-stream")
    {
        return Err(Box::new(plain(
            StatusCode::NOT_ACCEPTABLE,
            "accept `application/json` and `text/event-stream`",
        )));
    }
    Ok(())
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let family = kind.split('/').next();
    headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        value.split(',').any(|part| {
            let range = part.split(';').next().unwrap_or_default().trim();
            let any_of = range.strip_suffix("/*");
            range.eq_ignore_ascii_case(kind)
                || any_of == Some("*")
                || any_of.is_some() && any_of == family
        })
    })
}

async fn read(mcp: &Mcp, caller: &Principal, body: Body) -> Result<Received, Box<Response>> {
    let read = mcp.intake().read(caller, body, (mcp.inner.max_body, BODY_TIME)).await;
    read.map_err(|error| Box::new(plain(error.status(), &error.to_string())))
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn rpc(error: &RpcError) -> Response {
    json(error.status, error.to_bytes())
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A refusal before the protocol's own form applies.
fn plain(status: StatusCode, message: &str) -> Response {
    let mut response = Response::new(Body::from(format!("{message}\n")));
    *response.status_mut() = status;
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
    }
    response
}
