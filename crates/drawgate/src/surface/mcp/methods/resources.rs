//! Resources: the artifacts that hold outputs which were too long to return, and those of the
//! sources.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use drawgate_core::model::{ArtifactRef, Caller, Operation, SourceId, ToolError, shown_name};
use serde_json::{Map, Value, json};

use super::gate::{self, CachePolicy};
use super::lists::{cursor, page};
use super::meta;
use super::perform::perform_operation;
use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::caller::view::CallerView;
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::era::Era;
use crate::surface::mcp::wire::message::{
    INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RequestId, RpcError,
};
use crate::surface::mcp::wire::stateless::with_ttl;

/// How many artifacts are listed; a longer list would not be read.
const MAX_ARTIFACTS: usize = 200;
/// The longest URI that an answer repeats.
const MAX_URI: usize = 4096;

/// `resources/list`.
pub(crate) async fn list(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Answer, RpcError> {
    let cursor = cursor(params)?;
    let lists = mcp.lists(&peer.caller);
    let (mut listed, next) = lists.resources.page(cursor);
    if cursor.is_some() {
        return Ok(page(peer.era, "resources", (listed, next)));
    }
    let all = mcp.inner.gateway.artifacts(&peer.caller.principal).await.map_err(internal)?;
    let own = all.iter().take(MAX_ARTIFACTS).map(|info| {
        json!({
            "uri": info.reference.uri,
            "name": format!("output of {}", info.tool_id),
            "mimeType": info.reference.mime_type,
            "size": info.reference.size,
        })
    });
    let mut first: Vec<u8> =
        own.map(|artifact| artifact.to_string()).collect::<Vec<_>>().join(",").into();
    if !first.is_empty() && !listed.is_empty() {
        first.push(b',');
    }
    first.append(&mut listed);
    Ok(page(peer.era, "resources", (first, next)))
}

/// `resources/read`.
pub(crate) async fn read(
    mcp: &Mcp,
    peer: &Peer,
    id: &RequestId,
    mut params: Map<String, Value>,
) -> Result<Answer, RpcError> {
    let uri = gate::text(&params, "uri")?.to_owned();
    if let Some(hash) = uri.strip_prefix(ArtifactRef::URI_PREFIX) {
        meta::check(&params)?;
        let result = artifact(mcp, peer, &uri, hash).await?;
        return Ok(Answer::Value(with_ttl(peer.era, 0, result)));
    }
    let (source, own) = find(mcp, &peer.caller, peer.era, &uri)?;
    let mut arguments = Map::new();
    arguments.insert("uri".to_owned(), own.as_str().into());
    let asked = (&source, Operation::ReadResource);
    let call = gate::invocation(peer.era, id, &mut params, asked, arguments)?;
    let mut result = perform_operation(mcp, peer, id, call).await?;
    if let Some(error) = &result.error {
        return Err(failure(peer, error, &uri, &own));
    }
    if let Some(Value::Array(contents)) = result.rest.get_mut("contents") {
        rename(contents, &own, &uri);
    }
    Ok(gate::answer(peer.era, result, CachePolicy::Private))
}

/// Whose a resource is, and what it is called there.
pub(crate) fn find(
    mcp: &Mcp,
    caller: &Caller,
    era: Era,
    uri: &str,
) -> Result<(SourceId, String), RpcError> {
    let view = CallerView::of(&mcp.inner.gateway, caller);
    let open = view.open(Operation::ReadResource);
    gate::only(view.snapshot.find_resource(uri, &open), || unknown(era, uri))
}

/// Whether this is an artifact of the caller's.
pub(crate) async fn is_artifact(mcp: &Mcp, peer: &Peer, uri: &str) -> Result<bool, RpcError> {
    if !uri.starts_with(ArtifactRef::URI_PREFIX) {
        return Ok(false);
    }
    let all = mcp.inner.gateway.artifacts(&peer.caller.principal).await.map_err(internal)?;
    Ok(all.iter().any(|info| info.reference.uri == uri))
}

async fn artifact(mcp: &Mcp, peer: &Peer, uri: &str, hash: &str) -> Result<Value, RpcError> {
    let found = mcp.inner.gateway.artifact(hash, &peer.caller.principal).await.map_err(internal)?;
    let Some((info, bytes)) = found else { return Err(unknown(peer.era, uri)) };
    let mut content = json!({ "uri": uri, "mimeType": info.reference.mime_type });
    match String::from_utf8(bytes) {
        Ok(text) => content["text"] = text.into(),
        Err(error) => content["blob"] = STANDARD.encode(error.as_bytes()).into(),
    }
    Ok(json!({ "contents": [content] }))
}

/// Contents under the URI that was asked for.
fn rename(contents: &mut [Value], own: &str, asked: &str) {
    for content in contents {
        match content.get_mut("uri") {
            Some(Value::String(uri)) if uri == own => asked.clone_into(uri),
            _ => {}
        }
    }
}

/// That a resource is not there has a code of its own in each era, whichever its server speaks.
fn failure(peer: &Peer, error: &ToolError, asked: &str, own: &str) -> RpcError {
    let failed = gate::failure(error, || unknown(peer.era, asked));
    let named = failed.data.as_ref().and_then(|data| data.get("uri")).and_then(Value::as_str);
    let missing =
        failed.code == RESOURCE_NOT_FOUND || (failed.code == INVALID_PARAMS && named == Some(own));
    if missing { RpcError { message: failed.message, ..unknown(peer.era, asked) } } else { failed }
}

/// That there is no such resource, as far as this caller may know.
pub(crate) fn unknown(era: Era, uri: &str) -> RpcError {
    let code = match era {
        Era::Sessions => RESOURCE_NOT_FOUND,
        Era::Stateless => INVALID_PARAMS,
    };
    let uri = if uri.len() <= MAX_URI { uri.to_owned() } else { shown_name(uri) };
    gate::refused(code, "resource not found").with_data(json!({ "uri": uri }))
}

#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn internal(error: drawgate_core::store::StoreError) -> RpcError {
    tracing::error!(error = %error, "artifacts can't be read");
    RpcError::new(INTERNAL_ERROR, "artifacts can't be read now")
}
