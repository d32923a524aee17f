//! Lists that are prepared for a caller's view, page by page.

use serde_json::{Map, Value};

use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::lists::page::Cursor;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::{Answer, Page};
use crate::surface::mcp::wire::era::Era;
use crate::surface::mcp::wire::message::{INVALID_PARAMS, RpcError};

/// `tools/list`.
pub(crate) fn tools(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Answer, RpcError> {
    let cursor = cursor(params)?;
    let lists = mcp.lists(&peer.caller);
    Ok(page(peer.era, "tools", lists.tools(peer.era).page(cursor)))
}

/// `resources/templates/list`.
pub(crate) fn templates(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Answer, RpcError> {
    let cursor = cursor(params)?;
    let lists = mcp.lists(&peer.caller);
    Ok(page(peer.era, "resourceTemplates", lists.templates.page(cursor)))
}

/// `prompts/list`.
pub(crate) fn prompts(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Answer, RpcError> {
    let cursor = cursor(params)?;
    let lists = mcp.lists(&peer.caller);
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
