//! What the program on a caller's side says that it can do: once for a session, or with each request.

use drawgate_core::model::{Client, InputGiven};
use drawgate_core::pipeline::PageRequest;
use serde_json::{Map, Value, json};

use super::era::{Era, PROTOCOL_META};
use super::message::{INVALID_PARAMS, RpcError};
use super::notice::{ELICIT, LIST_ROOTS, SAMPLE};

/// Bytes of what a client declares; real ones need a few hundred.
const MAX_CAPABILITIES: usize = 16 * 1024;
/// Least severe first.
pub(crate) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The client of a session, by its `initialize`.
pub(crate) fn of_session(params: &Map<String, Value>) -> Result<Client, RpcError> {
    let capabilities = match params.get("capabilities") {
        Some(Value::Object(capabilities)) => capabilities.clone(),
        // Old clients leave it out.
        None => Map::new(),
        Some(_) => return Err(invalid("`capabilities` must be an object")),
    };
    Ok(Client { capabilities: declared(capabilities)?, ..Client::default() })
}

/// The client of a request that stands alone, by the request's metadata.
pub(crate) fn of_request(params: &mut Map<String, Value>) -> Result<Client, RpcError> {
    let Some(Value::Object(meta)) = params.get_mut("_meta") else {
        return Ok(Client { knows_tasks: true, ..Client::default() });
    };
    let capabilities = match meta.shift_remove(&format!("{PROTOCOL_META}clientCapabilities")) {
        Some(Value::Object(capabilities)) => capabilities,
        _ => Map::new(),
    };
    let log_level = match meta.shift_remove(&format!("{PROTOCOL_META}logLevel")) {
        None => None,
        Some(level) => Some(parse_level(Some(&level), "logLevel")?),
    };
    Ok(Client { capabilities: declared(capabilities)?, log_level, knows_tasks: true })
}

/// A level of the log, if it is one.
pub(crate) fn parse_level(level: Option<&Value>, member: &str) -> Result<String, RpcError> {
    match level.and_then(Value::as_str) {
        Some(level) if LEVELS.contains(&level) => Ok(level.to_owned()),
        _ => Err(invalid(&format!("`{member}` must be one of `{}`", LEVELS.join("`, `")))),
    }
}

/// Whether a client wants a message of this level. In a session it gets all until it says
/// otherwise, as from the server itself; a request that stands alone must ask for them.
pub(crate) fn wants_log(era: Era, client: &Client, level: Option<&Value>) -> bool {
    let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
    match (&client.log_level, era) {
        (None, Era::Sessions) => true,
        (None, Era::Stateless) => false,
        (Some(least), _) => level.and_then(Value::as_str).and_then(rank) >= rank(least),
    }
}

/// How a client is asked to open a page, if it said that it can.
pub(crate) fn page_request(client: &Client) -> Option<PageRequest> {
    client.can("elicitation.url").then_some(|page| {
        json!({
            "method": ELICIT,
            "params": {
                "mode": "url",
                "elicitationId": page.approval,
                "url": page.url,
                "message": page.message,
            },
        })
    })
}

/// Whether a client said that it answers questions of this kind.
pub(crate) fn answers(client: &Client, question: &Value) -> bool {
    let params = &question["params"];
    match question["method"].as_str() {
        Some(ELICIT) if params["mode"] == "url" => client.can("elicitation.url"),
        Some(ELICIT) => client.can("elicitation.form"),
        Some(SAMPLE) if params.get("tools").is_some() => client.can("sampling.tools"),
        Some(SAMPLE) => client.can("sampling"),
        Some(LIST_ROOTS) => client.can("roots"),
        _ => false,
    }
}

/// The answers that a request brings to the questions of an earlier one. Only requests that stand
/// alone do; in a session they come by themselves.
pub(crate) fn input(
    era: Era,
    params: &mut Map<String, Value>,
) -> Result<Option<InputGiven>, RpcError> {
    let (responses, state) =
        (params.shift_remove("inputResponses"), params.shift_remove("requestState"));
    if era == Era::Sessions || (responses.is_none() && state.is_none()) {
        return Ok(None);
    }
    let responses = match responses {
        None => Map::new(),
        Some(Value::Object(responses)) => responses,
        Some(_) => return Err(invalid("`inputResponses` must be an object")),
    };
    let state = match state {
        None => None,
        Some(Value::String(state)) => Some(state),
        Some(_) => return Err(invalid("`requestState` must be a string")),
    };
    Ok(Some(InputGiven { responses, state }))
}

/// Checks and completes what was declared: an elicitation of no certain kind means forms.
fn declared(mut capabilities: Map<String, Value>) -> Result<Map<String, Value>, RpcError> {
    let size = serde_json::to_string(&capabilities).map_or(usize::MAX, |text| text.len());
    if size > MAX_CAPABILITIES {
        return Err(invalid(&format!(
            "the client's capabilities are larger than {MAX_CAPABILITIES} bytes"
        )));
    }
    if let Some(Value::Object(elicitation)) = capabilities.get_mut("elicitation")
        && !elicitation.contains_key("url")
    {
        elicitation.entry("form").or_insert_with(|| json!({}));
    }
    Ok(capabilities)
}

fn invalid(message: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, message)
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
