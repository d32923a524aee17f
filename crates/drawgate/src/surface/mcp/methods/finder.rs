//! Two tools instead of many: `search_tools` finds what a caller may call, `call_tool` calls it.
//!
//! Both are the surface's own. A search is a list by other means; a call is a call of the tool that
//! it names, so that rules, approvals and the audit log see that one.

use drawgate_core::model::Caller;
use drawgate_core::policy::Expose;
use serde_json::{Map, Value, json};

use crate::surface::mcp::caller::peer::Peer;
use crate::surface::mcp::lists::search_tools::{CALL, MAX_QUERY, MAX_RESULTS, RESULTS, SEARCH};
use crate::surface::mcp::state::Mcp;
use crate::surface::mcp::wire::answer::Answer;
use crate::surface::mcp::wire::message::{INVALID_PARAMS, RpcError};
use crate::surface::mcp::wire::stateless::with_meta;

/// Whether this caller is shown two tools instead of all.
pub(crate) fn is_on(mcp: &Mcp, caller: &Caller) -> bool {
    mcp.inner.gateway.exposure(&caller.principal) == Expose::Search
}

/// Answers a call of `search_tools`.
pub(crate) fn answer(
    mcp: &Mcp,
    peer: &Peer,
    params: &Map<String, Value>,
) -> Result<Answer, RpcError> {
    let empty = Map::new();
    let arguments = params.get("arguments").and_then(Value::as_object).unwrap_or(&empty);
    Ok(Answer::Value(with_meta(peer.era, search(mcp, &peer.caller, arguments)?)))
}

/// The result of a search, in the form of a tool's.
fn search(mcp: &Mcp, caller: &Caller, arguments: &Map<String, Value>) -> Result<Value, RpcError> {
    let invalid = |message: String| RpcError::new(INVALID_PARAMS, message);
    let query = match arguments.get("query") {
        Some(Value::String(query)) if query.chars().count() <= MAX_QUERY => query,
        _ => {
            let message =
                format!("`{SEARCH}` needs `query`, a text of at most {MAX_QUERY} characters");
            return Err(invalid(message));
        }
    };
    let limit = match arguments.get("limit") {
        None => RESULTS,
        Some(limit) => limit
            .as_u64()
            .and_then(|limit| usize::try_from(limit).ok())
            .filter(|limit| (1..=MAX_RESULTS).contains(limit))
            .ok_or_else(|| invalid(format!("`limit` must be 1 to {MAX_RESULTS}")))?,
    };
    let gateway = &mcp.inner.gateway;
    let found = gateway.search(&gateway.view(caller), &gateway.registry(), query, limit);
    let text = if found.is_empty() {
        "no tool fits; try other words".to_owned()
    } else {
        serde_json::to_string(&found).unwrap_or_default()
    };
    Ok(json!({
        "content": [{ "type": "text", "text": text }],
        "structuredContent": { "tools": found },
    }))
}

/// From the parameters of `call_tool` to those of the call that it stands for.
pub(crate) fn unwrap_call(mut params: Map<String, Value>) -> Result<Map<String, Value>, RpcError> {
    let invalid = |message: String| RpcError::new(INVALID_PARAMS, message);
    let Some(Value::Object(mut inner)) = params.shift_remove("arguments") else {
        return Err(invalid(format!("`{CALL}` needs `arguments` with the `name` of a tool")));
    };
    let Some(Value::String(name)) = inner.shift_remove("name") else {
        return Err(invalid(format!(
            "`{CALL}` needs the `name` of a tool, as `{SEARCH}` found it"
        )));
    };
    if name == CALL || name == SEARCH {
        return Err(invalid(format!("`{CALL}` can't call `{name}`")));
    }
    let arguments = inner.shift_remove("arguments");
    if let Some((unknown, _)) = inner.iter().next() {
        let shown = drawgate_core::model::shown_name(unknown);
        return Err(invalid(format!(
            "`{CALL}` takes `name` and `arguments`, not `{shown}`; put the tool's own into `arguments`"
        )));
    }
    params.insert("name".to_owned(), Value::String(name));
    if let Some(arguments) = arguments {
        params.insert("arguments".to_owned(), arguments);
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_by_proxy_is_the_call_itself() {
        let params = json!({ "name": CALL, "arguments": { "name": "x", "arguments": { "a": 1 } }, "_meta": { "k": 1 } });
        let Value::Object(params) = params else { panic!("not an object") };
        let inner = Value::Object(unwrap_call(params).unwrap());
        assert_eq!(inner, json!({ "name": "x", "_meta": { "k": 1 }, "arguments": { "a": 1 } }));
    }

    #[test]
    fn other_forms_are_refused() {
        for arguments in [
            json!(null),
            json!({}),
            json!({ "name": 7 }),
            json!({ "name": CALL }),
            json!({ "name": SEARCH, "arguments": {} }),
            json!({ "name": "x", "a": 1 }),
        ] {
            let params = json!({ "name": CALL, "arguments": arguments });
            let Value::Object(params) = params else { panic!("not an object") };
            assert!(unwrap_call(params).is_err(), "{arguments}");
        }
    }
}
