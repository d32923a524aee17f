//! The orchestrator: starts every process, measures the paths in turn, prints the tables.
//!
//! It fails when a run is broken (a process does not start, an answer is wrong, the audit log does
//! not verify) or a count exceeds its budget, never because a time misses its aim: the machines are
//! shared and noisy.

mod agents;
mod aims;
mod children;
mod costs;
mod extras;
mod gateway;
mod grpc;
mod grpc_table;
mod hooks;
mod node;
mod paths;
mod peers;
mod report;
mod soak;
mod spawns;
mod table;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use children::Server;
use gateway::{Gateway, Program};
use paths::{Ends, Paths};
use report::Report;

/// How many clients call at the same time, in turn.
const CONCURRENCIES: [usize; 3] = [1, 16, 64];

/// Options of the role `run`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One round of one second per cell: shows that everything works, not how fast
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    selection: Selection,
    /// Also measure other gateways that are on `PATH`
    #[arg(long)]
    peers: bool,
    /// The program to measure; the `drawgate` beside this one if not given
    #[arg(long)]
    drawgate: Option<PathBuf>,
    /// Also write everything that was measured to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// What to measure, if not everything.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Selection {
    /// Measure only the direct connection and the hop
    #[arg(long)]
    skip_drawgate: bool,
    /// Measure only this
    #[arg(long, value_name = "WHAT")]
    only: Option<Part>,
    /// Measure only a load of so many minutes, and idle sessions after it
    #[arg(long, value_name = "MINUTES")]
    soak: Option<f64>,
}

/// What can be measured alone.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Part {
    /// Packs and agents over gRPC
    Grpc,
    /// Agents that the gateway runs
    Agents,
    /// Hooks around calls
    Hooks,
    /// A gateway inside a Node program
    Node,
    /// What a call costs, counted, against the committed budget
    Costs,
    /// Starts of a program, plainly and in the sandbox
    Spawns,
}

/// How much to measure.
#[derive(Clone, Copy, serde::Serialize)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) milliseconds: u64,
    pub(crate) starts: usize,
    pub(crate) spawns: usize,
}

/// Measures, prints, and ends every process that it started, even when interrupted.
pub(crate) async fn main(args: Args) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    // Leaving drops the measuring future, and with it the processes, which are killed on drop.
    let report = tokio::select! {
        report = measure(&args) => report?,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted")
        }
        _ = terminate.recv() => bail!("terminated"),
    };
    print!("{}", report.text());
    if let Some(path) = &args.json {
        std::fs::write(path, report.json()?)
            .with_context(|| format!("can not write `{}`", path.display()))?;
    }
    match report.costs.as_ref().map_or(0, |costs| costs.excess.len()) {
        0 => Ok(()),
        1 => bail!("a call costs more than its budget, see above"),
        figures => bail!("a call costs more than its budget in {figures} figures, see above"),
    }
}

async fn measure(args: &Args) -> Result<Report> {
    let plan = if args.quick {
        Plan { rounds: 1, milliseconds: 1000, starts: 3, spawns: 10 }
    } else {
        Plan { rounds: 3, milliseconds: 3000, starts: 10, spawns: 300 }
    };
    let upstream = Server::start(&["upstream"]).await?;
    let hop = Server::start(&["hop", "--to", upstream.address()]).await?;
    let mut report = Report::new(plan);
    if let Some(part) = args.selection.only {
        let program = Program::find(args.drawgate.as_deref())?;
        match part {
            Part::Grpc => report.grpc = Some(grpc::measure(&program, plan).await?),
            Part::Agents => report.agents = Some(agents::measure(&program).await?),
            Part::Hooks => report.hooks = Some(hooks::measure(&program, &upstream, plan).await?),
            Part::Node => report.node = Some(node::measure(&program, &upstream, plan).await?),
            Part::Costs => {
                report.costs = Some(costs::measure(&program, &upstream, args.quick).await?);
            }
            Part::Spawns => report.spawns = spawns::spawns(&program, plan).await?,
        }
        return Ok(report);
    }
    if let Some(minutes) = args.selection.soak {
        let program = Program::find(args.drawgate.as_deref())?;
        report.soak = Some(soak::measure(&program, &upstream, minutes).await?);
        return Ok(report);
    }
    if args.selection.skip_drawgate {
        let ends = Ends { upstream: &upstream, hop: &hop, gateway: None };
        report.cells = Paths::new(plan, ends).measure(&CONCURRENCIES).await?;
        return Ok(report);
    }
    let program = Program::find(args.drawgate.as_deref())?;
    let gateway = Gateway::start(&program, &gateway::http_server(upstream.address())).await?;
    let ends = Ends { upstream: &upstream, hop: &hop, gateway: Some(&gateway) };
    let mut paths = Paths::new(plan, ends);
    report.cells = paths.measure(&CONCURRENCIES).await?;
    report.resident_mib = Some(gateway.resident_mib()?);
    let calls = paths.calls_through_gateway();
    report.audit = Some(extras::audit(&program, gateway, calls).await?);
    if args.peers {
        report.peers = Some(peers::measure(&upstream, plan).await?);
    }
    report.costs = Some(costs::measure(&program, &upstream, args.quick).await?);
    report.one_core = extras::one_core(&program, &upstream, plan).await?;
    report.lists = extras::lists(&program, plan).await?;
    report.stdio = extras::stdio(&program, plan).await?;
    report.start_up_ms = Some(extras::start_up(&program, plan).await?);
    report.spawns = spawns::spawns(&program, plan).await?;
    report.grpc = Some(grpc::measure(&program, plan).await?);
    report.agents = Some(agents::measure(&program).await?);
    report.hooks = Some(hooks::measure(&program, &upstream, plan).await?);
    report.node = Some(node::measure(&program, &upstream, plan).await?);
    Ok(report)
}
