//! One JSON call in, one JSON result out: a program started for each call, or an HTTP address.
//!
//! The tools are declared in the configuration, since such a server can't be asked for them.

mod config;
mod exchange;
mod http;
mod server;
mod stdio;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
pub use config::{OneshotConfig, OneshotManifest};
use drawgate_core::model::{McpManifest, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use drawgate_host::Host;
pub use exchange::{Exchange, Reply, Silence};
use tokio::time::timeout_at;

use crate::call_deadline::CallDeadline;
use crate::kind::{ConfigError, SourceKind};

/// The largest result that is read.
const MAX_RESULT: usize = 64 * 1024 * 1024;

/// Kind `oneshot`.
pub const KIND: SourceKind = SourceKind::new("oneshot").with_server(&server::CALL);

/// A program or an address with declared tools.
pub struct OneshotSource {
    manifest: McpManifest,
    exchange: Exchange,
}

impl OneshotSource {
    /// A source as configured.
    pub fn new(id: SourceId, config: OneshotConfig, host: &Arc<Host>) -> Result<Self, ConfigError> {
        let manifest = config.manifest.validate(id)?;
        Ok(Self { manifest, exchange: Exchange::new(config.server, host)? })
    }

    async fn perform(
        &self,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let body = wire::call(call)?;
        let reply = self.exchange.send(body, cx.deadline.at(), Silence::Fails).await?;
        wire::result(&reply)
    }
}

#[async_trait]
impl ToolSource for OneshotSource {
    fn id(&self) -> &SourceId {
        &self.manifest.server_id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Ok(self.manifest.clone())
    }

    async fn check(&self) -> Result<(), SourceError> {
        self.exchange.check().await
    }

    fn confinement(&self, _tool: &str) -> Option<&'static str> {
        self.exchange.confinement()
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        // Cancelled calls are dropped by the gate, and the program with them.
        let end = CallDeadline::new(cx.deadline.at(), None);
        match timeout_at(end.at.into(), self.perform(&call, cx)).await {
            Ok(Err(SourceError::Timeout(_))) | Err(_) => Err(end.exceeded_by(call.tool())),
            Ok(done) => done,
        }
    }
}
