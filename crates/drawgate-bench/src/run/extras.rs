//! What is measured beside the paths: long lists, a server over stdio, start-up, the audit log.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;

use super::children::{Load, Server};
use super::gateway::{self, Folder, Gateway, Program};
use super::paths::{Cell, Ends, Paths, median};
use super::{CONCURRENCIES, Plan};
use crate::load::{Measured, Target};

/// How many tools the long list has.
const LONG_LIST: usize = 1000;

/// Has a program run on one core, by how many clients it is called then.
const ONE_CORE: [&str; 3] = ["taskset", "--cpu-list", "0"];
pub(super) const ONE_CORE_CLIENTS: usize = 16;

/// A decision and an outcome: every call leaves at least these two.
const EVENTS_PER_CALL: u64 = 2;

/// A measurement with a name of its own.
#[derive(Serialize)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) clients: usize,
    #[serde(flatten)]
    pub(crate) measured: Measured,
}

/// Times from `exec` to the first list, in milliseconds.
#[derive(Serialize)]
pub(crate) struct StartUp {
    pub(crate) median: f64,
    pub(crate) fastest: f64,
    pub(crate) slowest: f64,
}

/// What `audit verify` said after the load.
#[derive(Serialize)]
pub(crate) struct Audit {
    pub(crate) calls: u64,
    pub(crate) events: u64,
    pub(crate) verify_ms: f64,
}

/// Lists a thousand tools directly and through Drawgate, one client.
pub(crate) async fn lists(program: &Program, plan: Plan) -> Result<Vec<Named>> {
    eprintln!("tools/list with {LONG_LIST} tools");
    let upstream = Server::start(&["upstream", "--tools", &LONG_LIST.to_string()]).await?;
    let direct = Target { to: upstream.address().to_owned(), token: None };
    let gateway = Gateway::start(program, &gateway::http_server(upstream.address())).await?;
    let mut lists = Vec::new();
    for (name, target) in [("direct", &direct), ("drawgate", gateway.target())] {
        let load = load(target, 1, plan, Some(LONG_LIST));
        lists.push(Named { name, clients: 1, measured: load.run().await? });
    }
    gateway.stop().await?;
    Ok(lists)
}

/// Calls a server over stdio through Drawgate.
pub(crate) async fn stdio(program: &Program, plan: Plan) -> Result<Vec<Named>> {
    eprintln!("stdio upstream");
    let gateway = Gateway::start(program, &gateway::stdio_server()?).await?;
    let mut calls = Vec::new();
    for clients in CONCURRENCIES {
        let watch = Some(gateway.pid()?);
        let measured = Load { watch, ..load(gateway.target(), clients, plan, None) }.run().await?;
        calls.push(Named { name: "drawgate", clients, measured });
    }
    gateway.stop().await?;
    Ok(calls)
}

/// Measures the paths with the hop and the gateway on one core each; what is around them has the others.
pub(crate) async fn one_core(
    program: &Program,
    upstream: &Server,
    plan: Plan,
) -> Result<Vec<Cell>> {
    eprintln!("one core");
    let hop = ["hop", "--to", upstream.address()];
    let hop = Server::start_under(&ONE_CORE, &hop).await?;
    let config = gateway::http_server(upstream.address());
    let gateway = Gateway::start(&program.under(&ONE_CORE), &config).await?;
    let ends = Ends { upstream, hop: &hop, gateway: Some(&gateway) };
    let cells = Paths::new(plan, ends).measure(&[ONE_CORE_CLIENTS]).await?;
    gateway.stop().await?;
    Ok(cells)
}

/// Starts a gateway with nothing configured, again and again, each time on an empty folder.
pub(crate) async fn start_up(program: &Program, plan: Plan) -> Result<StartUp> {
    eprintln!("start-up, {} times", plan.starts);
    let mut times = Vec::new();
    for _ in 0..plan.starts {
        times.push(one_start(program).await?);
    }
    times.sort_by(f64::total_cmp);
    let fastest = times.first().copied().context("no start was measured")?;
    let slowest = times.last().copied().context("no start was measured")?;
    Ok(StartUp { median: median(times), fastest, slowest })
}

/// Stops the gateway and verifies what it wrote.
pub(crate) async fn audit(program: &Program, gateway: Gateway, calls: u64) -> Result<Audit> {
    eprintln!("audit verify after {calls} calls");
    let folder = gateway.stop().await?;
    let begin = Instant::now();
    let output = program.output(&folder, &["audit", "verify", "--json"]).await?;
    let verify_ms = begin.elapsed().as_secs_f64() * 1e3;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let said = String::from_utf8_lossy(&output.stdout);
        bail!("`audit verify` ended with {}: {} {}", output.status, said.trim(), errors.trim());
    }
    let events = match count_in_summary(&output.stdout) {
        Some(events) => events,
        None => count_exported(program, &folder).await?,
    };
    if events < calls * EVENTS_PER_CALL {
        bail!("{calls} calls left only {events} audit events; each must leave {EVENTS_PER_CALL}");
    }
    Ok(Audit { calls, events, verify_ms })
}

fn load(target: &Target, clients: usize, plan: Plan, list: Option<usize>) -> Load<'_> {
    Load { target, clients, milliseconds: plan.milliseconds, list, watch: None }
}

async fn one_start(program: &Program) -> Result<f64> {
    let folder = Folder::new(None)?;
    let begin = Instant::now();
    let (mut child, address) = program.serve(&folder)?;
    let attempt = || async {
        let token = Some(folder.admin_token()?);
        gateway::first_list(&Target { to: address.clone(), token }).await
    };
    gateway::wait_until(&mut child, &folder, "listing its own tools", attempt).await?;
    let milliseconds = begin.elapsed().as_secs_f64() * 1e3;
    gateway::stop(child, &folder).await?;
    Ok(milliseconds)
}

fn count_in_summary(summary: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Value>(summary).ok()?.get("events")?.as_u64()
}

/// Counts the lines of the whole export, one event each.
async fn count_exported(program: &Program, folder: &Folder) -> Result<u64> {
    let output = program.output(folder, &["audit", "export", "--events-only"]).await?;
    if !output.status.success() {
        bail!("`audit export` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.count().try_into()?)
}
