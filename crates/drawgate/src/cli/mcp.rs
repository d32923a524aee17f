//! `drawgate mcp`: MCP on standard input and output.
//!
//! It is a bridge to the gateway that runs on the data folder. Where none runs, this process becomes
//! one, without an endpoint; should the other one end, this one takes over.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use drawgate_core::model::Principal;
use drawgate_core::redact::Redactor;
use tokio::net::UnixStream;

use super::Context;
use super::backend::is_in_use;
use super::machine::runtime_options;
use super::running::Running;
use super::serve::{Signals, drain, on_hangup, open_control, sweep_sessions};
use crate::server::Server;
use crate::surface::control::SOCKET;
use crate::surface::mcp::bridge::{Bridge, GatewayStarter};
use crate::surface::mcp::tasks::FORMAT;
use crate::surface::mcp::{Mcp, Sessions};
use crate::telemetry::{self, Spans};
use drawgate_runtime::assemble::{Runtime, Start};

/// How long calls may still run when the client has gone. Common clients kill two seconds after they
/// have asked.
const GRACE: Duration = Duration::from_secs(1);
/// A first list should not be empty because servers that were never met are still starting.
const SETTLE: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(super) struct McpArgs {
    /// Act as this agent instead of the local user
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

pub(super) async fn run(args: &McpArgs, context: Context) -> anyhow::Result<ExitCode> {
    let agent = args.agent.as_deref().map(Principal::new).transpose()?;
    let starter = Arc::new(Starter { context, own: tokio::sync::Mutex::new(None) });
    let socket = starter.context.data.join(SOCKET);
    let mut signals = Signals::new()?;
    starter.ensure().await?;
    let bridge = Bridge::new(socket, agent, Arc::clone(&starter) as Arc<dyn GatewayStarter>);
    tokio::select! {
        done = bridge.run(tokio::io::stdin(), tokio::io::stdout()) => done?,
        () = signals.next() => {}
    }
    if let Some(own) = starter.own.lock().await.take() {
        drain(&own.runtime, &own.server, &own.mcp, GRACE, &mut signals).await;
    }
    Ok(ExitCode::SUCCESS)
}

/// Finds the running gateway, or starts one in this process.
struct Starter {
    context: Context,
    own: tokio::sync::Mutex<Option<OwnGateway>>,
}

struct OwnGateway {
    runtime: Arc<Runtime>,
    server: Server,
    mcp: Mcp,
}

#[async_trait::async_trait]
impl GatewayStarter for Starter {
    /// Makes sure that a gateway answers on the socket, by becoming it if need be.
    async fn ensure(&self) -> anyhow::Result<()> {
        let mut own = self.own.lock().await;
        if own.is_some() || answers(&self.context.data).await {
            self.context.warn_of_errors();
            return Ok(());
        }
        match self.become_gateway().await {
            Ok(made) => *own = Some(made),
            Err(error) if is_in_use(&error) => {
                Running::wait(&self.context.data).await?;
            }
            Err(error) => return Err(error).context("no gateway runs, and none can be started"),
        }
        Ok(())
    }
}

impl Starter {
    async fn become_gateway(&self) -> anyhow::Result<OwnGateway> {
        let loaded = self.context.whole()?;
        let redactor = Arc::new(ArcSwap::from_pointee(Redactor::new([])));
        let telemetry = &loaded.config.telemetry;
        telemetry::init_logs(telemetry.log, telemetry.log_format, Arc::clone(&redactor));
        let options = runtime_options(loaded, &self.context.data, Start::Sources, redactor)?;
        let runtime = Arc::new(Runtime::open(options).await?);
        let config = &loaded.config;
        let host = &runtime.host;
        let sessions = Sessions::new(
            config.server.max_sessions,
            u64::MAX,
            Arc::clone(&host.clock),
            Arc::clone(&host.ids),
        );
        let mcp = Mcp::new(
            runtime.gateway().clone(),
            sessions,
            Spans::default(),
            config.server.max_body_bytes,
        );
        let mcp = mcp.with_runs(runtime.operations.agents.runs.clone());
        let mcp = mcp.with_tasks(runtime.open_tasks(FORMAT).await?);
        let server = Server::new(config.server.max_connections);
        runtime.supervisor().settle_lists(SETTLE).await;
        open_control(&runtime, &server, &mcp, "stdio")?;
        tokio::spawn(sweep_sessions(mcp.clone()));
        on_hangup(&runtime.edits)?;
        runtime.start_upkeep();
        Ok(OwnGateway { runtime, server, mcp })
    }
}

async fn answers(data: &Path) -> bool {
    UnixStream::connect(data.join(SOCKET)).await.is_ok()
}
