//! Resources: the artifacts that hold outputs which were too long to return.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use drawgate_core::model::shown_name;
use serde_json::{Map, Value, json};

use super::Mcp;
use super::era::Era;
use super::http::Peer;
use super::message::{INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError};
use super::methods::no_cursor;

/// Where artifacts live.
const PREFIX: &str = "drawgate://artifacts/";
/// A list of more is of no use to anybody.
const MAX_LISTED: usize = 200;

pub(super) async fn list(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    no_cursor(params)?;
    let artifacts = &mcp.inner.gateway.parts().artifacts;
    let all = artifacts.list(&peer.caller.principal).await.map_err(internal)?;
    let resources: Vec<Value> = all
        .iter()
        .take(MAX_LISTED)
        .map(|info| {
            json!({
                "uri": info.reference.uri,
                "name": format!("output of {}", info.tool_id),
                "mimeType": info.reference.mime_type,
                "size": info.reference.size,
            })
        })
        .collect();
    Ok(json!({ "resources": resources }))
}

pub(super) async fn read(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Value, RpcError> {
    let Some(uri) = params.get("uri").and_then(Value::as_str) else {
        return Err(RpcError::new(INVALID_PARAMS, "`uri` must be a string"));
    };
    let Some(hash) = uri.strip_prefix(PREFIX) else { return Err(unknown(peer, uri)) };
    let artifacts = &mcp.inner.gateway.parts().artifacts;
    let found = artifacts.get(hash, &peer.caller.principal).await.map_err(internal)?;
    let Some((info, bytes)) = found else { return Err(unknown(peer, uri)) };
    let mut content = json!({ "uri": uri, "mimeType": info.reference.mime_type });
    match String::from_utf8(bytes) {
        Ok(text) => content["text"] = text.into(),
        Err(error) => content["blob"] = STANDARD.encode(error.as_bytes()).into(),
    }
    Ok(json!({ "contents": [content] }))
}

fn unknown(peer: &Peer, uri: &str) -> RpcError {
    let code = match peer.era {
        Era::Sessions => RESOURCE_NOT_FOUND,
        Era::Stateless => INVALID_PARAMS,
    };
    RpcError::new(code, "resource not found")
        .with_data(json!({ "uri": shown_name(uri) }))
        .with_status(http::StatusCode::OK)
}

#[expect(clippy::needless_pass_by_value, reason = "shaped for map_err")]
fn internal(error: drawgate_core::store::StoreError) -> RpcError {
    tracing::error!(error = %error, "artifacts can't be read");
    RpcError::new(INTERNAL_ERROR, "artifacts can't be read now")
}
