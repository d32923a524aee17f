//! Looks at a declared manifest without a source behind it, for checks of a configuration.

use std::sync::Arc;

use async_trait::async_trait;

use super::{BadTool, Origin, Registration, SourceTerms, entry};
use crate::model::{McpManifest, McpToolSpec, Offer, SourceId, ToolOutput};
use crate::source::{CallContext, PermittedCall, Sent, SourceError, ToolSource};

/// Everything for which a registration of these tools would be refused.
#[must_use]
pub fn declared_faults(id: &SourceId, tools: Vec<McpToolSpec>, terms: SourceTerms) -> Vec<BadTool> {
    let manifest = McpManifest {
        server_id: id.clone(),
        name: id.to_string(),
        version: String::new(),
        description: None,
        tools,
        offer: Offer::default(),
    };
    let source = Arc::new(NoSource(id.clone()));
    let (_, _, faults) =
        entry::build(Registration { manifest, terms, origin: Origin::Declared, source });
    faults
}

/// Stands where entries need a source that is never called.
struct NoSource(SourceId);

impl NoSource {
    fn unavailable(&self) -> SourceError {
        let message = format!("`{}` is only looked at", self.0);
        SourceError::Unavailable { message, sent: Sent::Nothing }
    }
}

#[async_trait]
impl ToolSource for NoSource {
    fn id(&self) -> &SourceId {
        &self.0
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Err(self.unavailable())
    }

    async fn call(&self, _: PermittedCall, _: &CallContext) -> Result<ToolOutput, SourceError> {
        Err(self.unavailable())
    }
}
