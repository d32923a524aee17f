//! `drawgate mcp`: MCP on standard input and output.
//!
//! It is a bridge to the gateway that runs on the data folder. Where none runs, this process becomes
//! one, as `drawgate serve` would be; should the other one end, this one takes over at once, or another
//! bridge does. When `drawgate serve` comes, it makes way.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use drawgate_core::model::Principal;
use drawgate_host::store::DataDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::backend::is_in_use;
use super::exit::Exit;
use super::gateway::{Listening, Logs, Role, ServedGateway, Signals};
use crate::server;
use crate::surface::control::SOCKET;
use crate::surface::mcp::bridge::{Bridge, GatewayStarter};

/// How long calls may still run when the client has gone. Common clients kill two seconds after they
/// have asked.
const GRACE: Duration = Duration::from_secs(1);
/// How often a data folder that is in use is tried again, and for how long beyond the time that calls of a
/// gateway that ends may take.
const PAUSE: Duration = Duration::from_millis(25);
const PATIENCE: Duration = Duration::from_secs(10);
/// The least time between two looks at a gateway that closes connections.
const WATCH_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug, clap::Args)]
pub(super) struct McpArgs {
    /// Act as this agent instead of the local user
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

pub(super) async fn run(args: &McpArgs, context: Context) -> anyhow::Result<ExitCode> {
    let agent = args.agent.as_deref().map(Principal::new).transpose()?;
    if let Some(agent) = &agent {
        super::agents::check_exists(&context, agent.as_str()).await?;
    }
    let starter = Starter::new(context);
    let socket = starter.context.data.join(SOCKET);
    let mut signals = Signals::new()?;
    tokio::select! {
        ensured = starter.ensure() => ensured?,
        () = signals.next() => return Ok(ExitCode::SUCCESS),
    }
    let watch = tokio::spawn(Arc::clone(&starter).take_over_when_needed());
    let bridge = Bridge::new(socket, agent, Arc::clone(&starter) as Arc<dyn GatewayStarter>);
    let done = tokio::select! {
        done = bridge.run(tokio::io::stdin(), tokio::io::stdout()) => done,
        () = signals.next() => Ok(()),
    };
    starter.closing.cancel();
    // Nothing is begun any more that would be dropped in the middle.
    let _ended = watch.await;
    let gateway = starter.own.lock().await.take();
    if let Some(gateway) = gateway {
        gateway.drain(GRACE, &mut signals).await;
    }
    done.map(|()| ExitCode::SUCCESS)
}

/// Finds the running gateway, or starts one in this process.
struct Starter {
    context: Context,
    logs: OnceCell<Logs>,
    /// Held while the gateway of this process ends, and while one is started.
    succession: tokio::sync::Mutex<()>,
    own: tokio::sync::Mutex<Option<ServedGateway>>,
    /// Cancelled when the client has gone: no gateway is started any more.
    closing: CancellationToken,
    /// For the task that makes way.
    this: Weak<Self>,
}

#[async_trait::async_trait]
impl GatewayStarter for Starter {
    /// Makes sure that a gateway answers on the socket, by becoming it if need be. One that ends is waited
    /// for; `drawgate serve` goes first.
    async fn ensure(&self) -> anyhow::Result<()> {
        let data = &self.context.data;
        let drain = Duration::from_secs(self.context.loaded.config.server.drain_seconds);
        let until = Instant::now() + drain + PATIENCE;
        loop {
            let is_late = Instant::now() > until;
            if self.is_answered(is_late).await? {
                return Ok(());
            }
            if is_late {
                let text = format!("the gateway on `{}` does not answer", data.display());
                return Err(Exit::Unavailable.error(text));
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.closing.cancelled() => bail!("the client has gone"),
            }
        }
    }
}

impl Starter {
    fn new(context: Context) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            context,
            logs: OnceCell::new(),
            succession: tokio::sync::Mutex::default(),
            own: tokio::sync::Mutex::default(),
            closing: CancellationToken::new(),
            this: this.clone(),
        })
    }

    /// Whether a gateway answers now, which may have become this process. A `drawgate serve` that does not
    /// come in time is not waited for.
    async fn is_answered(&self, is_late: bool) -> anyhow::Result<bool> {
        let _settled = self.succession.lock().await;
        let data = &self.context.data;
        if self.own.lock().await.is_some() || answers(data).await {
            self.context.warn_of_errors();
            return Ok(true);
        }
        let is_left = || self.closing.is_cancelled() || DataDir::successor(data).is_some();
        if !is_late && is_left() {
            return Ok(false);
        }
        match self.become_gateway().await {
            Ok(gateway) => {
                *self.own.lock().await = Some(gateway);
                Ok(true)
            }
            Err(error) if is_in_use(&error) => Ok(false),
            Err(error) => Err(error).context("no gateway runs, and none can be started"),
        }
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

    /// Has a gateway run as long as the client is there, whether or not the client sends anything: other
    /// clients, runs and people who approve need one, too.
    async fn take_over_when_needed(self: Arc<Self>) {
        while !self.closing.is_cancelled() {
            tokio::select! {
                () = gone(&self.context.data) => {}
                () = self.closing.cancelled() => return,
            }
            if let Err(error) = self.ensure().await {
                tracing::warn!(error = format!("{error:#}"), "no gateway runs");
            }
            tokio::select! {
                () = tokio::time::sleep(WATCH_PAUSE) => {}
                () = self.closing.cancelled() => {}
            }
        }
    }

    /// Ends the gateway of this process in order. Messages wait until the next one answers.
    async fn make_way(&self) {
        let _unsettled = self.succession.lock().await;
        let Some(gateway) = self.own.lock().await.take() else { return };
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

/// Waits until the gateway ends, or closes the connection for another reason.
async fn gone(data: &Path) {
    if let Ok(mut stream) = UnixStream::connect(data.join(SOCKET)).await {
        let _end = stream.read(&mut [0]).await;
    }
}

async fn answers(data: &Path) -> bool {
    UnixStream::connect(data.join(SOCKET)).await.is_ok()
}
