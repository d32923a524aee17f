//! Which session a request belongs to.

use std::sync::Arc;

use drawgate_core::model::Principal;
use http::{HeaderMap, StatusCode};

use crate::surface::mcp::session::sessions::Session;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::era::SESSION_HEADER;
use crate::surface::mcp::wire::message::{INVALID_REQUEST, RpcError, SESSION_NOT_FOUND};

/// The session that a message names, if it names one. One that has ended is an error, by which a client learns
/// that it must begin anew.
pub(crate) async fn named_session(
    mcp: &Mcp,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Option<Arc<Session>>, RpcError> {
    if !headers.contains_key(SESSION_HEADER) {
        return Ok(None);
    }
    find_session(mcp, principal, headers).await.map(Some)
}

/// The session that a request must name.
pub(crate) async fn find_session(
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
pub(crate) async fn no_such_session(mcp: &Mcp, principal: &Principal, id: &str) -> RpcError {
    if mcp.inner.sessions.is_foreign(id, principal) {
        mcp.inner.gateway.record_refused_caller(Some(principal), "foreign_session").await;
    }
    // As the SDKs' servers say it: clients know by status, code and words that they must begin anew.
    RpcError::new(SESSION_NOT_FOUND, "Session not found; send `initialize` again")
        .with_status(StatusCode::NOT_FOUND)
}
