//! The aims of the project, as ratios inside one run, and whether this run met them.

use serde::Serialize;

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
    Below(f64),
}

impl Aim {
    fn new(name: &'static str, bound: Bound, measured: Option<f64>) -> Option<Self> {
        let measured = measured.filter(|measured| measured.is_finite())?;
        let met = match bound {
            Bound::AtLeast(limit) => measured >= limit,
            Bound::AtMost(limit) => measured <= limit,
            Bound::Below(limit) => measured < limit,
        };
        Some(Self { name, bound, measured, met })
    }

    /// The aim in one phrase.
    pub(crate) fn text(&self) -> String {
        let (relation, limit) = match self.bound {
            Bound::AtLeast(limit) => (">=", limit),
            Bound::AtMost(limit) => ("<=", limit),
            Bound::Below(limit) => ("<", limit),
        };
        let verdict = if self.met { "met" } else { "MISSED" };
        format!("{} {} (aim {relation} {limit}): {verdict}", self.name, figure(self.measured))
    }
}

/// All aims for which this run has figures.
pub(crate) fn judge(report: &Report) -> Vec<Aim> {
    let throughput = ratio(report, 64, |cell| Some(cell.rps));
    let cpu = ratio(report, 64, |cell| cell.cpu_us);
    let start_up = report.start_up_ms.as_ref().map(|times| times.median);
    let boxed = report.spawns.iter().find(|spawned| spawned.name == "workspace");
    let sandbox = boxed.and_then(|spawned| spawned.added_p50_ms);
    let in_process = report.node.as_ref().and_then(Node::ratio);
    let aims = [
        Aim::new("throughput at 64 / hop", Bound::AtLeast(0.55), throughput),
        Aim::new("CPU at 64 / hop", Bound::AtMost(2.25), cpu),
        Aim::new("added p50 at 1 / hop's", Bound::AtMost(4.0), added_ratio(report, 1)),
        Aim::new("resident MiB", Bound::Below(30.0), report.resident_mib),
        Aim::new("first list ms", Bound::Below(150.0), start_up),
        Aim::new("sandbox adds ms", Bound::Below(10.0), sandbox),
        Aim::new("CPU in process / over MCP", Bound::AtMost(0.5), in_process),
    ];
    aims.into_iter().flatten().collect()
}

/// What Drawgate adds to the direct p50, in units of what the hop adds. None when the hop adds
/// nothing that can be measured.
pub(crate) fn added_ratio(report: &Report, clients: usize) -> Option<f64> {
    let direct = report.cell(Path::Direct, clients)?.p50_us;
    let hop = report.cell(Path::Hop, clients)?.p50_us - direct;
    let drawgate = report.cell(Path::Drawgate, clients)?.p50_us - direct;
    (hop > 0.0).then(|| drawgate / hop)
}

fn ratio(report: &Report, clients: usize, figure: fn(&Cell) -> Option<f64>) -> Option<f64> {
    let hop = figure(report.cell(Path::Hop, clients)?)?;
    let drawgate = figure(report.cell(Path::Drawgate, clients)?)?;
    Some(drawgate / hop)
}
