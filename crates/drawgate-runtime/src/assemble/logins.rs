//! Logins at protected servers, from configuration: every MCP server with an address may have one,
//! unless the operator sends credentials of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use drawgate_sources::mcp::oauth::{self, Address, LoginSettings, LoginTarget, StoredLogins};
use drawgate_sources::server::ServerKind;
use tokio::sync::broadcast::error::RecvError;

use super::Runtime;
use crate::config::{Grant, Loaded, OAuth, Server, Setting};

/// Starts servers that wait for a login again as soon as there is one.
pub(crate) async fn follow_logins(runtime: Arc<Runtime>) {
    let mut news = runtime.operations.logins.news();
    loop {
        match news.recv().await {
            Ok(id) => runtime.start_again(&id).await,
            // What was missed is tried again by itself, if later.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

impl Runtime {
    /// Brings the logins in line with the configuration.
    pub(super) fn apply_logins(&self, loaded: &Loaded, stored: StoredLogins) {
        let servers = loaded.config.servers.iter();
        let wanted: BTreeMap<_, _> = servers
            .filter_map(|(id, server)| Some((id.clone(), self.wanted(loaded, server)?)))
            .collect();
        self.operations.logins.set(wanted, stored);
    }

    fn wanted(&self, loaded: &Loaded, server: &Server) -> Option<LoginTarget> {
        let own =
            server.connection.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        let kind = loaded.config.kinds.server(server.protocol.as_str());
        if own || !kind.is_some_and(ServerKind::has_logins) {
            return None;
        }
        // An address that can't be read is reported when the server is set up.
        let url = self.host.secrets.resolve(server.connection.url.as_deref()?).ok()?;
        let url = Address::parse(url.expose()).ok()?;
        Some(LoginTarget { url, settings: settings(server.oauth.clone().unwrap_or_default()) })
    }
}

fn settings(configured: OAuth) -> LoginSettings {
    let text = |setting: Option<Setting>| setting.map(|setting| setting.expose().to_owned());
    LoginSettings {
        grant: match configured.grant {
            Grant::AuthorizationCode => oauth::Grant::AuthorizationCode,
            Grant::ClientCredentials => oauth::Grant::ClientCredentials,
        },
        client_id: configured.client_id,
        client_secret: text(configured.client_secret),
        private_key: text(configured.private_key),
        issuer: configured.issuer,
        scopes: configured.scopes,
        client_metadata_url: configured.client_metadata_url,
        redirect_port: configured.redirect_port,
    }
}
