//! What the era without sessions adds to results.

use serde_json::{Value, json};

use super::era::{Era, META_SERVER};

/// How long a client may keep a list, in milliseconds.
pub(crate) const LIST_TTL_MS: u64 = 5_000;

/// The name and version of the gateway.
pub(crate) fn server_info() -> Value {
    json!({ "name": "drawgate", "title": "Drawgate", "version": env!("CARGO_PKG_VERSION") })
}

/// The metadata of every result.
pub(crate) fn result_meta() -> (String, Value) {
    (META_SERVER.to_owned(), server_info())
}

/// Completes a result.
pub(crate) fn with_meta(era: Era, mut result: Value) -> Value {
    if let (Era::Stateless, Value::Object(map)) = (era, &mut result) {
        map.insert("resultType".to_owned(), "complete".into());
        map.insert("_meta".to_owned(), json!({ META_SERVER: server_info() }));
    }
    result
}

/// Completes a result that this caller may keep for so long.
pub(crate) fn with_ttl(era: Era, ttl_ms: u64, result: Value) -> Value {
    let mut result = with_meta(era, result);
    if let (Era::Stateless, Value::Object(map)) = (era, &mut result) {
        map.insert("ttlMs".to_owned(), ttl_ms.into());
        map.insert("cacheScope".to_owned(), "private".into());
    }
    result
}
