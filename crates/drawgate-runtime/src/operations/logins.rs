//! Logins at protected servers: begun, ended and given up by the operator.

use std::sync::Arc;

use anyhow::{Context, bail};
use drawgate_core::model::SourceId;
use drawgate_sources::mcp::oauth::{LoginSummary, PendingLogin, ServerLogin};

use super::Operations;

impl Operations {
    /// Begins a login.
    pub async fn begin_login(&self, name: &str) -> anyhow::Result<PendingLogin> {
        Ok(self.login(name)?.begin().await?)
    }

    /// Waits for the end of a login.
    pub async fn end_login(&self, name: &str, attempt: &str) -> anyhow::Result<LoginSummary> {
        let ended = self.login(name)?.outcome(attempt).await;
        ended.map_err(|error| anyhow::anyhow!("{}", with_causes(&*error)))
    }

    /// Ends a login: its tokens are given back and forgotten.
    pub async fn log_out(&self, name: &str) -> anyhow::Result<()> {
        if !self.login(name)?.log_out().await? {
            bail!("there is no login at `{name}`");
        }
        Ok(())
    }

    fn login(&self, name: &str) -> anyhow::Result<Arc<ServerLogin>> {
        let id = SourceId::new(name)?;
        self.logins.get(&id).with_context(|| {
            format!(
                "there is no login at `{name}`; it takes an MCP server with a `url` and without an `Authorization` header"
            )
        })
    }
}

/// An error that is shared, with what lies behind it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
