//! Everything that was measured, as text and as JSON.

use serde::Serialize;

use super::Plan;
use super::agents::Agents;
use super::aims::{self, Aim};
use super::costs::Costs;
use super::extras::{Audit, Named, StartUp};
use super::grpc::Grpc;
use super::hooks::Hooks;
use super::node::Node;
use super::paths::{Cell, Path};
use super::peers::Peers;
use super::soak::Soak;
use super::spawns::Spawned;
use super::table::{Table, figure, figure_or_dash};

/// The results of one run.
#[derive(Serialize)]
pub(crate) struct Report {
    plan: Plan,
    cores: usize,
    pub(crate) cells: Vec<Cell>,
    /// The same with the hop and the gateway on one core each
    pub(crate) one_core: Vec<Cell>,
    pub(crate) peers: Option<Peers>,
    pub(crate) costs: Option<Costs>,
    pub(crate) soak: Option<Soak>,
    pub(crate) lists: Vec<Named>,
    pub(crate) stdio: Vec<Named>,
    pub(crate) start_up_ms: Option<StartUp>,
    pub(crate) spawns: Vec<Spawned>,
    pub(crate) audit: Option<Audit>,
    pub(crate) grpc: Option<Grpc>,
    pub(crate) agents: Option<Agents>,
    pub(crate) hooks: Option<Hooks>,
    pub(crate) node: Option<Node>,
    /// Resident memory of Drawgate after the load of all paths
    pub(crate) resident_mib: Option<f64>,
}

#[derive(Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    report: &'a Report,
    aims: Vec<Aim>,
}

impl Report {
    /// Nothing measured yet.
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            plan,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cells: Vec::new(),
            one_core: Vec::new(),
            peers: None,
            costs: None,
            soak: None,
            lists: Vec::new(),
            stdio: Vec::new(),
            start_up_ms: None,
            spawns: Vec::new(),
            audit: None,
            grpc: None,
            agents: None,
            hooks: None,
            node: None,
            resident_mib: None,
        }
    }

    fn aims(&self) -> Vec<Aim> {
        aims::judge(self)
    }

    /// Everything, with the aims, for other programs to read.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&Judged { report: self, aims: self.aims() })
    }

    /// The tables, and the aims as the last of them.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "cores: {}; rounds of a cell: {} (the median counts), {} ms each, paths in turn; all on this \
             machine\n\n",
            self.cores, self.plan.rounds, self.plan.milliseconds
        );
        if !self.cells.is_empty() {
            text += &paths("tools/call echo, upstream over HTTP", &self.cells).text();
        }
        if !self.one_core.is_empty() {
            text += &paths("the same, hop and gateway on one core each", &self.one_core).text();
        }
        if let Some(peers) = &self.peers {
            text += &named("tools/call echo, other gateways", &peers.rows).text();
            for line in &peers.left_out {
                text += line;
                text.push('\n');
            }
        }
        text += &self.costs.as_ref().map(Costs::text).unwrap_or_default();
        text += &self.soak.as_ref().map(Soak::text).unwrap_or_default();
        for (title, rows) in [
            ("tools/list, 1000 tools (upstream over HTTP)", &self.lists),
            ("tools/call echo, upstream over stdio", &self.stdio),
        ] {
            if !rows.is_empty() {
                text += &named(title, rows).text();
            }
        }
        if !self.spawns.is_empty() {
            text += &self.starts().text();
        }
        text += &self.grpc.as_ref().map(Grpc::text).unwrap_or_default();
        text += &self.agents.as_ref().map(Agents::text).unwrap_or_default();
        text += &self.hooks.as_ref().map(Hooks::text).unwrap_or_default();
        text += &self.node.as_ref().map(Node::text).unwrap_or_default();
        text += &self.facts();
        text + &self.verdict()
    }

    fn starts(&self) -> Table {
        let title = format!("start to end of a program, {} times each", self.plan.spawns);
        let head = ["way", "p50 ms", "p99 ms", "added p50 ms", "added p99 ms"];
        let mut table = Table::new(&title, &head);
        for row in &self.spawns {
            table.row([
                row.name.to_owned(),
                figure(row.p50_ms),
                figure(row.p99_ms),
                figure_or_dash(row.added_p50_ms),
                figure_or_dash(row.added_p99_ms),
            ]);
        }
        table
    }

    fn facts(&self) -> String {
        let start_up = self.start_up_ms.as_ref().map(|times| {
            format!(
                "start-up to first list: median {:.1} ms of {} starts ({:.1} to {:.1})\n",
                times.median, self.plan.starts, times.fastest, times.slowest
            )
        });
        let audit = self.audit.as_ref().map(|audit| {
            format!(
                "audit verify: intact, {} events for {} calls, checked in {:.0} ms\n",
                audit.events, audit.calls, audit.verify_ms
            )
        });
        let resident = self.resident_mib.map(|mib| format!("resident after load: {mib:.1} MiB\n"));
        [start_up, audit, resident].into_iter().flatten().collect()
    }

    fn verdict(&self) -> String {
        let aims = self.aims();
        if aims.is_empty() {
            return "aims: none measured in this run\n".to_owned();
        }
        let mut table = Table::new("aims", &["what", "measured", "aim", "verdict"]);
        for aim in &aims {
            table.row(aim.row());
        }
        table.text()
    }
}

fn paths(title: &str, cells: &[Cell]) -> Table {
    let head = [
        "clients",
        "path",
        "calls/s",
        "p50 µs",
        "p99 µs",
        "CPU µs/call",
        "RSS MiB",
        "of direct",
        "of hop",
        "added p50 µs",
        "x hop's",
    ];
    let mut table = Table::new(title, &head);
    for cell in cells {
        table.row(path_row(cells, cell));
    }
    table
}

fn path_row(cells: &[Cell], cell: &Cell) -> [String; 11] {
    let direct = aims::find(cells, Path::Direct, cell.clients);
    let hop = aims::find(cells, Path::Hop, cell.clients);
    let of = |base: Option<&Cell>| base.map(|base| cell.rps / base.rps);
    let (of_direct, of_hop, added, times) = match cell.path {
        Path::Direct => (None, None, None, None),
        Path::Hop => (of(direct), None, direct.map(|direct| cell.p50_us - direct.p50_us), None),
        Path::Drawgate => {
            let added = direct.map(|direct| cell.p50_us - direct.p50_us);
            (of(direct), of(hop), added, aims::added_ratio(cells, cell.clients))
        }
    };
    [
        cell.clients.to_string(),
        cell.path.name().to_owned(),
        format!("{:.0}", cell.rps),
        figure(cell.p50_us),
        figure(cell.p99_us),
        figure_or_dash(cell.cpu_us),
        figure_or_dash(cell.resident_mib),
        figure_or_dash(of_direct),
        figure_or_dash(of_hop),
        figure_or_dash(added),
        figure_or_dash(times),
    ]
}

fn named(title: &str, rows: &[Named]) -> Table {
    let head = ["path", "clients", "requests/s", "p50 µs", "p99 µs", "CPU µs", "answer bytes"];
    let mut table = Table::new(title, &head);
    for row in rows {
        table.row([
            row.name.to_owned(),
            row.clients.to_string(),
            figure(row.measured.rps),
            figure(row.measured.p50_us),
            figure(row.measured.p99_us),
            figure_or_dash(row.measured.cpu_us),
            row.measured.answer_bytes.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
