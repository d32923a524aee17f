//! The closed loop: all connections are set up first, then start together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tokio::sync::{Barrier, watch};
use tokio::task::JoinSet;

use super::answer::Flaw;
use super::client::Received;
use super::{Args, Client};
use crate::histogram::Histogram;
use crate::process_stat;

/// How long setting up, and the answers still under way at the end, may take.
const SLACK: Duration = Duration::from_secs(30);

/// Filler that makes a message as long as those of a chat: about 100 bytes.
const FILLER: &str = "the quick brown fox jumps over the lazy dog and looks back once more";

/// What one connection, or all of them, counted.
pub(crate) struct Tally {
    pub(super) latencies: Histogram,
    pub(super) answered: u64,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) answer_bytes: usize,
}

/// The measured time: answers that arrive within it count.
#[derive(Clone, Copy)]
struct Window {
    start: Instant,
    end: Instant,
}

/// A connection that can make one request after the other.
pub(crate) trait Caller: Send + 'static {
    /// Makes one request and checks its answer. No two requests say the same.
    fn once(
        &mut self,
        number: usize,
        round: u64,
    ) -> impl Future<Output = Result<Received, Flaw>> + Send;

    /// Leaves, so that nothing of it stays at the server.
    fn end(self) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        std::future::ready(())
    }
}

/// How long to call before measuring, and how long to measure.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) warm_up: Duration,
    pub(crate) length: Duration,
}

/// A text that no other request has, as long as those of a chat: about 100 bytes.
pub(crate) fn message(number: usize, round: u64) -> String {
    format!("client {number} call {round}: {FILLER}")
}

/// A connection of MCP over HTTP, and what every request of it does.
struct Connection {
    client: Client,
    work: Work,
}

#[derive(Clone, Copy)]
enum Work {
    Echo,
    List { at_least: usize },
}

impl Caller for Connection {
    async fn once(&mut self, number: usize, round: u64) -> Result<Received, Flaw> {
        match self.work {
            Work::Echo => self.client.echo(&message(number, round)).await,
            Work::List { at_least } => self.client.list(at_least).await,
        }
    }

    async fn end(self) {
        self.client.end().await;
    }
}

/// Runs all connections and adds up; with it the processor time of the watched process.
pub(super) async fn run(args: &Args) -> Result<(Tally, Option<Duration>)> {
    let work = args.list.map_or(Work::Echo, |at_least| Work::List { at_least });
    let mut connections = Vec::new();
    let set_up = async {
        for number in 0..args.clients {
            connections.push(Connection { client: connect(args, number).await?, work });
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(SLACK, set_up).await.context("not all connections were made")??;
    let timing = Timing {
        warm_up: Duration::from_millis(args.warm_up_milliseconds),
        length: Duration::from_millis(args.milliseconds),
    };
    drive(connections, timing, args.watch).await
}

/// Lets callers work in a closed loop, all from the same moment, and adds up; with it the processor
/// time of the watched process.
pub(crate) async fn drive<C: Caller>(
    callers: Vec<C>,
    timing: Timing,
    watched: Option<u32>,
) -> Result<(Tally, Option<Duration>)> {
    let limit = timing.warm_up + timing.length + SLACK;
    tokio::time::timeout(limit, drive_unlimited(callers, timing, watched))
        .await
        .with_context(|| format!("not all answers came within {limit:?}"))?
}

async fn drive_unlimited<C: Caller>(
    callers: Vec<C>,
    timing: Timing,
    watched: Option<u32>,
) -> Result<(Tally, Option<Duration>)> {
    let ready = Arc::new(Barrier::new(callers.len() + 1));
    let (announce, window) = watch::channel(None);
    let mut connections = JoinSet::new();
    for (number, caller) in callers.into_iter().enumerate() {
        connections.spawn(connection(caller, number, Arc::clone(&ready), window.clone()));
    }
    ready.wait().await;
    let start = Instant::now() + timing.warm_up;
    let window = Window { start, end: start + timing.length };
    announce.send_replace(Some(window));
    let cpu = watch_cpu(watched, window).await?;
    let mut total = Tally::new();
    while let Some(tally) = connections.join_next().await {
        total.add(&tally??);
    }
    Ok((total, cpu))
}

async fn connect(args: &Args, number: usize) -> Result<Client> {
    let mut client = Client::connect(&args.target).await?;
    client.initialize().await.with_context(|| format!("connection {number} has no MCP session"))?;
    Ok(client)
}

async fn watch_cpu(pid: Option<u32>, window: Window) -> Result<Option<Duration>> {
    let Some(pid) = pid else { return Ok(None) };
    tokio::time::sleep_until(window.start.into()).await;
    let before = process_stat::cpu_time(pid)?;
    tokio::time::sleep_until(window.end.into()).await;
    Ok(Some(process_stat::cpu_time(pid)?.saturating_sub(before)))
}

/// Works until the window closes, or until the first error: what comes after one says nothing.
async fn connection<C: Caller>(
    mut caller: C,
    number: usize,
    ready: Arc<Barrier>,
    mut window: watch::Receiver<Option<Window>>,
) -> Result<Tally> {
    ready.wait().await;
    let Some(window) = *window.wait_for(Option::is_some).await? else {
        return Err(anyhow!("the start was never announced"));
    };
    let mut tally = Tally::new();
    let mut begin = Instant::now();
    for round in 0_u64.. {
        match caller.once(number, round).await {
            Ok(received) => tally.answer(begin, &received, window),
            Err(flaw @ Flaw::Wrong(_)) => return Err(flaw.into()),
            Err(Flaw::Failed(error)) => {
                tally.fail(&error);
                return Ok(tally);
            }
        }
        begin = Instant::now();
        if begin >= window.end {
            break;
        }
    }
    caller.end().await;
    Ok(tally)
}

impl Tally {
    fn new() -> Self {
        let latencies = Histogram::new();
        Self { latencies, answered: 0, errors: 0, first_error: None, answer_bytes: 0 }
    }

    fn answer(&mut self, begin: Instant, received: &Received, window: Window) {
        self.answered += 1;
        self.answer_bytes = received.bytes;
        if received.at >= window.start && received.at < window.end {
            self.latencies.record(received.at - begin);
        }
    }

    fn fail(&mut self, error: &anyhow::Error) {
        self.errors += 1;
        self.first_error = Some(format!("{error:#}"));
    }

    fn add(&mut self, other: &Self) {
        self.latencies.merge(&other.latencies);
        self.answered += other.answered;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or_else(|| other.first_error.clone());
        self.answer_bytes = self.answer_bytes.max(other.answer_bytes);
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
