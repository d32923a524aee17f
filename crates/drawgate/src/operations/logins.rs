//! Logins at protected servers: begun, ended and given up by the operator, and written down.

use std::sync::Arc;

use anyhow::{Context, bail};
use drawgate_core::audit::EventKind;
use drawgate_core::model::SourceId;
use drawgate_host::oauth::{Begun, LoginSummary, ServerLogin, Witness};

use super::Operations;

impl Operations {
    /// Begins a login. It is written down before it is used.
    pub async fn begin_login(self: &Arc<Self>, name: &str) -> anyhow::Result<Begun> {
        let login = self.login(name)?;
        let operations = Arc::clone(self);
        let witness: Witness = Box::new(move |summary| {
            Box::pin(async move {
                operations.note_login(&summary).await.map_err(|error| format!("{error:#}"))
            })
        });
        Ok(login.begin(witness).await?)
    }

    /// Waits for the end of a login.
    pub async fn end_login(&self, name: &str, attempt: &str) -> anyhow::Result<LoginSummary> {
        self.login(name)?.outcome(attempt).await.map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Ends a login: its tokens are given back and forgotten.
    pub async fn log_out(&self, name: &str) -> anyhow::Result<()> {
        if !self.login(name)?.log_out().await? {
            bail!("there is no login at `{name}`");
        }
        self.note(self.draft(EventKind::ServerLogout).text("server", name)).await
    }

    async fn note_login(&self, summary: &LoginSummary) -> anyhow::Result<()> {
        let draft = self
            .draft(EventKind::ServerLogin)
            .text("server", summary.server.as_str())
            .text("issuer", &summary.issuer)
            .text("clientId", &summary.client_id)
            .texts("scopes", summary.scopes.iter().map(String::as_str));
        self.note(draft).await
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
