//! `drawgate mcp`: MCP on standard input and output.
//!
//! It is a bridge to the gateway that runs on the data folder. Where none runs, this process becomes
//! one, as `drawgate serve` would be; should the other one end, this one takes over. When `drawgate
//! serve` comes, it makes way.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context as _;
use drawgate_core::model::Principal;
use tokio::net::UnixStream;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::backend::is_in_use;
use super::gateway::{Listening, Logs, Role, ServedGateway, Signals};
use super::running::Running;
use crate::server;
use crate::surface::control::SOCKET;
use crate::surface::mcp::bridge::{Bridge, GatewayStarter};

/// How long calls may still run when the client has gone. Common clients kill two seconds after they
/// have asked.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct McpArgs {
    /// Act as this agent instead of the local user
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

pub(super) async fn run(args: &McpArgs, context: Context) -> anyhow::Result<ExitCode> {
    let agent = args.agent.as_deref().map(Principal::new).transpose()?;
    let starter = Starter::new(context);
    let socket = starter.context.data.join(SOCKET);
    let mut signals = Signals::new()?;
    starter.ensure().await?;
    let bridge = Bridge::new(socket, agent, Arc::clone(&starter) as Arc<dyn GatewayStarter>);
    tokio::select! {
        done = bridge.run(tokio::io::stdin(), tokio::io::stdout()) => done?,
        () = signals.next() => {}
    }
    if let Some(gateway) = starter.own.lock().await.take() {
        gateway.drain(GRACE, &mut signals).await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the running gateway, or starts one in this process.
struct Starter {
    context: Context,
    logs: OnceCell<Logs>,
    /// Held while another gateway takes over.
    succession: tokio::sync::Mutex<()>,
    own: tokio::sync::Mutex<Option<ServedGateway>>,
    /// For the task that makes way.
    this: Weak<Self>,
}

#[async_trait::async_trait]
impl GatewayStarter for Starter {
    /// Makes sure that a gateway answers on the socket, by becoming it if need be.
    async fn ensure(&self) -> anyhow::Result<()> {
        let _settled = self.succession.lock().await;
        let mut own = self.own.lock().await;
        if own.is_some() || answers(&self.context.data).await {
            self.context.warn_of_errors();
            return Ok(());
        }
        match self.become_gateway().await {
            Ok(gateway) => *own = Some(gateway),
            Err(error) if is_in_use(&error) => {
                Running::wait(&self.context.data).await?;
            }
            Err(error) => return Err(error).context("no gateway runs, and none can be started"),
        }
        Ok(())
    }
}

impl Starter {
    fn new(context: Context) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            context,
            logs: OnceCell::new(),
            succession: tokio::sync::Mutex::default(),
            own: tokio::sync::Mutex::default(),
            this: this.clone(),
        })
    }

    async fn become_gateway(&self) -> anyhow::Result<ServedGateway> {
        let make_way = CancellationToken::new();
        let role = Role::Client { make_way: make_way.clone() };
        let logs = self.logs.get_or_try_init(async || Logs::begin(&self.context)).await?;
        let listen = async || listen(&self.context).await;
        let gateway = ServedGateway::open(&self.context, listen, role, logs).await?;
        let this = self.this.clone();
        tokio::spawn(async move {
            make_way.cancelled().await;
            if let Some(this) = this.upgrade() {
                this.make_way().await;
            }
        });
        Ok(gateway)
    }

    /// Ends the gateway of this process in order. The bridge waits until the next one answers.
    async fn make_way(&self) {
        let _unsettled = self.succession.lock().await;
        self.end_own().await;
        // Where none comes, the next message makes this process the gateway again.
        let _successor = Running::wait(&self.context.data).await;
    }

    async fn end_own(&self) {
        let mut own = self.own.lock().await;
        let Some(gateway) = own.take() else { return };
        let grace = gateway.runtime.configuration().config.server.drain_seconds;
        match Signals::new() {
            Ok(mut signals) => gateway.drain(Duration::from_secs(grace), &mut signals).await,
            Err(error) => tracing::error!(error = format!("{error:#}"), "signals can't be heard"),
        }
    }
}

/// Opens the configured address if only this machine reaches it, or else a free port of this machine: a
/// gateway that a client has started serves nobody beyond, but a person must reach its pages.
async fn listen(context: &Context) -> Option<Listening> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let first = if server::is_private(context.listen) { context.listen } else { free };
    for address in [first, free] {
        if let Ok(listening) = Listening::open(&context.loaded, address).await {
            return Some(listening);
        }
    }
    None
}

async fn answers(data: &Path) -> bool {
    UnixStream::connect(data.join(SOCKET)).await.is_ok()
}
