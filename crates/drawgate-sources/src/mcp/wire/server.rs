//! What servers say about themselves when they are met.

use drawgate_core::source::SourceError;
use serde_json::{Map, Value, json};

use super::{CLIENT, Era, META, META_SERVER, NEWEST_WITH_SESSIONS, STATELESS, WITH_SESSIONS, text};
use crate::mcp::requests::Allowed;

/// What a server says about itself.
#[derive(Debug, Clone, Default)]
pub(in crate::mcp) struct ServerInfo {
    pub(in crate::mcp) name: String,
    pub(in crate::mcp) version: String,
    pub(in crate::mcp) instructions: Option<String>,
    pub(in crate::mcp) protocol: String,
    pub(in crate::mcp) era: Era,
    capabilities: Map<String, Value>,
}

impl ServerInfo {
    /// Whether the server declared a capability such as `resources`, or `resources.subscribe`.
    pub(in crate::mcp) fn can(&self, path: &str) -> bool {
        let mut keys = path.split('.');
        let first = keys.next().and_then(|key| self.capabilities.get(key));
        let last = keys.try_fold(first, |value, key| Some(value?.get(key)));
        last.flatten().is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)))
    }

    /// Whether it declared nothing, as careless servers do that have tools all the same.
    pub(in crate::mcp) fn declares_nothing(&self) -> bool {
        !["tools", "resources", "prompts", "completions", "logging"]
            .into_iter()
            .any(|capability| self.can(capability))
    }
}

/// Parameters of `initialize`.
pub(in crate::mcp) fn initialize_params(allowed: Allowed) -> Map<String, Value> {
    let mut params = Map::new();
    params.insert("protocolVersion".to_owned(), json!(NEWEST_WITH_SESSIONS));
    params.insert("capabilities".to_owned(), Value::Object(allowed.declared()));
    params.insert("clientInfo".to_owned(), json!(CLIENT));
    params
}

/// The result of `initialize`.
pub(in crate::mcp) fn initialized(result: &Map<String, Value>) -> Result<ServerInfo, SourceError> {
    let protocol = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    if !WITH_SESSIONS.contains(&protocol) {
        let shown: String = protocol.chars().take(40).collect();
        return Err(SourceError::Protocol(format!(
            "the server chose protocol revision `{}`; supported are {}",
            shown.escape_debug(),
            WITH_SESSIONS.map(|revision| format!("`{revision}`")).join(", ")
        )));
    }
    Ok(server_info(result, result.get("serverInfo"), protocol, Era::Sessions))
}

/// The result of `server/discover`, from a server that speaks the revision without sessions.
pub(in crate::mcp) fn discovered(result: &Map<String, Value>) -> ServerInfo {
    let about = result.get(META).and_then(|meta| meta.get(META_SERVER));
    server_info(result, about, STATELESS, Era::Stateless)
}

fn server_info(
    result: &Map<String, Value>,
    about: Option<&Value>,
    protocol: &str,
    era: Era,
) -> ServerInfo {
    let capabilities = result.get("capabilities").and_then(Value::as_object);
    ServerInfo {
        name: text(about, "name").unwrap_or_default().to_owned(),
        version: text(about, "version").unwrap_or_default().to_owned(),
        instructions: result.get("instructions").and_then(Value::as_str).map(str::to_owned),
        protocol: protocol.to_owned(),
        era,
        capabilities: capabilities.cloned().unwrap_or_default(),
    }
}
