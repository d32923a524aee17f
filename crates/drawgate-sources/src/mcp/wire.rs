//! JSON-RPC as MCP uses it: what the gateway writes, and how it reads what a server writes.

use drawgate_core::model::{ToolOutput, TraceParent};
use drawgate_core::source::{CallContext, SourceError};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

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

const METHOD_NOT_FOUND: i64 = -32601;

/// Members of `_meta` that speak about one hop; the gateway writes its own.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
const PROGRESS_TOKEN: &str = "progressToken";
const TRACE_PARENT: &str = "traceparent";
const HOP_ONLY: [&str; 4] = [META_VERSION, META_CAPABILITIES, META_CLIENT, PROGRESS_TOKEN];

/// How the gateway introduces itself.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct ClientInfo {
    name: &'static str,
    version: &'static str,
}

pub(super) const CLIENT: ClientInfo =
    ClientInfo { name: "drawgate", version: env!("CARGO_PKG_VERSION") };

/// Which rules a request follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// A handshake first, then plain requests.
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

/// The parameters of `tools/call`.
#[derive(Serialize)]
pub(super) struct CallParams<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: &'a Map<String, Value>,
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub(super) meta: Meta<'a>,
}

/// The parameters of everything else: an object, and `_meta` where the era wants it.
#[derive(Serialize)]
pub(super) struct PlainParams<'a> {
    #[serde(flatten)]
    pub(super) members: &'a Map<String, Value>,
    #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
    pub(super) meta: Meta<'a>,
}

/// `_meta` of a request, written straight from its parts.
#[derive(Clone, Copy)]
pub(super) struct Meta<'a> {
    era: Era,
    caller: Option<&'a Map<String, Value>>,
    trace: Option<&'a TraceParent>,
    progress: Option<u64>,
}

impl<'a> Meta<'a> {
    /// For the gateway's own requests.
    pub(super) const fn own(era: Era) -> Self {
        Self { era, caller: None, trace: None, progress: None }
    }

    /// For a caller's call, whose progress is known by `token`.
    pub(super) fn of_call(era: Era, cx: &'a CallContext, token: u64) -> Self {
        let progress = cx.progress.is_some().then_some(token);
        Self { era, caller: Some(&cx.meta), trace: cx.trace.as_ref(), progress }
    }

    fn passed_on(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let replaced = self.trace.is_some();
        let keep = move |key: &str| !HOP_ONLY.contains(&key) && (!replaced || key != TRACE_PARENT);
        self.caller.into_iter().flatten().filter(move |(key, _)| keep(key))
    }

    fn is_empty(&self) -> bool {
        self.era == Era::Sessions
            && self.trace.is_none()
            && self.progress.is_none()
            && self.passed_on().next().is_none()
    }
}

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.passed_on() {
            map.serialize_entry(key, value)?;
        }
        if let Some(trace) = self.trace {
            map.serialize_entry(TRACE_PARENT, trace.as_str())?;
        }
        if let Some(token) = self.progress {
            map.serialize_entry(PROGRESS_TOKEN, &token)?;
        }
        if self.era == Era::Stateless {
            map.serialize_entry(META_VERSION, STATELESS)?;
            map.serialize_entry(META_CAPABILITIES, &Map::new())?;
            map.serialize_entry(META_CLIENT, &CLIENT)?;
        }
        map.end()
    }
}

/// A message of a server, sorted.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The answer to the request of this id.
    Answer { id: u64, outcome: Result<Map<String, Value>, SourceError> },
    /// A report on a running call.
    Progress { token: u64, report: Map<String, Value> },
    /// The tools have changed.
    ToolsChanged,
    /// A request of the server's own, with the answer that it gets.
    Request { reply: Value },
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
            Some(id) if is_usable(&id) => Incoming::Request { reply: reply(&method, &id) },
            Some(_) => Incoming::Nonsense,
            None => notification(&method, message.shift_remove("params")),
        },
        Some(_) => Incoming::Nonsense,
        None => answer(message),
    }
}

fn answer(mut message: Map<String, Value>) -> Incoming {
    let Some(id) = message.get("id").and_then(Value::as_u64) else { return Incoming::Nonsense };
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
        "notifications/tools/list_changed" => Incoming::ToolsChanged,
        "notifications/progress" => progress(params),
        _ => Incoming::Ignored,
    }
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

/// A gateway answers pings. It has no roots, no model and nobody to ask on a server's behalf.
fn reply(method: &str, id: &Value) -> Value {
    if method == "ping" {
        return json!({ "jsonrpc": "2.0", "id": id, "result": {} });
    }
    let message = "this client offers no such method";
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": METHOD_NOT_FOUND, "message": message } })
}

/// The result of `tools/call`.
pub(super) fn output(mut result: Map<String, Value>) -> Result<ToolOutput, SourceError> {
    let kind = result.shift_remove("resultType");
    if kind.as_ref().and_then(Value::as_str).is_some_and(|kind| kind != "complete") {
        let message = "the server asks for input during a call, which the gateway does not pass on"
            .to_owned();
        return Err(SourceError::Failed { message, details: kind });
    }
    let content = match result.shift_remove("content") {
        Some(Value::Array(content)) => content,
        None => Vec::new(),
        Some(_) => {
            return Err(SourceError::Protocol("the server's `content` is not a list".to_owned()));
        }
    };
    let structured = result.shift_remove("structuredContent");
    // A server that says `false` in so many words is quoted; only `true` means something.
    let is_error = result.get("isError") == Some(&Value::Bool(true));
    if is_error {
        result.shift_remove("isError");
    }
    forget_server(&mut result);
    Ok(ToolOutput { content, structured, is_error, rest: result, sandboxed: false })
}

/// To its callers the gateway is the server.
fn forget_server(result: &mut Map<String, Value>) {
    if let Some(Value::Object(meta)) = result.get_mut("_meta")
        && meta.shift_remove(META_SERVER).is_some()
        && meta.is_empty()
    {
        result.shift_remove("_meta");
    }
}

/// What a server says about itself.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerInfo {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) instructions: Option<String>,
    pub(super) protocol: String,
    pub(super) announces_changes: bool,
}

/// Parameters of `initialize`.
pub(super) fn initialize_params() -> Map<String, Value> {
    let mut params = Map::new();
    params.insert("protocolVersion".to_owned(), json!(NEWEST_WITH_SESSIONS));
    params.insert("capabilities".to_owned(), json!({}));
    params.insert("clientInfo".to_owned(), json!(CLIENT));
    params
}

/// The result of `initialize`.
pub(super) fn initialized(result: &Map<String, Value>) -> Result<ServerInfo, SourceError> {
    let protocol = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    if !WITH_SESSIONS.contains(&protocol) {
        let shown: String = protocol.chars().take(40).collect();
        return Err(SourceError::Protocol(format!(
            "the server chose protocol revision `{}`; supported are {}",
            shown.escape_debug(),
            WITH_SESSIONS.map(|revision| format!("`{revision}`")).join(", ")
        )));
    }
    Ok(server_info(result, result.get("serverInfo"), protocol))
}

/// The result of `server/discover`.
pub(super) fn discovered(result: &Map<String, Value>) -> Result<ServerInfo, SourceError> {
    let versions = result.get("supportedVersions").and_then(Value::as_array);
    if !versions.is_some_and(|versions| versions.iter().any(|version| version == STATELESS)) {
        return Err(SourceError::Protocol(format!(
            "the server does not speak protocol revision `{STATELESS}`"
        )));
    }
    let about = result.get("_meta").and_then(|meta| meta.get(META_SERVER));
    Ok(server_info(result, about, STATELESS))
}

fn server_info(result: &Map<String, Value>, about: Option<&Value>, protocol: &str) -> ServerInfo {
    let text = |key| {
        about
            .and_then(|about| about.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let tools = result.get("capabilities").and_then(|capabilities| capabilities.get("tools"));
    ServerInfo {
        name: text("name"),
        version: text("version"),
        instructions: result.get("instructions").and_then(Value::as_str).map(str::to_owned),
        protocol: protocol.to_owned(),
        announces_changes: tools.and_then(|tools| tools.get("listChanged"))
            == Some(&Value::Bool(true)),
    }
}

/// Tells the server that nobody waits for this request any more.
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
