//! What the upstream answers to each message, whatever carries it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tools;

const INVALID_REQUEST: i64 = -32_600;
const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;

/// Revisions that the upstream agrees to; the newest is offered to a client that wants another.
const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const NEWEST: &str = "2025-11-25";

/// The state of the server: its prepared list and the sessions that it has handed out.
pub(super) struct Answers {
    list: String,
    sessions: AtomicU64,
}

/// The answer to one message.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// A notification: there is nothing to say.
    Nothing,
    /// An answer to `initialize`, which opens a session.
    Opened { session: u64, body: String },
    /// Any other answer.
    Message(String),
}

/// A message from the client, as far as the upstream looks into it.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    id: Option<Value>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Params<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
    #[serde(borrow)]
    protocol_version: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    message: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct EchoAnswer<'a> {
    jsonrpc: &'static str,
    id: &'a Value,
    result: EchoResult<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EchoResult<'a> {
    content: [Text<'a>; 1],
    is_error: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl Message<'_> {
    /// Whether this message may come without a session.
    pub(super) fn opens_a_session(&self) -> bool {
        self.method == "initialize"
    }
}

impl Answers {
    /// A server with `tools` tools.
    pub(super) fn new(tools: usize) -> Self {
        Self { list: tools::list(tools).to_string(), sessions: AtomicU64::new(0) }
    }

    /// Whether `session` was handed out by this server.
    pub(super) fn knows(&self, session: u64) -> bool {
        session < self.sessions.load(Ordering::Relaxed)
    }

    /// Answers one message.
    pub(super) fn reply(&self, message: &Message<'_>) -> Reply {
        let Some(id) = &message.id else { return Reply::Nothing };
        match &*message.method {
            "initialize" => self.open(id, message.params.protocol_version.as_deref()),
            "tools/call" => Reply::Message(call(id, &message.params)),
            "tools/list" => {
                Reply::Message(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, self.list))
            }
            "ping" => Reply::Message(success(id, &json!({}))),
            other => Reply::Message(failure(id, METHOD_NOT_FOUND, &format!("no method `{other}`"))),
        }
    }

    fn open(&self, id: &Value, wanted: Option<&str>) -> Reply {
        let agreed = wanted.filter(|wanted| REVISIONS.contains(wanted)).unwrap_or(NEWEST);
        let result = json!({
            "protocolVersion": agreed,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "drawgate-bench", "version": env!("CARGO_PKG_VERSION") },
        });
        let session = self.sessions.fetch_add(1, Ordering::Relaxed);
        Reply::Opened { session, body: success(id, &result) }
    }
}

/// The error for a message that is not understood or comes without its session.
pub(super) fn refusal(text: &str) -> String {
    failure(&Value::Null, INVALID_REQUEST, text)
}

fn call(id: &Value, params: &Params<'_>) -> String {
    if params.name.as_deref() != Some("echo") {
        return failure(id, INVALID_PARAMS, "unknown tool; call `echo`");
    }
    let Some(text) = params.arguments.as_ref().and_then(|given| given.message.as_deref()) else {
        return failure(id, INVALID_PARAMS, "`message` is missing");
    };
    let result = EchoResult { content: [Text { r#type: "text", text }], is_error: false };
    serde_json::to_string(&EchoAnswer { jsonrpc: "2.0", id, result })
        .unwrap_or_else(|error| failure(id, INVALID_PARAMS, &error.to_string()))
}

fn success(id: &Value, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

fn failure(id: &Value, code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }).to_string()
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
