//! HTTP APIs that an `OpenAPI` document describes: each operation is a tool, each call a request.
//!
//! Parameters and the body become one object of arguments; the body is its member `body`. Where two
//! parameters have the same name, each says where it stands (`path_id`, `query_id`). Credentials come
//! from the connector's configuration and can't be set by a caller.

mod auth;
mod body;
mod call;
mod config;
mod connector;
mod document;
mod load;
mod media;
mod names;
mod origins;
mod parameter;
mod plan;
mod request;
mod response;
mod retry;
mod schema;
mod select;
mod send;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
pub use auth::{AuthConfig, ClientAuthentication, ClientCredentials, Credential, Password};
pub use config::OpenApiConfig;
pub use connector::OpenapiConnector;
pub use document::{
    Document, DocumentError, Operation, ReferenceError, ServerError, UnknownOperation,
};
use drawgate_core::fair::FairSlots;
use drawgate_core::model::{McpManifest, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use drawgate_host::Host;
use drawgate_host::egress::{Fetch, Follow};
use http::Method;
pub use origins::Stray;
pub use parameter::PlanError;
pub use select::{Choice, ListedOperation, Operations, SelectError};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::timeout_at;
use url::Url;

use crate::failed_request::source_error;
use crate::kind::{ConfigError, SourceKind};
use call::Means;
use config::Settings;
use load::Loaded;

/// How long the servers of an API may take to say that they are there, and how much they may say.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_CHECKED: usize = 64 * 1024;
/// Operations that can't be offered, of which a person is told.
const MAX_TOLD: usize = 20;

/// Kind `openapi`.
pub const KIND: SourceKind = SourceKind::new("openapi").with_connector(&connector::Openapi);

/// An API.
pub struct OpenApiSource {
    id: SourceId,
    host: Arc<Host>,
    settings: Arc<Settings>,
    /// The document is read once, when it is first needed; a failure is tried again.
    loaded: OnceCell<Arc<Loaded>>,
    slots: Arc<FairSlots>,
}

impl OpenApiSource {
    /// A source as configured. Follows references to the environment; reads no document yet.
    pub fn new(id: SourceId, config: OpenApiConfig, host: &Arc<Host>) -> Result<Self, ConfigError> {
        let settings = config.validate(&host.secrets)?;
        Ok(Self {
            id,
            host: Arc::clone(host),
            slots: FairSlots::new(settings.concurrency),
            settings: Arc::new(settings),
            loaded: OnceCell::new(),
        })
    }

    async fn loaded(&self) -> Result<&Arc<Loaded>, SourceError> {
        self.loaded
            .get_or_try_init(|| async {
                let fetched = load::fetch(&self.host, &self.settings).await?;
                let (id, host) = (self.id.clone(), Arc::clone(&self.host));
                let settings = Arc::clone(&self.settings);
                let work = move || load::load(&id, &settings, &host, fetched.as_deref());
                let loaded = tokio::task::spawn_blocking(work).await;
                let loaded = loaded.map_err(|error| SourceError::Protocol(error.to_string()))??;
                for (operation, reason) in loaded.left_out.iter().take(MAX_TOLD) {
                    tracing::warn!(source = %self.id, operation, reason, "the operation is left out");
                }
                Ok(Arc::new(loaded))
            })
            .await
    }

    async fn perform(
        &self,
        call: &PermittedCall,
        caller: &str,
        deadline: Instant,
    ) -> Result<ToolOutput, SourceError> {
        let loaded = self.loaded().await?;
        let plan = loaded.plans.get(call.tool()).ok_or_else(|| SourceError::Failed {
            message: format!("there is no tool `{}`", document::shown(call.tool())),
            details: None,
        })?;
        let _slot = self.slots.acquire(caller).await;
        let (host, settings) = (&*self.host, &*self.settings);
        Means { host, settings, loaded, deadline }.perform(plan, call).await
    }
}

#[async_trait]
impl ToolSource for OpenApiSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Ok(self.loaded().await?.manifest.clone())
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        let timeout = self.settings.timeout;
        let deadline = cx.deadline.at().min(Instant::now() + timeout);
        let work = timeout_at(deadline.into(), self.perform(&call, cx.caller(), deadline));
        match work.await {
            Ok(Err(SourceError::Timeout(_))) | Err(_) => Err(SourceError::Timeout(format!(
                "there was no answer within {} s; `timeout_seconds` of the connector says how long to wait",
                timeout.as_secs()
            ))),
            Ok(done) => done,
        }
    }

    /// Asks each server of the API for anything at all: whatever status it answers with, it is there.
    /// Sends no credentials.
    async fn check(&self) -> Result<(), SourceError> {
        let loaded = self.loaded().await?;
        let servers: BTreeSet<&Url> = loaded.plans.values().map(|plan| &plan.server).collect();
        let deadline = Instant::now() + CHECK_TIMEOUT;
        for server in servers {
            let fetch = Fetch {
                method: Method::HEAD,
                follow: Follow::Nothing,
                ..Fetch::get(server.clone(), loaded.reach.clone(), deadline, MAX_CHECKED)
            };
            let asked = self.host.egress.fetch(fetch).await;
            asked.map_err(|error| source_error(&error))?;
        }
        Ok(())
    }

    fn diagnostics(&self) -> Value {
        let Some(loaded) = self.loaded.get() else { return Value::Null };
        let left_out: Vec<Value> = loaded
            .left_out
            .iter()
            .take(MAX_TOLD)
            .map(|(operation, reason)| json!({ "operation": operation, "reason": reason }))
            .collect();
        json!({
            "operations": loaded.plans.len(),
            "leftOutCount": loaded.left_out.len(),
            "leftOut": left_out,
        })
    }
}
