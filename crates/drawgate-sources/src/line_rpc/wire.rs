//! The envelope of JSON-RPC messages.

use drawgate_core::source::SourceError;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The longest id of a peer's own request that is answered, in bytes.
const MAX_ID: usize = 256;

/// A request.
#[derive(Serialize)]
pub struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

impl<'a, P: Serialize> Request<'a, P> {
    /// A request with an id that the link gave out.
    pub const fn new(id: u64, method: &'a str, params: P) -> Self {
        Self { jsonrpc: "2.0", id, method, params }
    }

    /// As one JSON text.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SourceError> {
        serde_json::to_vec(self).map_err(|error| {
            SourceError::Protocol(format!("the request can't be written: {error}"))
        })
    }
}

/// A message of a peer, sorted.
#[derive(Debug)]
pub enum Message {
    /// The answer to the request of this id.
    Answer {
        /// The request's id.
        id: u64,
        /// What it says.
        outcome: Result<Map<String, Value>, SourceError>,
    },
    /// A request of the peer's own.
    Request {
        /// Its id, which the answer repeats.
        id: Value,
        /// What is asked for.
        method: String,
        /// With what.
        params: Option<Value>,
    },
    /// A notification.
    Notification {
        /// What it is about.
        method: String,
        /// What it says.
        params: Option<Value>,
    },
    /// Not a message of the protocol.
    Nonsense,
}

/// The members of a message, not sorted yet. What is no object has none.
#[derive(Debug, Default)]
pub struct Envelope {
    id: Option<Value>,
    method: Option<Value>,
    params: Option<Value>,
    result: Option<Value>,
    error: Option<Value>,
}

impl Envelope {
    /// The members that count, in the order of [`Envelope::of`].
    pub(super) const MEMBERS: [&str; 5] = ["id", "method", "params", "result", "error"];

    pub(super) fn of([id, method, params, result, error]: [Option<Value>; 5]) -> Self {
        Self { id, method, params, result, error }
    }
}

impl From<Value> for Envelope {
    fn from(message: Value) -> Self {
        let Value::Object(mut message) = message else { return Self::default() };
        Self::of(Self::MEMBERS.map(|member| message.shift_remove(member)))
    }
}

/// Sorts a message.
#[must_use]
pub fn sort(message: impl Into<Envelope>) -> Message {
    let Envelope { id, method, params, result, error } = message.into();
    match (method, id) {
        (Some(Value::String(method)), Some(id)) if is_usable(&id) => {
            Message::Request { id, method, params }
        }
        (Some(Value::String(method)), None) => Message::Notification { method, params },
        (Some(_), _) => Message::Nonsense,
        (None, id) => answer(id.as_ref(), result, error),
    }
}

fn answer(id: Option<&Value>, result: Option<Value>, error: Option<Value>) -> Message {
    let Some(id) = id.and_then(own_id) else { return Message::Nonsense };
    let outcome = match (result, error) {
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
    Message::Answer { id, outcome }
}

/// The gateway's ids are numbers; some servers give them back as text.
fn own_id(id: &Value) -> Option<u64> {
    id.as_u64().or_else(|| id.as_str()?.parse().ok())
}

/// An error of the protocol becomes the tool's own failure.
#[must_use]
pub fn failure(error: Value) -> SourceError {
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

/// A reply repeats the id, so that a large one would cost memory here.
fn is_usable(id: &Value) -> bool {
    match id {
        Value::Number(number) => number.is_i64() || number.is_u64(),
        Value::String(text) => text.len() <= MAX_ID,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// The notification that cancels a request.
#[must_use]
pub fn cancelled(id: u64) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": id, "reason": "the caller gave up" },
    })
}
