//! The methods of the protocol, in both eras.

pub(crate) mod completion;
pub(crate) mod finder;
pub(crate) mod gate;
pub(crate) mod logging;
pub(crate) mod prompts;
pub(crate) mod questions;
pub(crate) mod resources;
pub(crate) mod subscriptions;
pub(crate) mod tasks;
pub(crate) mod tools;

use axum::response::Response;
use drawgate_core::model::Caller;
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value, json};

use crate::surface::mcp::Mcp;
use crate::surface::mcp::lists::Cursor;
use crate::surface::mcp::transport::http::{Peer, json as json_response};
use crate::surface::mcp::transport::watch;
use crate::surface::mcp::wire::era::{self, Era, META_SERVER, SESSION_HEADER};
use crate::surface::mcp::wire::message::{
    INTERNAL_ERROR, INVALID_PARAMS, RequestId, RpcError, open_result, result_bytes,
};
use crate::surface::mcp::wire::method::{Method, MethodName, Need};

/// How long a client of the stateless era may keep a list, in milliseconds.
const LIST_TTL_MS: u64 = 5_000;

/// Opens a session.
pub(crate) fn initialize(
    mcp: &Mcp,
    caller: &Caller,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
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
    let mut response = json_response(StatusCode::OK, result_bytes(id, &result));
    if let Ok(value) = HeaderValue::from_str(&session.id) {
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    Ok(response)
}

/// Performs any other request. What is not a call is boxed where it waits, so that calls do not pay for
/// its room.
pub(crate) async fn dispatch(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    method: &MethodName,
    params: Map<String, Value>,
) -> Result<Response, RpcError> {
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
        Method::ListTools => return list_tools(mcp, peer, id, &params),
        Method::Listen => {
            return watch::subscription(mcp, peer, id, &params);
        }
        Method::ListResources => {
            return Box::pin(resources::list(mcp, peer, id, &params)).await;
        }
        Method::ListTemplates => return list_templates(mcp, peer, id, &params),
        Method::ReadResource => {
            return Box::pin(resources::read(mcp, peer, id, params)).await;
        }
        Method::ListPrompts => return list_prompts(mcp, peer, id, &params),
        Method::GetPrompt => return Box::pin(prompts::get(mcp, peer, id, params)).await,
        Method::Complete => {
            return Box::pin(completion::complete(mcp, peer, id, params)).await;
        }
        Method::Subscribe => Box::pin(subscriptions::subscribe(mcp, peer, &params)).await?,
        Method::Unsubscribe => Box::pin(subscriptions::unsubscribe(mcp, peer, &params)).await?,
        Method::GetTask => return tasks::get(mcp, peer, id, &params),
        Method::UpdateTask => return tasks::update(mcp, peer, id, &params),
        Method::CancelTask => {
            return Box::pin(tasks::cancel(mcp, peer, id, &params)).await;
        }
        Method::Discover => discover(mcp, &peer.caller),
        Method::Ping => json!({}),
        Method::SetLogLevel => Box::pin(logging::set_level(mcp, peer, id, &params)).await?,
        // Answered before; what cancels is no request.
        Method::Initialize | Method::Cancelled => return Err(unknown()),
    };
    Ok(json_response(StatusCode::OK, result_bytes(id, &complete(era, LIST_TTL_MS, result))))
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

fn server_info() -> Value {
    json!({ "name": "drawgate", "title": "Drawgate", "version": env!("CARGO_PKG_VERSION") })
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

/// What the stateless era adds to a result that a client may keep.
pub(crate) fn complete(era: Era, ttl_ms: u64, result: Value) -> Value {
    let mut result = with_meta(era, result);
    if let (Era::Stateless, Value::Object(map)) = (era, &mut result) {
        map.insert("ttlMs".to_owned(), ttl_ms.into());
        map.insert("cacheScope".to_owned(), "private".into());
    }
    result
}

/// What the stateless era adds to every result.
pub(crate) fn with_meta(era: Era, mut result: Value) -> Value {
    if let (Era::Stateless, Value::Object(map)) = (era, &mut result) {
        map.insert("resultType".to_owned(), "complete".into());
        map.insert("_meta".to_owned(), json!({ META_SERVER: server_info() }));
    }
    result
}

/// The metadata of an answer in the stateless era.
pub(crate) fn stateless_meta() -> (String, Value) {
    (META_SERVER.to_owned(), server_info())
}

fn list_tools(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
    let cursor = cursor(params)?;
    let lists = mcp.inner.lists.of(&mcp.inner.gateway, &peer.caller);
    Ok(list_of(peer.era, id, "tools", &lists.tools(peer.era).page(cursor)))
}

fn list_templates(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
    let cursor = cursor(params)?;
    let lists = mcp.inner.lists.of(&mcp.inner.gateway, &peer.caller);
    Ok(list_of(peer.era, id, "resourceTemplates", &lists.templates.page(cursor)))
}

fn list_prompts(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
    let cursor = cursor(params)?;
    let lists = mcp.inner.lists.of(&mcp.inner.gateway, &peer.caller);
    Ok(list_of(peer.era, id, "prompts", &lists.prompts.page(cursor)))
}

/// A page of a list, made of the inside of a JSON array.
pub(crate) fn list_of(
    era: Era,
    id: &RequestId,
    member: &str,
    (page, next): &(Vec<u8>, Option<Cursor>),
) -> Response {
    let mut out = Vec::with_capacity(page.len() + 512);
    open_result(id, &mut out);
    out.extend_from_slice(format!("{{\"{member}\":[").as_bytes());
    out.extend_from_slice(page);
    out.push(b']');
    if let Some(next) = next {
        out.extend_from_slice(format!(",\"nextCursor\":\"{next}\"").as_bytes());
    }
    if era == Era::Stateless {
        let rest = complete(era, LIST_TTL_MS, json!({})).to_string();
        out.push(b',');
        out.extend_from_slice(rest.trim_start_matches('{').as_bytes());
    } else {
        out.push(b'}');
    }
    out.push(b'}');
    json_response(StatusCode::OK, out)
}

/// The cursor of a request for a list, if there is one.
pub(crate) fn cursor(params: &Map<String, Value>) -> Result<Option<Cursor>, RpcError> {
    let Some(cursor) = params.get("cursor") else { return Ok(None) };
    let parsed = cursor.as_str().and_then(Cursor::parse);
    let refused = || RpcError::new(INVALID_PARAMS, "`cursor` is not one that this server gave out");
    parsed.map(Some).ok_or_else(refused)
}
