//! What a call may cost: the figures in `budget.json`, which are changed on purpose or not at all.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Cost;

const COMMITTED: &str = include_str!("../../../budget.json");

/// The most that each kind of request may cost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Budget {
    /// How far a count may lie above its figure, in per cent. System calls differ more from run to run
    /// than allocations: the scheduler has its say in them.
    tolerance_percent: Most,
    requests: BTreeMap<String, Most>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Most {
    allocations: f64,
    system_calls: f64,
}

impl Budget {
    /// The one in the repository.
    pub(super) fn committed() -> Result<Self> {
        serde_json::from_str(COMMITTED).context("`budget.json` can not be read")
    }

    /// What is beyond it, in words.
    pub(super) fn excess(&self, rows: &[Cost]) -> Vec<String> {
        rows.iter().flat_map(|row| self.excess_of(row)).collect()
    }

    fn excess_of(&self, row: &Cost) -> Vec<String> {
        let name = serde_json::to_value(row.request).unwrap_or_default();
        let name = name.as_str().unwrap_or_default();
        let Some(most) = self.requests.get(name) else {
            return vec![format!("`budget.json` has no figures for `{name}`; add them")];
        };
        let above = &self.tolerance_percent;
        let counts = [
            ("allocations", Some(row.allocations), most.allocations, above.allocations),
            ("system calls", row.system_calls, most.system_calls, above.system_calls),
        ];
        let excess = counts.into_iter().filter_map(|(what, count, most, above)| {
            let count = count.filter(|count| *count > most * (1.0 + above / 100.0))?;
            Some(format!(
                "`{name}` costs {count:.1} {what}, and its budget is {most:.1} (+{above:.0} %); find \
                 out why, or raise it in crates/drawgate-bench/budget.json"
            ))
        });
        excess.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;

    fn cost(allocations: f64, system_calls: Option<f64>) -> Cost {
        Cost {
            request: Request::Ping,
            allocations,
            allocated_bytes: 0.0,
            system_calls,
            wal_bytes: 0.0,
            executed: None,
        }
    }

    #[test]
    fn what_is_beyond_the_tolerance_is_named() {
        let budget: Budget = serde_json::from_str(
            r#"{"tolerance_percent": {"allocations": 5, "system_calls": 20},
                "requests": {"ping": {"allocations": 100, "system_calls": 10}}}"#,
        )
        .unwrap();
        let cases = [
            (cost(105.0, Some(12.0)), vec![]),
            (cost(90.0, None), vec![]),
            (cost(105.1, Some(9.0)), vec!["105.1 allocations"]),
            (cost(106.0, Some(12.1)), vec!["106.0 allocations", "12.1 system calls"]),
        ];
        for (cost, expected) in cases {
            let excess = budget.excess(&[cost]);
            assert_eq!(excess.len(), expected.len(), "{excess:?}");
            for (line, part) in excess.iter().zip(expected) {
                assert!(line.contains(part), "{line}");
            }
        }
    }

    #[test]
    fn every_kind_of_request_has_its_figures() {
        let budget = Budget::committed().unwrap();
        let rows = Request::ALL.map(|request| Cost { request, ..cost(0.0, None) });
        assert_eq!(budget.excess(&rows), Vec::<String>::new());
    }
}
