//! A message that was posted: to which session it belongs, what it asks for, and how it is answered.

use std::sync::Arc;

use axum::response::Response;
use drawgate_core::model::Caller;
use drawgate_runtime::callers::Identity;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::negotiation::accepts;
use super::reply::{self, Streaming};
use super::response::{empty, json};
use super::sessions::{find_session, named_session};
use super::watch;
use crate::surface::intake::{Charge, Received};
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::caller::request::{self, CallRequest};
use crate::surface::mcp::caller::transport::{OVER_HTTP, Transport};
use crate::surface::mcp::methods;
use crate::surface::mcp::methods::handshake;
use crate::surface::mcp::session::reply::ReplyChannel;
use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::client;
use crate::surface::mcp::wire::era::{Era, SESSION_HEADER};
use crate::surface::mcp::wire::headers::{self, Headers};
use crate::surface::mcp::wire::message::{
    self, INVALID_PARAMS, Message, Params, RequestId, RpcError,
};
use crate::surface::mcp::wire::method::{Method, MethodName, Need};

/// Answers a message of an authenticated caller.
pub(crate) async fn answer(
    mcp: &Mcp,
    identity: Identity,
    transport: Transport,
    headers: &HeaderMap,
    body: Received,
) -> Result<Response, RpcError> {
    let message = match message::parse(&body) {
        Ok(message) => message,
        Err(error) => {
            let gateway = &mcp.inner.gateway;
            Box::pin(request::refused(gateway, &identity, transport, &error.message)).await;
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
            let call_request = CallRequest::of(&identity, transport, &id, &method, &params);
            let asked = Asked { mcp, headers, id: &id, method: &method };
            let sender = Sender { identity, transport, call_request: call_request.clone(), charge };
            let done = request(&asked, sender, params).await;
            let done = request::noted(&mcp.inner.gateway, call_request, done).await;
            done.map_err(|error| error.of(&id))
        }
    }
}

fn notification(session: &Session, method: &MethodName, params: &Map<String, Value>) {
    if method.is(Method::Cancelled) {
        let id = match params.get("requestId") {
            Some(Value::String(text)) => RequestId::Text(text.clone()),
            Some(Value::Number(number)) => RequestId::Number(number.clone()),
            _ => return,
        };
        session.cancel(&id);
    }
}

/// A request.
struct Asked<'a> {
    mcp: &'a Mcp,
    headers: &'a HeaderMap,
    id: &'a RequestId,
    method: &'a MethodName,
}

/// Who sent a request, how, for which call, and what it takes up until it is answered.
struct Sender {
    identity: Identity,
    transport: Transport,
    call_request: Option<Arc<CallRequest>>,
    charge: Charge,
}

async fn request(asked: &Asked<'_>, sender: Sender, params: Params) -> Result<Response, RpcError> {
    let Params::Given(mut params) = params else {
        return Err(RpcError::new(INVALID_PARAMS, "`params` must be an object"));
    };
    let Sender { identity, transport, call_request, charge } = sender;
    let mode = match transport {
        Transport::Http | Transport::Run => Headers::Checked,
        Transport::Stdio => Headers::Absent,
    };
    let Identity { principal, carried, lineage } = identity;
    let surface = transport.surface();
    let caller = Caller { principal, session: None, surface, carried, lineage };
    let era = headers::establish(asked.method, &params, asked.headers, mode)?;
    let peer = match era {
        Era::Sessions if asked.method.is(Method::Initialize) => {
            return opened(handshake::initialize(asked.mcp, &caller, &params)?, asked.id);
        }
        Era::Sessions => with_session(asked, caller, call_request).await?,
        Era::Stateless => {
            if mode == Headers::Checked && asked.method.is(Method::CallTool) {
                let inner = &asked.mcp.inner;
                inner.parameters.check(&inner.gateway, &caller, &params, asked.headers)?;
            }
            let client = Arc::new(client::of_request(&mut params)?);
            Peer { caller, era, session: None, client, reply: None, call_request }
        }
    };
    let done = perform(asked, peer, params, charge).await;
    // Revisions with sessions report a request's error in an answer that is itself a success.
    match era {
        Era::Sessions => done.map_err(|error| error.with_status(StatusCode::OK)),
        Era::Stateless => done,
    }
}

async fn with_session(
    asked: &Asked<'_>,
    caller: Caller,
    call_request: Option<Arc<CallRequest>>,
) -> Result<Peer, RpcError> {
    let session = find_session(asked.mcp, &caller.principal, asked.headers).await?;
    let caller = Caller { session: Some(Arc::clone(&session.id)), ..caller };
    let client = session.client();
    let (era, session) = (Era::Sessions, Some(session));
    Ok(Peer { caller, era, session, client, reply: None, call_request })
}

async fn perform(
    asked: &Asked<'_>,
    peer: Peer,
    params: Map<String, Value>,
    charge: Charge,
) -> Result<Response, RpcError> {
    let Asked { mcp, id, method, headers } = asked;
    match streaming(&peer, method, &params, headers) {
        Some(streaming) => respond(asked, peer, (params, charge), streaming).await,
        None if method.request_in(peer.era) == Some(Method::Listen) => {
            watch::subscription(mcp, &peer, id, &params)
        }
        None => {
            let answer = Box::pin(methods::dispatch(mcp, &peer, id, method, params)).await?;
            Ok(json(StatusCode::OK, answer.to_message(id)?))
        }
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
    asked: &Asked<'_>,
    peer: Peer,
    (params, charge): (Map<String, Value>, Charge),
    streaming: Streaming,
) -> Result<Response, RpcError> {
    let channel = match (&peer.session, peer.caller.surface == OVER_HTTP) {
        (Some(session), true) => ReplyChannel::resumable(session),
        // Without a session leaving cancels, and over standard input and output a client does not come back.
        _ => ReplyChannel::new(),
    };
    let peer = Peer { reply: Some(channel.clone()), ..peer };
    let (mcp, own, method) = (asked.mcp.clone(), asked.id.clone(), asked.method.clone());
    let work = Box::pin(async move {
        let call_request = peer.call_request.clone();
        let done = methods::dispatch(&mcp, &peer, &own, &method, params).await;
        let done = done.and_then(|answer| answer.to_message(&own));
        drop(charge);
        // The error leaves in the stream, so this is the last place that sees it.
        request::noted(&mcp.inner.gateway, call_request, done).await
    });
    reply::respond(channel, asked.id, streaming, work).await
}

/// The answer to `initialize`, with the session in a header.
fn opened((session, answer): (Arc<Session>, Answer), id: &RequestId) -> Result<Response, RpcError> {
    let mut response = json(StatusCode::OK, answer.to_message(id)?);
    if let Ok(value) = HeaderValue::from_str(&session.id) {
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    Ok(response)
}
