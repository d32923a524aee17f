//! `_meta` of requests: what of it goes on with a call, and what the gateway reads itself.

use drawgate_core::model::{Narrowing, OWN_META, shown_name};
use serde_json::{Map, Value};

use crate::surface::mcp::wire::era::PROTOCOL_META;
use crate::surface::mcp::wire::message::{INVALID_PARAMS, RpcError};

/// Where a client says how it narrows its call.
const META_CALL: &str = "drawgate/call";

/// The metadata of a request that goes on with it, and how the client narrows its call. The protocol's
/// own members speak of this hop, not of the next, and so do the gateway's.
pub(crate) fn take(
    params: &mut Map<String, Value>,
) -> Result<(Map<String, Value>, Narrowing), RpcError> {
    let mut meta = match params.shift_remove("_meta") {
        None => return Ok(Default::default()),
        Some(Value::Object(meta)) => meta,
        Some(_) => return Err(RpcError::new(INVALID_PARAMS, "`_meta` must be an object")),
    };
    meta.retain(|key, _| !key.starts_with(PROTOCOL_META));
    let narrowing = match meta.shift_remove(META_CALL) {
        None | Some(Value::Null) => Narrowing::default(),
        Some(Value::Object(members)) => Narrowing::try_from(members).map_err(|error| {
            RpcError::new(INVALID_PARAMS, format!("`{META_CALL}`: {}", error.message))
        })?,
        Some(_) => {
            let message = format!("`{META_CALL}` must be an object");
            return Err(RpcError::new(INVALID_PARAMS, message));
        }
    };
    refuse_own(&meta)?;
    Ok((meta, narrowing))
}

/// Refuses members that are the gateway's to read where it does not read them: a caller that believes
/// its call to be narrowed must not be mistaken.
fn refuse_own(meta: &Map<String, Value>) -> Result<(), RpcError> {
    let Some(unread) = meta.keys().find(|key| key.starts_with(OWN_META)) else { return Ok(()) };
    let message = format!(
        "`_meta` has `{}`, which is not read here; calls take `{META_CALL}`",
        shown_name(unread)
    );
    Err(RpcError::new(INVALID_PARAMS, message))
}

/// The same for a request that is not a call.
pub(crate) fn check(params: &Map<String, Value>) -> Result<(), RpcError> {
    params.get("_meta").and_then(Value::as_object).map_or(Ok(()), refuse_own)
}
