//! An agent: registers, sees the tools that it may call, and calls them.
//!
//! `client` says how to come in, `connection` keeps the conversation going, `state` holds what both
//! ends of it share, `call` is one call as the program sees it, and `artifact` reads what was too large for
//! a result.

mod artifact;
mod call;
mod client;
mod connection;
mod outcome;
mod state;

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use artifact::Artifact;
pub use call::ToolCall;
pub use client::AgentClient;
pub use outcome::{CallError, Progress, ToolOutput};
pub use state::{AgentTool, McpAccess};

use state::State;

/// An agent that is connected, or that comes back by itself if its client says so.
///
/// Clones are the same agent; it leaves when the last one is dropped.
#[derive(Clone)]
pub struct Agent {
    inner: Arc<Inner>,
}

struct Inner {
    state: Arc<State>,
    stop: CancellationToken,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Agent {
    fn new(state: Arc<State>, stop: CancellationToken) -> Self {
        Self { inner: Arc::new(Inner { state, stop }) }
    }

    /// Calls a tool. Nothing is sent before the call is awaited; dropping it cancels it.
    ///
    /// ```no_run
    /// # async fn example(agent: drawgate_sdk::Agent) -> Result<(), drawgate_sdk::CallError> {
    /// let output = agent.call("read_file", serde_json::json!({ "path": "/etc/hostname" })).await?;
    /// println!("{}", output.text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn call(&self, tool: impl Into<String>, arguments: impl Serialize) -> ToolCall {
        ToolCall::new(self.clone(), tool.into(), serde_json::to_string(&arguments))
    }

    /// Reads an output that was too large to be returned. The result of its call has its URI, in a content
    /// block of type `resource_link`.
    pub async fn read_artifact(&self, uri: impl Into<String>) -> Result<Artifact, CallError> {
        artifact::read(self.inner.state.client()?, uri.into()).await
    }

    /// The tools that this agent may call, now and at each change.
    #[must_use]
    pub fn tools(&self) -> watch::Receiver<Arc<[AgentTool]>> {
        self.inner.state.tools()
    }

    /// What the agent holds, as the gateway said at the last welcome.
    #[must_use]
    pub fn capabilities(&self) -> Vec<String> {
        self.inner.state.capabilities()
    }

    /// Where the gateway serves MCP, and a token for it that stands for this agent. `None` while there is no
    /// connection; each connection has a token of its own.
    #[must_use]
    pub fn mcp(&self) -> Option<McpAccess> {
        self.inner.state.mcp()
    }

    /// Whether there is a connection now.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.inner.state.is_connected()
    }

    /// Ends when the agent is gone for good: the connection was lost without a reconnect, or the
    /// gateway refused one.
    pub async fn closed(&self) {
        self.inner.state.closed().await;
    }

    fn state(&self) -> &Arc<State> {
        &self.inner.state
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("connected", &self.is_connected()).finish_non_exhaustive()
    }
}
