//! What was measured over gRPC, as text.

use super::grpc::{Grpc, Many, Row, Way};
use super::table::{Table, figure, figure_or_dash};

impl Grpc {
    /// The table of round trips, and the crowd in a few lines.
    pub(crate) fn text(&self) -> String {
        let head = [
            "callers",
            "path",
            "calls/s",
            "p50 µs",
            "p99 µs",
            "CPU µs/call",
            "of stream",
            "added p50 µs",
            "added p99 µs",
            "x stream's p50",
        ];
        let mut table = Table::new("echo over gRPC, each caller on a connection of its own", &head);
        for row in &self.rows {
            table.row(self.cells(row));
        }
        table.text() + &self.crowd.text()
    }

    fn bare(&self, callers: usize) -> Option<&Row> {
        self.rows.iter().find(|row| row.way == Way::Stream && row.callers == callers)
    }

    fn cells(&self, row: &Row) -> [String; 10] {
        let bare = self.bare(row.callers).filter(|_| row.way == Way::Agent);
        [
            row.callers.to_string(),
            row.way.name().to_owned(),
            format!("{:.0}", row.rps),
            figure(row.p50_us),
            figure(row.p99_us),
            figure_or_dash(row.cpu_us),
            figure_or_dash(bare.map(|bare| row.rps / bare.rps)),
            figure_or_dash(bare.map(|bare| row.p50_us - bare.p50_us)),
            figure_or_dash(bare.map(|bare| row.p99_us - bare.p99_us)),
            figure_or_dash(bare.map(|bare| row.p50_us / bare.p50_us)),
        ]
    }
}

impl Many {
    fn text(&self) -> String {
        let calls = &self.crowd.calls;
        format!(
            "{} packs, {} tools, {} agents: packs registered in {:.0} ms, agents joined in {:.0} ms\n  \
             {:.0} calls/s, p50 {} µs, p99 {} µs; all agents told of a new pack in {:.0} ms, of its end \
             in {:.0} ms; resident {:.1} MiB\n\n",
            self.packs,
            self.tools,
            self.agents,
            self.registered_ms,
            self.crowd.joined_ms,
            calls.rps,
            figure(calls.p50_us),
            figure(calls.p99_us),
            self.crowd.told_ms,
            self.crowd.gone_ms,
            self.resident_mib
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::crowd::Crowd;
    use crate::load::Measured;

    fn row(way: Way, rps: f64, p50_us: f64) -> Row {
        Row { way, callers: 16, rps, p50_us, p99_us: 2.0 * p50_us, cpu_us: None }
    }

    fn many() -> Many {
        let calls = Measured {
            requests: 1,
            answered: 1,
            rps: 1234.0,
            p50_us: 5.0,
            p99_us: 6.0,
            max_us: 7.0,
            answer_bytes: 1,
            cpu_us: None,
            errors: 0,
            first_error: None,
        };
        let crowd = Crowd { joined_ms: 1.0, calls, told_ms: 2.0, gone_ms: 3.0 };
        Many { packs: 4, tools: 5, agents: 6, registered_ms: 7.0, crowd, resident_mib: 8.0 }
    }

    #[test]
    fn agents_are_compared_with_the_bare_stream_of_as_many_callers() {
        let rows = vec![
            row(Way::Unary, 9000.0, 90.0),
            row(Way::Stream, 10_000.0, 100.0),
            row(Way::Agent, 2500.0, 350.0),
        ];
        let text = Grpc { rows, crowd: many() }.text();
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        let cells: Vec<String> =
            line("agent-gateway-pack").split_whitespace().map(str::to_owned).collect();
        let expected = ["0.25", "250.0", "500.0", "3.50"];
        assert_eq!(cells[cells.len() - 4..], expected);
        assert!(text.contains("4 packs, 5 tools, 6 agents"), "{text}");
    }
}
