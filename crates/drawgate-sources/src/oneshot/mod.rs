//! One JSON call in, one JSON result out: a program started for each call, or an HTTP address.
//!
//! The tools are declared in the configuration, since such a server can't be asked for them.

mod config;
mod http;
mod server;
mod stdio;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
pub use config::{OneshotConfig, OneshotManifest};
use drawgate_core::model::{McpManifest, SourceId, ToolOutput, shown_name};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use drawgate_host::Host;
use tokio::time::timeout_at;

use crate::call_deadline::CallDeadline;
use crate::confine::profile;
use crate::kind::{ConfigError, SourceKind};
use config::Endpoint;

/// The largest result that is read.
const MAX_RESULT: usize = 64 * 1024 * 1024;

/// Kind `oneshot`.
pub const KIND: SourceKind = SourceKind::new("oneshot").with_server(&server::CALL);

/// A program or an address with declared tools.
pub struct OneshotSource {
    host: Arc<Host>,
    manifest: McpManifest,
    endpoint: Endpoint,
}

impl OneshotSource {
    /// A source as configured.
    pub fn new(id: SourceId, config: OneshotConfig, host: &Arc<Host>) -> Result<Self, ConfigError> {
        let (manifest, endpoint) = config.validate(id, &host.secrets)?;
        Ok(Self { host: Arc::clone(host), manifest, endpoint })
    }

    async fn perform(
        &self,
        call: &PermittedCall,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let body = wire::call(call)?;
        let result: Bytes = match &self.endpoint {
            Endpoint::Program(spawn) => stdio::perform(&self.host, spawn, &body).await?.into(),
            Endpoint::Http(target) => {
                http::perform(&self.host, target, body, cx.deadline.at()).await?
            }
        };
        wire::result(&result)
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
        match &self.endpoint {
            Endpoint::Http(target) => http::check(&self.host, target).await,
            Endpoint::Program(spawn) => match self.host.processes.find(&spawn.program) {
                Some(_) => Ok(()),
                None => Err(SourceError::unreachable(format!(
                    "the program `{}` is not there",
                    shown_name(&spawn.program)
                ))),
            },
        }
    }

    fn confinement(&self, _tool: &str) -> Option<&'static str> {
        match &self.endpoint {
            Endpoint::Program(spawn) => Some(profile(spawn).as_str()),
            Endpoint::Http(_) => None,
        }
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
