//! JSON-RPC as MCP uses it: what the gateway writes, and how it reads what a server writes.

mod params;
mod results;
mod server;
mod unreadable;

use drawgate_core::source::SourceError;
pub use params::method_of;
pub(super) use params::{CallParams, Form, Meta, PlainParams};
pub(super) use results::{Settled, output, passed_on, settle};
use serde::Serialize;
use serde_json::{Map, Value, json};
pub(super) use server::{ServerInfo, discovered, initialize_params, initialized};
pub(super) use unreadable::{Unreadable, Whose, read};

use super::context::News;
use super::requests::ServerRequest;

/// The newest revision with sessions, which `initialize` offers.
pub(super) const NEWEST_WITH_SESSIONS: &str = "2025-11-25";
/// The revisions with sessions that are understood.
pub(super) const WITH_SESSIONS: [&str; 4] =
    ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_WITH_SESSIONS];
/// The revision without sessions.
pub(super) const STATELESS: &str = "2026-07-28";

/// The largest message that is read from a server.
pub(super) const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// The longest id of a server's own request that is answered, in bytes.
const MAX_ID: usize = 256;

pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// Members of `_meta`, and where it stands.
const META: &str = "_meta";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
const PROGRESS_TOKEN: &str = "progressToken";
const REQUEST_STATE: &str = "requestState";

/// How the gateway introduces itself.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct ClientInfo {
    name: &'static str,
    version: &'static str,
}

pub(super) const CLIENT: ClientInfo =
    ClientInfo { name: "drawgate", version: env!("CARGO_PKG_VERSION") };

/// Which rules a request follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Era {
    /// A handshake first, then plain requests.
    #[default]
    Sessions,
    /// Every request says everything.
    Stateless,
}

/// A request.
#[derive(Serialize)]
pub(super) struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

impl<'a, P: Serialize> Request<'a, P> {
    pub(super) const fn new(id: u64, method: &'a str, params: P) -> Self {
        Self { jsonrpc: "2.0", id, method, params }
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, SourceError> {
        serde_json::to_vec(self).map_err(|error| {
            SourceError::Protocol(format!("the request can't be written: {error}"))
        })
    }
}

/// A message of a server, sorted.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The answer to the request of this id.
    Answer { id: u64, outcome: Result<Map<String, Value>, SourceError> },
    /// A report on a running call.
    Progress { token: u64, report: Map<String, Value> },
    /// A message for a caller's log.
    Log(Map<String, Value>),
    /// For the source as a whole.
    News(News),
    /// A request of the server's own.
    Request(ServerRequest),
    /// A notification that means nothing to a gateway.
    Ignored,
    /// Not a message of the protocol.
    Nonsense,
}

/// Sorts a message.
pub(super) fn sort(message: Value) -> Incoming {
    let Value::Object(mut message) = message else { return Incoming::Nonsense };
    match message.shift_remove("method") {
        Some(Value::String(method)) => match message.shift_remove("id") {
            Some(id) if is_usable(&id) => {
                let params = message.shift_remove("params");
                Incoming::Request(ServerRequest { id, method, params })
            }
            Some(_) => Incoming::Nonsense,
            None => notification(&method, message.shift_remove("params")),
        },
        Some(_) => Incoming::Nonsense,
        None => answer(message),
    }
}

fn answer(mut message: Map<String, Value>) -> Incoming {
    let Some(id) = message.get("id").and_then(own_id) else { return Incoming::Nonsense };
    let outcome = match (message.shift_remove("result"), message.shift_remove("error")) {
        (Some(Value::Object(result)), None) => Ok(result),
        (None, Some(error)) => Err(failure(error)),
        (Some(_), Some(_)) => Err(SourceError::Protocol(
            "the server answered with both a result and an error".to_owned(),
        )),
        (Some(_), None) => Err(SourceError::Protocol(
            "the server answered with a result that is not an object".to_owned(),
        )),
        (None, None) => Err(SourceError::Protocol(
            "the server answered with neither a result nor an error".to_owned(),
        )),
    };
    Incoming::Answer { id, outcome }
}

/// The gateway's ids are numbers; some servers give them back as text.
fn own_id(id: &Value) -> Option<u64> {
    id.as_u64().or_else(|| id.as_str()?.parse().ok())
}

/// An error of the protocol becomes the tool's own failure.
pub(super) fn failure(error: Value) -> SourceError {
    let text = error.get("message").and_then(Value::as_str);
    let message = text.unwrap_or("the server answered with an error without a message").to_owned();
    let mut details = Map::new();
    if let Value::Object(mut error) = error {
        details.extend(
            ["code", "data"]
                .into_iter()
                .filter_map(|key| Some((key.to_owned(), error.shift_remove(key)?))),
        );
    }
    SourceError::Failed {
        message,
        details: (!details.is_empty()).then_some(Value::Object(details)),
    }
}

/// The code of a JSON-RPC error that has become a failure.
pub(super) fn error_code(error: &SourceError) -> Option<i64> {
    match error {
        SourceError::Failed { details: Some(details), .. } => {
            details.get("code").and_then(Value::as_i64)
        }
        _ => None,
    }
}

/// Whether the server says that it has no such method.
pub(super) fn is_unknown_method(error: &SourceError) -> bool {
    error_code(error) == Some(METHOD_NOT_FOUND)
}

fn notification(method: &str, params: Option<Value>) -> Incoming {
    match method {
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed" => Incoming::News(News::ListChanged),
        "notifications/resources/updated" => match text(params.as_ref(), "uri") {
            Some(uri) => Incoming::News(News::ResourceUpdated { uri: uri.to_owned() }),
            None => Incoming::Nonsense,
        },
        "notifications/subscriptions/acknowledged" => Incoming::News(News::Listening),
        "notifications/progress" => progress(params),
        "notifications/message" => match params {
            Some(Value::Object(mut message)) => {
                // It speaks about the hop from the server, if about anything.
                message.shift_remove(META);
                Incoming::Log(message)
            }
            Some(_) | None => Incoming::Nonsense,
        },
        _ => Incoming::Ignored,
    }
}

fn text<'a>(value: Option<&'a Value>, key: &str) -> Option<&'a str> {
    value?.get(key)?.as_str()
}

fn progress(params: Option<Value>) -> Incoming {
    let Some(Value::Object(mut report)) = params else { return Incoming::Nonsense };
    match report.shift_remove(PROGRESS_TOKEN).as_ref().and_then(Value::as_u64) {
        Some(token) => Incoming::Progress { token, report },
        None => Incoming::Nonsense,
    }
}

/// A reply repeats the id, so that a large one would cost memory here.
fn is_usable(id: &Value) -> bool {
    match id {
        Value::Number(number) => number.is_i64() || number.is_u64(),
        Value::String(text) => text.len() <= MAX_ID,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// The notification that cancels a request.
pub(super) fn cancelled(id: u64) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": id, "reason": "the caller gave up" },
    })
}

/// Ends the handshake.
pub(super) fn ready() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
