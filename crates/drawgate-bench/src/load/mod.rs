//! The client: some connections that each call one tool, or list all tools, back to back.
//!
//! Closed loop: a connection sends the next request when it has the answer to the last one. Every
//! answer is checked; one wrong answer fails the whole run, because a gate that mixes up answers
//! has no speed worth knowing.

mod answer;
pub(crate) mod client;
mod worker;

use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

pub(crate) use answer::Flaw;
pub(crate) use client::{Client, Received, Target};
use worker::Tally;
pub(crate) use worker::{Caller, Timing, drive, message};

/// Options of the role `load`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) target: Target,
    /// How many connections
    #[arg(long, default_value_t = 1)]
    pub(crate) clients: usize,
    /// How long to measure
    #[arg(long, default_value_t = 3000)]
    pub(crate) milliseconds: u64,
    /// How long to call before measuring
    #[arg(long, default_value_t = 300)]
    pub(crate) warm_up_milliseconds: u64,
    /// List the tools, of which there must be at least so many, instead of calling `echo`
    #[arg(long)]
    pub(crate) list: Option<usize>,
    /// Process whose processor time per request is wanted
    #[arg(long)]
    pub(crate) watch: Option<u32>,
}

/// What was measured, printed as one line of JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Requests answered within the measured time
    pub(crate) requests: u64,
    /// All requests that were answered, warm-up included
    pub(crate) answered: u64,
    /// Requests per second
    pub(crate) rps: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    /// Size of the last answer's body, or of all pages of a list
    pub(crate) answer_bytes: usize,
    /// Processor time per request of the watched process
    pub(crate) cpu_us: Option<f64>,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
}

/// Measures and prints; fails on a wrong answer.
pub(crate) async fn main(args: Args) -> Result<()> {
    let measured = measure(&args).await?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

async fn measure(args: &Args) -> Result<Measured> {
    if args.clients == 0 || args.milliseconds == 0 {
        bail!("nothing to measure; give at least one client and one millisecond");
    }
    let (tally, cpu) = worker::run(args).await?;
    Ok(summary(&tally, Duration::from_millis(args.milliseconds), cpu))
}

/// What the tally of a load says.
#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
pub(crate) fn summary(tally: &Tally, window: Duration, cpu: Option<Duration>) -> Measured {
    let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
    let requests = tally.latencies.count();
    Measured {
        requests,
        answered: tally.answered,
        rps: requests as f64 / window.as_secs_f64(),
        p50_us: micros(tally.latencies.quantile(500)),
        p99_us: micros(tally.latencies.quantile(990)),
        max_us: micros(tally.latencies.max()),
        answer_bytes: tally.answer_bytes,
        cpu_us: cpu.map(|used| micros(used) / requests.max(1) as f64),
        errors: tally.errors,
        first_error: tally.first_error.clone(),
    }
}
