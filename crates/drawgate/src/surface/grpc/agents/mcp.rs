//! How programs of an agent reach the same tools over MCP: an address, and a token that lives as long as the
//! agent's conversation.

use std::sync::Arc;

use drawgate_core::model::Caller;
use drawgate_core::pipeline::Gateway;
use drawgate_runtime::callers::{Callers, Identity, SessionToken};

/// Where MCP is served on the gateway's address.
const PATH: &str = "/mcp";

/// How programs of agents reach MCP: the address, and who takes their tokens.
pub struct McpAddress {
    /// The gateway's address for others, if the operator has named one. Otherwise it is what an agent dialled.
    pub public_url: Option<String>,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Who gives out tokens, and takes them.
    pub callers: Arc<Callers>,
}

/// The way to MCP of one conversation. Its token ends with it.
pub(super) struct McpSession {
    pub(super) endpoint: String,
    pub(super) token: SessionToken,
}

impl McpAddress {
    /// The way for programs of an agent that dialled `authority`.
    pub(super) fn open(&self, gateway: &Gateway, caller: &Caller, authority: &str) -> McpSession {
        let endpoint = match &self.public_url {
            Some(url) => format!("{}{PATH}", url.trim_end_matches('/')),
            None => format!("{}://{authority}{PATH}", self.scheme),
        };
        let identity = Identity {
            principal: caller.principal.clone(),
            carried: Arc::clone(&caller.carried),
            lineage: None,
        };
        McpSession { endpoint, token: self.callers.open_session(gateway.ids(), identity) }
    }
}
