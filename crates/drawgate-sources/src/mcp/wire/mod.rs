//! JSON-RPC as MCP uses it: what the gateway writes, and how it reads what a server writes.

mod params;
mod results;
mod server;

pub(super) use crate::line_rpc::{Request, Whose, cancelled, failure, read};
use drawgate_core::model::shape;
use drawgate_core::source::SourceError;
pub use params::method_of;
pub(super) use params::{CallParams, Form, Meta, PlainParams};
pub(super) use results::{Settled, output, passed_on, settle};
use serde::Serialize;
use serde_json::{Map, Value, json};
pub(super) use server::{ServerInfo, discovered, initialize_params, initialized};

use super::context::News;
use super::requests::ServerRequest;
use crate::line_rpc::{self, Envelope, Message};

/// The newest revision with sessions, which `initialize` offers.
pub(super) const NEWEST_WITH_SESSIONS: &str = "2025-11-25";
/// The revisions with sessions that are understood.
pub(super) const WITH_SESSIONS: [&str; 4] =
    ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_WITH_SESSIONS];
/// The revision without sessions.
pub(super) const STATELESS: &str = "2026-07-28";

/// The largest message that is read from a server.
pub(super) const MAX_MESSAGE: usize = 64 * 1024 * 1024;

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
pub(super) fn sort(message: impl Into<Envelope>) -> Incoming {
    match line_rpc::sort(message) {
        Message::Answer { id, outcome } => Incoming::Answer { id, outcome },
        Message::Request { id, method, params } => {
            Incoming::Request(ServerRequest { id, method, params })
        }
        Message::Notification { method, params } => notification(&method, params),
        Message::Nonsense => Incoming::Nonsense,
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
                shape::fit_members(shape::LOG_MESSAGE, &mut message);
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
    shape::fit_members(shape::PROGRESS, &mut report);
    match report.shift_remove(PROGRESS_TOKEN).as_ref().and_then(Value::as_u64) {
        Some(token) => Incoming::Progress { token, report },
        None => Incoming::Nonsense,
    }
}

/// Ends the handshake.
pub(super) fn ready() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
