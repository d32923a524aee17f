//! What a call executes in the gateway, in user space: instructions, and how often code or data is not in
//! a cache. `valgrind` counts those of a whole run; what two runs differ by is what the further calls of
//! the longer one took. It has no instructions for SHA-256, so that hashing weighs more here than on
//! most processors.
//!
//! The caches are simulated and the same on every machine. A call runs through much code once, so that
//! its time is as much a matter of the second-level misses as of the instructions.

use anyhow::{Context, Result};
use serde::Serialize;

use super::super::children::Server;
use super::super::gateway::{self, Gateway, Program};
use super::{Request, repeat};
use crate::load::Client;

/// Calls of the shorter and of the longer run.
const RUNS: [u64; 2] = [100, 600];

/// A first level of 32 KiB each for code and data, and a second one of 512 KiB for both.
const CACHES: [&str; 4] =
    ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=524288,8,64"];

/// What one call executes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Executed {
    pub(super) instructions: f64,
    pub(super) first_level_misses: f64,
    pub(super) second_level_misses: f64,
}

/// The same for a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    instructions: u64,
    first_level_misses: u64,
    second_level_misses: u64,
}

pub(super) async fn of_call(program: &Program, upstream: &Server) -> Result<Executed> {
    let [short, long] = RUNS;
    let (few, many) = (run(program, upstream, short).await?, run(program, upstream, long).await?);
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let each = |few: u64, many: u64| many.saturating_sub(few) as f64 / (long - short) as f64;
    Ok(Executed {
        instructions: each(few.instructions, many.instructions),
        first_level_misses: each(few.first_level_misses, many.first_level_misses),
        second_level_misses: each(few.second_level_misses, many.second_level_misses),
    })
}

async fn run(program: &Program, upstream: &Server, calls: u64) -> Result<Counts> {
    let under = ["valgrind", "--tool=cachegrind", "--cachegrind-out-file=/dev/null"];
    let program = program.under(&[&under[..], &CACHES].concat());
    let gateway = Gateway::start(&program, &gateway::http_server(upstream.address())).await?;
    let mut client = Client::connect(gateway.target()).await?;
    client.initialize().await?;
    repeat(&mut client, Request::Http, calls).await?;
    let folder = gateway.stop().await?;
    counts(&folder.log_text()).context("`valgrind` has not said how many instructions there were")
}

/// The counts in what `valgrind` says.
fn counts(log: &str) -> Option<Counts> {
    Some(Counts {
        instructions: count(log, ["I", "refs:"])?,
        first_level_misses: count(log, ["I1", "misses:"])? + count(log, ["D1", "misses:"])?,
        second_level_misses: count(log, ["LLi", "misses:"])? + count(log, ["LLd", "misses:"])?,
    })
}

/// The count after these words, before which versions of `valgrind` put different blanks.
fn count(log: &str, name: [&str; 2]) -> Option<u64> {
    log.lines().rev().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.windows(2).position(|pair| pair == name)?;
        words.get(at + 2)?.replace(',', "").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_found_among_the_gateways_own_lines() {
        for blank in [" ", "   "] {
            let log = format!(
                "INFO ready\n==12== I{blank}refs:        1,234,567\n==12== I1  misses:  20,000\n\
                 ==12== LLi misses:  300\n==12== D{blank}refs:  9  (5 rd   + 4 wr)\n\
                 ==12== D1  misses:   1,000  (  600 rd   + 400 wr)\n\
                 ==12== LLd misses:   40  ( 30 rd   + 10 wr)\n==12== LL misses:  340\nINFO stopped\n"
            );
            let found = Counts {
                instructions: 1_234_567,
                first_level_misses: 21_000,
                second_level_misses: 340,
            };
            assert_eq!(counts(&log), Some(found));
        }
        assert_eq!(counts("INFO ready\n"), None);
    }
}
