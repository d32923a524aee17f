//! The methods of the protocol, in both eras.

use axum::response::Response;
use drawgate_core::model::Principal;
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value, json};

use super::era::{self, Era, META_SERVER, SESSION_HEADER};
use super::http::{Peer, json as json_response};
use super::message::{
    INTERNAL_ERROR, INVALID_PARAMS, RequestId, RpcError, open_result, result_bytes,
};
use super::{Mcp, call, resources, watch};

/// How long a client of the stateless era may keep a list, in milliseconds.
const LIST_TTL_MS: u64 = 5_000;

/// What every client is told about this server.
const INSTRUCTIONS: &str = "Drawgate: one gate to many tools. Every call is checked and recorded. A result \
     that is too long comes with a resource link; read it with resources/read. A call that needs a person's \
     approval says so, and succeeds when it is made again after the approval.";

/// Opens a session.
pub(super) fn initialize(
    mcp: &Mcp,
    principal: &Principal,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
    let Some(asked) = params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(RpcError::new(INVALID_PARAMS, "`protocolVersion` is missing"));
    };
    let version =
        era::WITH_SESSIONS.iter().find(|known| **known == asked).unwrap_or(&era::WITH_SESSIONS[0]);
    let session = mcp.inner.sessions.open(principal).ok_or_else(|| {
        RpcError::new(INTERNAL_ERROR, "too many sessions are open; try again later")
            .with_status(StatusCode::SERVICE_UNAVAILABLE)
    })?;
    let result = json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    });
    let mut response = json_response(StatusCode::OK, result_bytes(id, &result));
    if let Ok(value) = HeaderValue::from_str(&session.id) {
        response.headers_mut().insert(SESSION_HEADER, value);
    }
    Ok(response)
}

/// Performs any other request.
pub(super) async fn dispatch(
    mcp: &Mcp,
    peer: Peer,
    id: &RequestId,
    method: &str,
    params: Map<String, Value>,
) -> Result<Response, RpcError> {
    let era = peer.era;
    let result = match (method, era) {
        ("tools/call", _) => return call::tool(mcp, peer, id, params).await,
        ("tools/list", _) => return list_tools(mcp, &peer, id, &params),
        ("subscriptions/listen", Era::Stateless) => {
            return Ok(watch::subscription(mcp, &peer, id, &params));
        }
        ("server/discover", Era::Stateless) => discover(),
        ("ping", Era::Sessions) => json!({}),
        ("logging/setLevel", Era::Sessions) => set_level(&params)?,
        ("resources/list", _) => resources::list(mcp, &peer, &params).await?,
        ("resources/templates/list", _) => json!({ "resourceTemplates": [] }),
        ("resources/read", _) => resources::read(mcp, &peer, &params).await?,
        _ => return Err(RpcError::unknown_method(method)),
    };
    Ok(json_response(StatusCode::OK, result_bytes(id, &complete(era, method, result))))
}

fn capabilities() -> Value {
    json!({ "tools": { "listChanged": true }, "resources": {}, "logging": {} })
}

fn server_info() -> Value {
    json!({ "name": "drawgate", "title": "Drawgate", "version": env!("CARGO_PKG_VERSION") })
}

fn discover() -> Value {
    json!({
        "supportedVersions": era::supported(),
        "capabilities": capabilities(),
        "instructions": INSTRUCTIONS,
    })
}

/// What the stateless era adds to every result.
fn complete(era: Era, method: &str, mut result: Value) -> Value {
    if let (Era::Stateless, Value::Object(map)) = (era, &mut result) {
        map.insert("resultType".to_owned(), "complete".into());
        let ttl_ms = if method == "resources/read" { 0 } else { LIST_TTL_MS };
        map.insert("ttlMs".to_owned(), ttl_ms.into());
        map.insert("cacheScope".to_owned(), "private".into());
        map.insert("_meta".to_owned(), json!({ META_SERVER: server_info() }));
    }
    result
}

/// The metadata of an answer in the stateless era.
pub(super) fn stateless_meta() -> (String, Value) {
    (META_SERVER.to_owned(), server_info())
}

fn list_tools(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    params: &Map<String, Value>,
) -> Result<Response, RpcError> {
    no_cursor(params)?;
    let list = mcp.inner.lists.of(&mcp.inner.gateway, &peer.caller);
    let mut out = Vec::with_capacity(list.tools.len() + 256);
    open_result(id, &mut out);
    out.extend_from_slice(b"{\"tools\":");
    out.extend_from_slice(&list.tools);
    if peer.era == Era::Stateless {
        let rest = complete(Era::Stateless, "tools/list", json!({}));
        let rest = rest.to_string();
        out.push(b',');
        out.extend_from_slice(rest.trim_start_matches('{').as_bytes());
    } else {
        out.push(b'}');
    }
    out.push(b'}');
    Ok(json_response(StatusCode::OK, out))
}

/// Lists come whole, so no cursor of ours can exist.
pub(super) fn no_cursor(params: &Map<String, Value>) -> Result<(), RpcError> {
    match params.get("cursor") {
        None => Ok(()),
        Some(_) => {
            Err(RpcError::new(INVALID_PARAMS, "`cursor` is not one that this server gave out"))
        }
    }
}

fn set_level(params: &Map<String, Value>) -> Result<Value, RpcError> {
    const LEVELS: [&str; 8] =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    match params.get("level").and_then(Value::as_str) {
        Some(level) if LEVELS.contains(&level) => Ok(json!({})),
        _ => Err(RpcError::new(
            INVALID_PARAMS,
            format!("`level` must be one of `{}`", LEVELS.join("`, `")),
        )),
    }
}
