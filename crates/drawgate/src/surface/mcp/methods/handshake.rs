//! How a client learns what the gateway offers: `initialize` in the era with sessions, `server/discover` in the other.

use std::sync::Arc;

use drawgate_core::model::Caller;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::tasks;
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::client;
use crate::surface::mcp::wire::era;
use crate::surface::mcp::wire::message::{INTERNAL_ERROR, INVALID_PARAMS, RpcError};
use crate::surface::mcp::wire::stateless::server_info;

/// `initialize`: opens a session.
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
    let client = client::of_session(params)?;
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
        "instructions": mcp.lists(caller).instructions,
    });
    Ok((session, Answer::Value(result)))
}

/// `server/discover`.
pub(crate) fn discover(mcp: &Mcp, peer: &Peer) -> Answer {
    let mut capabilities = capabilities();
    if mcp.inner.tasks.is_some() {
        capabilities["extensions"] = json!({ tasks::EXTENSION: {} });
    }
    let about = json!({
        "supportedVersions": era::supported(),
        "capabilities": capabilities,
        "instructions": mcp.lists(&peer.caller).instructions,
    });
    Answer::kept(peer.era, about)
}

/// `ping`.
pub(crate) fn ping(peer: &Peer) -> Answer {
    Answer::kept(peer.era, json!({}))
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
