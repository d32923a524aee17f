//! The MCP server behind the bridge: started or dialled, and watched.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use drawgate_sdk::CancellationToken;
use rmcp::model::{ClientConfig, Implementation, Tool};
use rmcp::service::{NotificationContext, Peer, RoleClient, RunningServiceCancellationToken};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ServiceExt as _};
use tokio::sync::Notify;

use crate::news::{News, WithNews};
use crate::options::Options;

/// A server that has answered.
pub(crate) struct Upstream {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) news: News,
    /// Told when the server says that its list of tools is another one.
    pub(crate) changed: Arc<Notify>,
    /// Cancelled when the server is gone.
    pub(crate) gone: CancellationToken,
    close: RunningServiceCancellationToken,
}

#[derive(Clone, Default)]
struct Handler {
    changed: Arc<Notify>,
}

impl ClientHandler for Handler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.client_info = Implementation::new("drawgate-mcp-bridge", env!("CARGO_PKG_VERSION"));
        config
    }
}

impl Upstream {
    /// Starts or dials the server.
    pub(crate) async fn connect(options: &Options) -> Result<Self> {
        let handler = Handler::default();
        let (news, changed) = (News::default(), Arc::clone(&handler.changed));
        let running = if let Some(url) = &options.url {
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.clone());
            if let Some(token) = &options.bearer_token {
                config = config.auth_header(token.clone());
            }
            let transport = StreamableHttpClientTransport::from_config(config);
            let failed = || format!("cannot talk to the MCP server at `{url}`");
            handler.serve(WithNews::new(transport, news.clone())).await.with_context(failed)?
        } else {
            let words = options.command.join(" ");
            let transport = TokioChildProcess::new(command(&options.command)?)
                .with_context(|| format!("cannot start `{words}`"))?;
            let failed = || format!("`{words}` does not answer as an MCP server");
            handler.serve(WithNews::new(transport, news.clone())).await.with_context(failed)?
        };
        let peer = running.peer().clone();
        let close = running.cancellation_token();
        let gone = CancellationToken::new();
        let guard = gone.clone().drop_guard();
        tokio::spawn(async move {
            // Why it ended makes no difference: it is gone.
            let _ = running.waiting().await;
            drop(guard);
        });
        Ok(Self { peer, news, changed, gone, close })
    }

    pub(crate) async fn tools(&self) -> Result<Vec<Tool>> {
        self.peer.list_all_tools().await.context("the MCP server does not list its tools")
    }

    /// The server's own version.
    pub(crate) fn version(&self) -> String {
        let info = self.peer.peer_info();
        let server = info.as_ref().and_then(|info| info.server_info.as_ref());
        server.map_or_else(|| env!("CARGO_PKG_VERSION").to_owned(), |server| server.version.clone())
    }

    /// Ends the server, if it is a program, and waits until it has ended.
    pub(crate) async fn close(self) {
        self.close.cancel();
        self.gone.cancelled().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the user's own program, at the user's own command")]
fn command(words: &[String]) -> Result<tokio::process::Command> {
    let (program, arguments) = words.split_first().context("name a command after `--`")?;
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).kill_on_drop(true);
    Ok(command)
}
