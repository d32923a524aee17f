//! MCP servers, as child processes and over HTTP.
//!
//! A thin client of our own: `tools/list` and `tools/call`, in the revisions with sessions and in the
//! one without. Everything about revisions stays in this folder.

mod backoff;
mod changes;
mod config;
mod diagnostics;
mod http;
mod lines;
mod listing;
mod parameters;
mod progress;
mod stdio;
mod supervise;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
pub use config::{McpConfig, Transport};
pub use diagnostics::{LeftOut, SourceDiagnostics, SourceState};
use drawgate_core::model::{McpManifest, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use drawgate_host::Host;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout_at;

use crate::kind::{self, ConfigError, SourceKind};
use config::{Endpoint, Settings};
use supervise::{Link, Supervisor};

/// How long the tool list may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of a server's name and version is kept.
const SHOWN_NAME: usize = 128;

/// Kind `mcp`.
#[derive(Debug, Clone, Copy)]
pub struct Kind;

impl SourceKind for Kind {
    fn name(&self) -> &'static str {
        "mcp"
    }

    fn is_connector(&self) -> bool {
        true
    }

    fn build(
        &self,
        id: SourceId,
        config: Value,
        host: &Arc<Host>,
    ) -> Result<Arc<dyn ToolSource>, ConfigError> {
        Ok(Arc::new(McpSource::new(id, kind::parse(config)?, host)?))
    }
}

/// One MCP server. It is started when its manifest is first asked for.
pub struct McpSource {
    id: SourceId,
    host: Arc<Host>,
    permits: Semaphore,
    supervisor: Supervisor,
}

/// A connection to a server, whatever its transport.
#[derive(Clone)]
enum Peer {
    Stdio(Arc<stdio::Connection>),
    Http(Arc<http::Peer>),
}

/// The answer to a request.
struct Reply {
    result: Map<String, Value>,
    /// The size of the message that held it.
    size: usize,
}

impl McpSource {
    /// A source that is not yet started.
    pub fn new(id: SourceId, config: McpConfig, host: &Arc<Host>) -> Result<Self, ConfigError> {
        let Settings { endpoint, start_timeout, concurrency } = config.understand(&host.secrets)?;
        let owned = || Arc::clone(host);
        let link = match endpoint {
            Endpoint::Stdio(spawn) => {
                Link::Stdio(stdio::Link { host: owned(), spawn, start_timeout })
            }
            Endpoint::Http { uri, headers } => {
                Link::Http(http::Link { host: owned(), uri, headers, start_timeout })
            }
        };
        Ok(Self {
            id,
            host: owned(),
            permits: Semaphore::new(concurrency),
            supervisor: Supervisor::new(link),
        })
    }

    /// What a person needs to know about it.
    #[must_use]
    pub fn report(&self) -> SourceDiagnostics {
        self.supervisor.journal().read().masked(&self.host.secrets.known_values())
    }

    async fn perform(
        &self,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let peer = match self.supervisor.ready_peer() {
            Some(peer) => peer,
            None => {
                timeout_at(cx.deadline.into(), self.supervisor.peer())
                    .await
                    .map_err(|_| too_late())??
                    .0
            }
        };
        let permit = timeout_at(cx.deadline.into(), self.permits.acquire());
        let _permit = permit.await.map_err(|_| too_late())?;
        match &peer {
            Peer::Stdio(connection) => connection.call(call, cx).await,
            Peer::Http(server) => server.call(call, cx).await,
        }
    }
}

#[async_trait]
impl ToolSource for McpSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        let (peer, info) = self.supervisor.peer().await?;
        let listing = listing::list(&peer, Instant::now() + LIST_TIMEOUT).await?;
        self.supervisor.journal().left_out(listing.left_out);
        if let Peer::Http(server) = &peer {
            server.set_parameters(listing.headers);
        }
        let shown = |text: &str| text.chars().take(SHOWN_NAME).collect::<String>();
        let name = if info.name.is_empty() { self.id.to_string() } else { shown(&info.name) };
        Ok(McpManifest {
            server_id: self.id.clone(),
            name,
            version: shown(&info.version),
            description: info.instructions.clone(),
            tools: listing.tools,
        })
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        // Cancelled calls are dropped by the gate, which knows to call them cancelled; the guards
        // below tell the server.
        self.perform(&call, cx).await
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.supervisor.changes().subscribe())
    }

    fn diagnostics(&self) -> Value {
        serde_json::to_value(self.report()).unwrap_or_default()
    }

    async fn close(&self) {
        self.supervisor.close().await;
    }
}

impl Peer {
    /// A request of the gateway's own.
    async fn ask(
        &self,
        method: &'static str,
        params: &Map<String, Value>,
        deadline: Instant,
    ) -> Result<Reply, SourceError> {
        match self {
            Self::Stdio(connection) => {
                let meta = wire::Meta::own(wire::Era::Sessions);
                connection.ask(method, &wire::PlainParams { members: params, meta }).await
            }
            Self::Http(server) => server.ask(method, params, deadline).await,
        }
    }
}

fn too_late() -> SourceError {
    SourceError::Timeout("the server did not answer before the deadline".to_owned())
}

/// An error with its causes, in one line.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
