//! Instructions of the gateway for one call, in user space. `valgrind` counts those of a whole run; what
//! two runs differ by is what the further calls of the longer one took. It has no instructions for
//! SHA-256, so that hashing weighs more here than on most processors.

use anyhow::{Context, Result};

use super::super::children::Server;
use super::super::gateway::{self, Gateway, Program};
use super::{Request, repeat};
use crate::load::Client;

/// Calls of the shorter and of the longer run.
const RUNS: [u64; 2] = [100, 600];

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) async fn of_call(program: &Program, upstream: &Server) -> Result<f64> {
    let [short, long] = RUNS;
    let (few, many) = (run(program, upstream, short).await?, run(program, upstream, long).await?);
    Ok(many.saturating_sub(few) as f64 / (long - short) as f64)
}

async fn run(program: &Program, upstream: &Server, calls: u64) -> Result<u64> {
    let under =
        ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    let program = program.under(&under);
    let gateway = Gateway::start(&program, &gateway::http_server(upstream.address())).await?;
    let mut client = Client::connect(gateway.target()).await?;
    client.initialize().await?;
    repeat(&mut client, Request::Http, calls).await?;
    let folder = gateway.stop().await?;
    count(&folder.log_text()).context("`valgrind` has not said how many instructions there were")
}

/// The count in what `valgrind` says, whose versions put different blanks before it.
fn count(log: &str) -> Option<u64> {
    log.lines().rev().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [.., "I", "refs:", count] = words.as_slice() else { return None };
        count.replace(',', "").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_the_gateways_own_lines() {
        for said in ["I refs:        1,234,567", "I   refs:      1,234,567"] {
            let log = format!("INFO ready\n==12== {said}\n==12== \nINFO stopped\n");
            assert_eq!(count(&log), Some(1_234_567), "{said}");
        }
        assert_eq!(count("INFO ready\n"), None);
    }
}
