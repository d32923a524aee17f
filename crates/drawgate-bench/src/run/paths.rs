//! The heart of the benchmark: the same calls directly, through the hop and through Drawgate.
//!
//! The paths take turns, round by round, so that a slow minute of the machine hits all of them.

use anyhow::Result;
use serde::Serialize;

use super::Plan;
use super::children::{Load, Server};
use super::gateway::{Gateway, resident_mib};
use crate::load::{Measured, Target};

/// What lies between the client and the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Path {
    Direct,
    Hop,
    Drawgate,
}

/// The processes at both ends and between them.
pub(crate) struct Ends<'a> {
    pub(crate) upstream: &'a Server,
    pub(crate) hop: &'a Server,
    pub(crate) gateway: Option<&'a Gateway>,
}

/// One line of the table: medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) path: Path,
    pub(crate) clients: usize,
    pub(crate) rps: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    /// Processor time per call of the process in the middle
    pub(crate) cpu_us: Option<f64>,
    /// Resident memory of the process in the middle after its last round
    pub(crate) resident_mib: Option<f64>,
}

/// Measures all paths.
pub(crate) struct Paths<'a> {
    plan: Plan,
    ends: Ends<'a>,
    calls_through_gateway: u64,
}

impl Path {
    /// How the tables name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Hop => "hop",
            Self::Drawgate => "drawgate",
        }
    }
}

impl<'a> Paths<'a> {
    /// Nothing measured yet.
    pub(crate) fn new(plan: Plan, ends: Ends<'a>) -> Self {
        Self { plan, ends, calls_through_gateway: 0 }
    }

    /// Measures every path at every concurrency.
    pub(crate) async fn measure(&mut self, concurrencies: &[usize]) -> Result<Vec<Cell>> {
        let mut cells = Vec::new();
        for clients in concurrencies {
            cells.extend(self.measure_at(*clients).await?);
        }
        Ok(cells)
    }

    /// Calls that Drawgate has answered so far.
    pub(crate) fn calls_through_gateway(&self) -> u64 {
        self.calls_through_gateway
    }

    async fn measure_at(&mut self, clients: usize) -> Result<Vec<Cell>> {
        let mut paths = vec![Path::Direct, Path::Hop];
        paths.extend(self.ends.gateway.map(|_| Path::Drawgate));
        let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); paths.len()];
        for round in 0..self.plan.rounds {
            eprintln!("{clients} clients, round {} of {}", round + 1, self.plan.rounds);
            for (path, measured) in paths.iter().zip(&mut rounds) {
                measured.push(self.one(*path, clients).await?);
            }
        }
        let cells =
            paths.iter().zip(&rounds).map(|(path, rounds)| self.cell(*path, clients, rounds));
        cells.collect()
    }

    async fn one(&mut self, path: Path, clients: usize) -> Result<Measured> {
        let plain = |server: &Server| Target { to: server.address().to_owned(), token: None };
        let target = match (path, self.ends.gateway) {
            (Path::Hop, _) => plain(self.ends.hop),
            (Path::Drawgate, Some(gateway)) => gateway.target().clone(),
            (Path::Direct, _) | (Path::Drawgate, None) => plain(self.ends.upstream),
        };
        let load = Load {
            target: &target,
            clients,
            milliseconds: self.plan.milliseconds,
            list: None,
            watch: self.middle(path)?,
        };
        let measured = load.run().await?;
        if path == Path::Drawgate {
            self.calls_through_gateway += measured.answered;
        }
        Ok(measured)
    }

    /// The process whose cost is the path's cost.
    fn middle(&self, path: Path) -> Result<Option<u32>> {
        match path {
            Path::Direct => Ok(None),
            Path::Hop => self.ends.hop.pid().map(Some),
            Path::Drawgate => self.ends.gateway.map(Gateway::pid).transpose(),
        }
    }

    fn cell(&self, path: Path, clients: usize, rounds: &[Measured]) -> Result<Cell> {
        let over = |figure: fn(&Measured) -> f64| median(rounds.iter().map(figure).collect());
        let cpu: Vec<f64> = rounds.iter().filter_map(|round| round.cpu_us).collect();
        Ok(Cell {
            path,
            clients,
            rps: over(|round| round.rps),
            p50_us: over(|round| round.p50_us),
            p99_us: over(|round| round.p99_us),
            max_us: over(|round| round.max_us),
            cpu_us: (!cpu.is_empty()).then(|| median(cpu)),
            resident_mib: self.middle(path)?.map(resident_mib).transpose()?,
        })
    }
}

/// The middle value; the mean of the two in the middle when there is no single one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied().unwrap_or(f64::NAN);
    if values.len() % 2 == 1 {
        return upper;
    }
    let lower = middle.checked_sub(1).and_then(|lower| values.get(lower)).copied();
    lower.map_or(f64::NAN, |lower| f64::midpoint(lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "these values are exact")]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![7.0]), 7.0);
        assert!(median(Vec::new()).is_nan());
    }
}
