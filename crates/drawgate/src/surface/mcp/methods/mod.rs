//! The methods of the protocol, in both eras.

pub(crate) mod completion;
pub(crate) mod finder;
pub(crate) mod gate;
pub(crate) mod logging;
pub(crate) mod prompts;
pub(crate) mod questions;
pub(crate) mod resources;
pub(crate) mod source_reports;
pub(crate) mod subscriptions;
pub(crate) mod tasks;
pub(crate) mod tools;

use drawgate_core::model::Caller;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::lists::Cursor;
use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::{Answer, Page};
use crate::surface::mcp::wire::era::{self, Era};
use crate::surface::mcp::wire::message::{INTERNAL_ERROR, INVALID_PARAMS, RequestId, RpcError};
use crate::surface::mcp::wire::method::{Method, MethodName, Need};
use crate::surface::mcp::wire::stateless::{LIST_TTL_MS, server_info, with_ttl};
use std::sync::Arc;

/// Opens a session.
pub(crate) fn initialize(
    mcp: &Mcp,
    caller: &Caller,
    params: &Map<String, Value>,
) -> Result<(Arc<Session>, Answer), RpcError> {
    let Some(asked) = params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(RpcError::new(INVALID_PARAMS, "`protocolVersion` is missing"));
    };
    let version =
        era::WITH_SESSIONS.iter().find(|known| **known == asked).unwrap_or(&era::WITH_SESSIONS[0]);
    let client = crate::surface::mcp::wire::client::of_session(params)?;
    let session = mcp.inner.sessions.open(&caller.principal).ok_or_else(|| {
        RpcError::new(INTERNAL_ERROR, "too many sessions are open; try again later")
            .with_status(StatusCode::SERVICE_UNAVAILABLE)
    })?;
    session.introduce(client);
    if *version == era::WITH_SESSIONS[0] {
        session.set_primes();
    }
    let result = json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": server_info(),
        "instructions": mcp.inner.lists.of(&mcp.inner.gateway, caller).instructions,
    });
    Ok((session, Answer::Value(result)))
}

/// Performs any other request. What is not a call is boxed where it waits, so that calls do not pay for
/// its room.
pub(crate) async fn dispatch(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    method: &MethodName,
    params: Map<String, Value>,
) -> Result<Answer, RpcError> {
    let era = peer.era;
    if !method.needs().contains(&Need::Narrowing) {
        tools::check_meta(&params)?;
    }
    if method.needs().contains(&Need::FirstLists) {
        Box::pin(mcp.first_lists()).await;
    }
    let unknown = || RpcError::unknown_method(method.as_str());
    let result = match method.request_in(era).ok_or_else(unknown)? {
        Method::CallTool => return tools::tool(mcp, peer, id, params).await,
        Method::ListTools => return list_tools(mcp, peer, &params),
        Method::ListResources => {
            return Box::pin(resources::list(mcp, peer, &params)).await;
        }
        Method::ListTemplates => return list_templates(mcp, peer, &params),
        Method::ReadResource => {
            return Box::pin(resources::read(mcp, peer, id, params)).await;
        }
        Method::ListPrompts => return list_prompts(mcp, peer, &params),
        Method::GetPrompt => return Box::pin(prompts::get(mcp, peer, id, params)).await,
        Method::Complete => {
            return Box::pin(completion::complete(mcp, peer, id, params)).await;
        }
        Method::Subscribe => Box::pin(subscriptions::subscribe(mcp, peer, &params)).await?,
        Method::Unsubscribe => Box::pin(subscriptions::unsubscribe(mcp, peer, &params)).await?,
        Method::GetTask => return tasks::get(mcp, peer, &params),
        Method::UpdateTask => return tasks::update(mcp, peer, &params),
        Method::CancelTask => {
            return Box::pin(tasks::cancel(mcp, peer, &params)).await;
        }
        Method::Discover => discover(mcp, &peer.caller),
        Method::Ping => json!({}),
        Method::SetLogLevel => Box::pin(logging::set_level(mcp, peer, id, &params)).await?,
        // These are answered with a session, with a stream, and not at all.
        Method::Initialize | Method::Listen | Method::Cancelled => return Err(unknown()),
    };
    Ok(Answer::Value(with_ttl(era, LIST_TTL_MS, result)))
}

fn capabilities() -> Value {
    json!({
        "tools": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "prompts": { "listChanged": true },
        "completions": {},
        "logging": {},
    })
}

fn discover(mcp: &Mcp, caller: &Caller) -> Value {
    let mut capabilities = capabilities();
    if mcp.inner.tasks.is_some() {
        capabilities["extensions"] = json!({ tasks::EXTENSION: {} });
    }
    json!({
        "supportedVersions": era::supported(),
        "capabilities": capabilities,
        "instructions": mcp.inner.lists.of(&mcp.inner.gateway, caller).instructions,
    })
}

fn list_tools(mcp: &Mcp, peer: &Peer, params: &Map<String, Value>) -> Result<Answer, RpcError> {
    let cursor = cursor(params)?;
    let lists = mcp.inner.lists.of(&mcp.inner.gateway, &peer.caller);
    Ok(page(peer.era, "tools", lists.tools(peer.era).page(cursor)))
}

fn list_templates(mcp: &Mcp, peer: &Peer, params: &Map<String, Value>) -> Result<Answer, RpcError> {
    let cursor = cursor(params)?;
    let lists = mcp.inner.lists.of(&mcp.inner.gateway, &peer.caller);
    Ok(page(peer.era, "resourceTemplates", lists.templates.page(cursor)))
}

fn list_prompts(mcp: &Mcp, peer: &Peer, params: &Map<String, Value>) -> Result<Answer, RpcError> {
    let cursor = cursor(params)?;
    let lists = mcp.inner.lists.of(&mcp.inner.gateway, &peer.caller);
    Ok(page(peer.era, "prompts", lists.prompts.page(cursor)))
}

/// A page of a list in the form of an era.
pub(crate) fn page(
    era: Era,
    member: &'static str,
    (items, next): (Vec<u8>, Option<Cursor>),
) -> Answer {
    Answer::Page(Page { era, member, items, next: next.map(|next| next.to_string()) })
}

/// The cursor of a request for a list, if there is one.
pub(crate) fn cursor(params: &Map<String, Value>) -> Result<Option<Cursor>, RpcError> {
    let Some(cursor) = params.get("cursor") else { return Ok(None) };
    let parsed = cursor.as_str().and_then(Cursor::parse);
    let refused = || RpcError::new(INVALID_PARAMS, "`cursor` is not one that this server gave out");
    parsed.map(Some).ok_or_else(refused)
}
