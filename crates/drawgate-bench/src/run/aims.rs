//! The aims of the project, as ratios inside one run, and whether this run met them.

use serde::Serialize;

use self::Bound::{AtLeast, AtMost};
use super::extras::ONE_CORE_CLIENTS;
use super::grpc::Grpc;
use super::node::Node;
use super::paths::{Cell, Path};
use super::report::Report;
use super::table::figure;

/// One aim and what was measured.
#[derive(Serialize, Debug, PartialEq)]
pub(crate) struct Aim {
    name: &'static str,
    bound: Bound,
    measured: f64,
    met: bool,
}

#[derive(Serialize, Debug, PartialEq, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Aim {
    fn new(name: &'static str, bound: Bound, measured: Option<f64>) -> Option<Self> {
        let measured = measured.filter(|measured| measured.is_finite())?;
        let met = match bound {
            Bound::AtLeast(limit) => measured >= limit,
            Bound::AtMost(limit) => measured <= limit,
        };
        Some(Self { name, bound, measured, met })
    }

    /// What, how much, the aim, and whether it is met.
    pub(crate) fn row(&self) -> [String; 4] {
        let (relation, limit) = match self.bound {
            Bound::AtLeast(limit) => (">=", limit),
            Bound::AtMost(limit) => ("<=", limit),
        };
        let verdict = if self.met { "met" } else { "MISSED" };
        [
            self.name.to_owned(),
            figure(self.measured),
            format!("{relation} {limit}"),
            verdict.to_owned(),
        ]
    }
}

/// All aims for which this run has figures.
pub(crate) fn judge(report: &Report) -> Vec<Aim> {
    let cpu = |cell: &Cell| cell.cpu_us;
    let start_up = report.start_up_ms.as_ref().map(|times| times.median);
    let boxed = report.spawns.iter().find(|spawned| spawned.name == "workspace");
    let grpc = report.grpc.as_ref();
    let aims = [
        Aim::new("CPU a call at 64 clients, x hop's", AtMost(1.8), ratio(&report.cells, 64, cpu)),
        Aim::new(
            "throughput at 64 clients, of hop's",
            AtLeast(0.6),
            ratio(&report.cells, 64, |cell| Some(cell.rps)),
        ),
        Aim::new("added p50 at one client, x hop's", AtMost(3.0), added_ratio(&report.cells, 1)),
        Aim::new(
            "CPU a call, one core, 16 clients, x hop's",
            AtMost(2.0),
            ratio(&report.one_core, ONE_CORE_CLIENTS, cpu),
        ),
        Aim::new("stdio server, CPU a call at 64, x HTTP hop's", AtMost(2.5), stdio(report)),
        Aim::new(
            "gRPC agent to pack, CPU at 64, x bare stream's",
            AtMost(4.0),
            grpc.and_then(Grpc::ratio),
        ),
        Aim::new(
            "sandboxed command, ms added to a plain spawn",
            AtMost(4.0),
            boxed.and_then(|spawned| spawned.added_p50_ms),
        ),
        Aim::new("resident MiB after load", AtMost(30.0), report.resident_mib),
        Aim::new(
            "resident MiB, 100 packs, 1000 tools, 100 agents",
            AtMost(60.0),
            grpc.map(|grpc| grpc.crowd.resident_mib),
        ),
        Aim::new("first list after start, ms", AtMost(50.0), start_up),
        Aim::new(
            "CPU in a Node process, of over MCP",
            AtMost(0.5),
            report.node.as_ref().and_then(Node::ratio),
        ),
    ];
    aims.into_iter().flatten().collect()
}

/// The figures of one path at one concurrency.
pub(crate) fn find(cells: &[Cell], path: Path, clients: usize) -> Option<&Cell> {
    cells.iter().find(|cell| cell.path == path && cell.clients == clients)
}

/// What Drawgate adds to the direct p50, in units of what the hop adds. None when the hop adds
/// nothing that can be measured.
pub(crate) fn added_ratio(cells: &[Cell], clients: usize) -> Option<f64> {
    let direct = find(cells, Path::Direct, clients)?.p50_us;
    let hop = find(cells, Path::Hop, clients)?.p50_us - direct;
    let drawgate = find(cells, Path::Drawgate, clients)?.p50_us - direct;
    (hop > 0.0).then(|| drawgate / hop)
}

/// What a call to a server over stdio costs, in units of what the HTTP hop costs.
fn stdio(report: &Report) -> Option<f64> {
    let called = report.stdio.iter().find(|row| row.clients == 64)?.measured.cpu_us?;
    Some(called / find(&report.cells, Path::Hop, 64)?.cpu_us?)
}

fn ratio(cells: &[Cell], clients: usize, figure: fn(&Cell) -> Option<f64>) -> Option<f64> {
    let hop = figure(find(cells, Path::Hop, clients)?)?;
    let drawgate = figure(find(cells, Path::Drawgate, clients)?)?;
    Some(drawgate / hop)
}
