//! What a call costs, counted instead of timed: allocations, system calls, bytes of the audit log's WAL
//! and, where a tool for it is there, instructions and cache misses. Counts are the same on a busy
//! machine, so that they can be held to a budget.
//!
//! The rows are parts of the way: a request that the surface answers, a call that the gate refuses, and
//! whole calls. What a stage costs is the difference of two rows.

mod budget;
mod counter;
mod instructions;

use anyhow::Result;
use serde::Serialize;

use self::budget::Budget;
use self::counter::{Counted, SystemCalls};
use self::instructions::Executed;
use super::children::Server;
use super::gateway::{self, Program};
use super::table::{Table, figure, figure_or_dash};
use crate::load::{Client, Flaw, message};

/// Requests before counting, so that what is made once is there.
const WARM_UP: u64 = 50;
/// Requests that are counted. The WAL is not begun anew while so many are made.
const CALLS: u64 = 300;

/// What is asked for, in the order of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// The surface answers it.
    Ping,
    /// The gate refuses it for its arguments and writes one event.
    Refused,
    /// A whole call to a server over HTTP.
    Http,
    /// A whole call to a server over stdio.
    Stdio,
}

impl Request {
    const ALL: [Self; 4] = [Self::Ping, Self::Refused, Self::Http, Self::Stdio];

    const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping: surface alone",
            Self::Refused => "refused call: and gate, one event",
            Self::Http => "call over HTTP: and a second event, server",
            Self::Stdio => "call over stdio: the same",
        }
    }

    async fn make(self, client: &mut Client, round: u64) -> Result<(), Flaw> {
        match self {
            Self::Ping => client.ping().await,
            Self::Refused => client.refused().await,
            Self::Http | Self::Stdio => client.echo(&message(0, round)).await.map(drop),
        }
    }
}

/// The counts of one kind of request, for each of them.
#[derive(Serialize)]
pub(crate) struct Cost {
    request: Request,
    allocations: f64,
    allocated_bytes: f64,
    /// None where they can't be counted.
    system_calls: Option<f64>,
    wal_bytes: f64,
    /// None where it can't be counted.
    executed: Option<Executed>,
}

/// All that was counted.
#[derive(Serialize)]
pub(crate) struct Costs {
    rows: Vec<Cost>,
    /// Why something was not counted.
    notes: Vec<String>,
    /// What is beyond the budget.
    pub(super) excess: Vec<String>,
}

/// Counts every kind of request, one client at a time; instructions only where there is time for it.
pub(crate) async fn measure(program: &Program, upstream: &Server, quick: bool) -> Result<Costs> {
    eprintln!("what a call costs, counted");
    let counting = Program::counting()?;
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for request in Request::ALL {
        rows.push(count(&counting, upstream, request, &mut notes).await?);
    }
    if !quick {
        match instructions::of_call(program, upstream).await {
            Ok(executed) => {
                for row in rows.iter_mut().filter(|row| row.request == Request::Http) {
                    row.executed = Some(executed);
                }
            }
            Err(error) => notes.push(format!("instructions were not counted: {error:#}")),
        }
    }
    notes.dedup();
    let excess = Budget::committed()?.excess(&rows);
    Ok(Costs { rows, notes, excess })
}

async fn count(
    counting: &Program,
    upstream: &Server,
    request: Request,
    notes: &mut Vec<String>,
) -> Result<Cost> {
    let config = match request {
        Request::Stdio => gateway::stdio_server()?,
        Request::Ping | Request::Refused | Request::Http => {
            gateway::http_server(upstream.address())
        }
    };
    let mut counted = Counted::start(counting, &config).await?;
    let mut client = Client::connect(counted.gateway.target()).await?;
    client.initialize().await?;
    repeat(&mut client, request, WARM_UP).await?;
    let (before, wal_before) = (counted.allocated().await?, counted.wal_bytes()?);
    repeat(&mut client, request, CALLS).await?;
    let (after, wal_after) = (counted.allocated().await?, counted.wal_bytes()?);
    let system_calls = match SystemCalls::attach(counted.gateway.pid()?).await {
        Ok(tracer) => {
            repeat(&mut client, request, CALLS).await?;
            Some(tracer.finish().await?)
        }
        Err(error) => {
            notes.push(format!("system calls were not counted: {error:#}"));
            None
        }
    };
    counted.gateway.stop().await?;
    Ok(Cost {
        request,
        allocations: each(after.allocations - before.allocations),
        allocated_bytes: each(after.bytes - before.bytes),
        system_calls: system_calls.map(each),
        wal_bytes: each(wal_after - wal_before),
        executed: None,
    })
}

async fn repeat(client: &mut Client, request: Request, times: u64) -> Result<()> {
    for round in 0..times {
        request.make(client, round).await?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn each(count: u64) -> f64 {
    count as f64 / CALLS as f64
}

impl Costs {
    pub(super) fn text(&self) -> String {
        let head = [
            "request",
            "allocations",
            "KiB",
            "system calls",
            "WAL bytes",
            "k instructions",
            "k misses of 32 KiB",
            "of 512 KiB",
        ];
        let title = "what a call costs, counted at one client, by how far a request goes";
        let mut table = Table::new(title, &head);
        for row in &self.rows {
            let executed = |figure: fn(Executed) -> f64| {
                figure_or_dash(row.executed.map(|executed| figure(executed) / 1000.0))
            };
            table.row([
                row.request.name().to_owned(),
                figure(row.allocations),
                figure(row.allocated_bytes / 1024.0),
                figure_or_dash(row.system_calls),
                figure(row.wal_bytes),
                executed(|executed| executed.instructions),
                executed(|executed| executed.first_level_misses),
                executed(|executed| executed.second_level_misses),
            ]);
        }
        let mut text = table.text();
        for line in self.notes.iter().chain(&self.excess) {
            text += line;
            text.push('\n');
        }
        text
    }
}
