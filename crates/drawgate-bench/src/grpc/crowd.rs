//! Many agents at once, in front of many packs: how long they take to join, how they call, and how
//! soon all of them know of a change.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use drawgate_sdk::Agent;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};

use super::{Door, LATE_PACK, load, packs, tool_name};
use crate::load::{Caller, Flaw, Measured, Received, message};

/// How long all agents may take to hear of a change.
const PATIENCE: Duration = Duration::from_secs(30);

/// Options of the role `grpc-crowd`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    door: Door,
    /// How many agents
    #[arg(long, default_value_t = 100)]
    agents: usize,
    /// How many packs are there
    #[arg(long, default_value_t = 100)]
    packs: usize,
    /// How many tools each of them has
    #[arg(long, default_value_t = 10)]
    tools: usize,
    /// How long to call
    #[arg(long, default_value_t = 3000)]
    milliseconds: u64,
    /// Process whose processor time per call is wanted
    #[arg(long)]
    watch: Option<u32>,
}

/// What was measured, printed as one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Crowd {
    /// Until all agents were connected and had their lists
    pub(crate) joined_ms: f64,
    /// Calls of all agents, each of other tools in turn
    pub(crate) calls: Measured,
    /// From the start of a further pack until all agents had its tool in their lists
    pub(crate) told_ms: f64,
    /// From its end until none had it
    pub(crate) gone_ms: f64,
}

/// Measures and prints; fails on a wrong list or answer.
pub(crate) async fn main(args: Args) -> Result<()> {
    let begin = Instant::now();
    let agents =
        try_join_all((0..args.agents).map(|number| load::join(&args.door, number))).await?;
    let joined_ms = milliseconds(begin);
    for agent in &agents {
        let listed = agent.tools().borrow().len();
        if listed != args.packs * args.tools {
            bail!("an agent sees {listed} tools instead of {}", args.packs * args.tools);
        }
    }
    let member =
        |agent: &Agent| Member { agent: agent.clone(), packs: args.packs, tools: args.tools };
    let members = agents.iter().map(member).collect();
    let length = Duration::from_millis(args.milliseconds);
    let calls = load::measure(members, length, args.watch).await?;
    let tool = tool_name(args.packs, 0);
    let begin = Instant::now();
    let late = packs::serve(&args.door, packs::pack(LATE_PACK, [tool.clone()].into_iter())).await?;
    all(&agents, &tool, true).await?;
    let told_ms = milliseconds(begin);
    let begin = Instant::now();
    late.abort();
    all(&agents, &tool, false).await?;
    let crowd = Crowd { joined_ms, calls, told_ms, gone_ms: milliseconds(begin) };
    println!("{}", serde_json::to_string(&crowd)?);
    Ok(())
}

fn milliseconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

/// Waits until every agent has, or has not, a tool in its list.
async fn all(agents: &[Agent], tool: &str, wanted: bool) -> Result<()> {
    let one = |agent: &Agent| {
        let mut tools = agent.tools();
        async move {
            let told = |tools: &std::sync::Arc<[drawgate_sdk::AgentTool]>| {
                tools.iter().any(|known| known.name == tool) == wanted
            };
            tools.wait_for(told).await.map(drop)
        }
    };
    let told = try_join_all(agents.iter().map(one));
    tokio::time::timeout(PATIENCE, told).await.context("not all agents heard of a change")??;
    Ok(())
}

/// An agent that calls the tools of all packs, in an order of its own.
struct Member {
    agent: Agent,
    packs: usize,
    tools: usize,
}

impl Caller for Member {
    async fn once(&mut self, number: usize, round: u64) -> Result<Received, Flaw> {
        let turn = usize::try_from(round).unwrap_or_default().wrapping_mul(7).wrapping_add(number);
        let tool = tool_name(turn % self.packs, turn / self.packs % self.tools);
        load::call(&self.agent, &tool, &message(number, round)).await
    }
}
