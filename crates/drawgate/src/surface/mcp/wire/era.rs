//! The revisions of the protocol, and the names by which requests show their own.

/// The revision without sessions.
pub(crate) const STATELESS: &str = "2026-07-28";
/// The revisions with sessions, newest first.
pub(crate) const WITH_SESSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

pub(crate) const VERSION_HEADER: &str = "mcp-protocol-version";
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";

/// Prefix of the metadata that belongs to one hop of the protocol.
pub(crate) const PROTOCOL_META: &str = "io.modelcontextprotocol/";
pub(crate) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// Which rules a request follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// `initialize`, then a session.
    Sessions,
    /// Every request stands alone.
    Stateless,
}

/// All revisions, newest first.
pub(crate) fn supported() -> Vec<&'static str> {
    std::iter::once(STATELESS).chain(WITH_SESSIONS).collect()
}
