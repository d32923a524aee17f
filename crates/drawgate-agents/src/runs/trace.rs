//! The ids of spans. A tree of runs is one trace; ids are derived from those of the runs and steps, so
//! that a run that is taken up again goes on in the same trace.

use drawgate_core::canonical::sha256_hex;
use drawgate_core::model::TraceParent;

/// Hexadecimal digits of a trace's id, and of a span's.
const TRACE_DIGITS: usize = 32;
const SPAN_DIGITS: usize = 16;

/// The span of a run.
pub(crate) fn of_run(root: &str, run: &str) -> Option<TraceParent> {
    context(root, &format!("run {run}"))
}

/// The span of a step of a run.
pub(crate) fn of_step(root: &str, run: &str, step: u32) -> Option<TraceParent> {
    context(root, &format!("step {run}/{step}"))
}

/// Nothing for an id that has only zeros, which the standard forbids.
fn context(root: &str, span: &str) -> Option<TraceParent> {
    let trace = digits(&format!("trace {root}"), TRACE_DIGITS);
    let span = digits(span, SPAN_DIGITS);
    TraceParent::parse(&format!("00-{trace}-{span}-01"))
}

fn digits(text: &str, count: usize) -> String {
    sha256_hex(text.as_bytes()).chars().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_one_trace_with_a_span_for_each_run_and_step() {
        let spans = [
            of_run("root", "root"),
            of_run("root", "child"),
            of_step("root", "root", 1),
            of_step("root", "root", 2),
            of_step("root", "child", 1),
        ];
        let spans = spans.map(Option::unwrap);
        assert!(spans.iter().all(|span| span.trace_id() == spans[0].trace_id()));
        let own: std::collections::BTreeSet<&str> =
            spans.iter().map(TraceParent::span_id).collect();
        assert_eq!(own.len(), spans.len());
        assert_ne!(of_run("other", "other").unwrap().trace_id(), spans[0].trace_id());
        assert_eq!(of_run("root", "child").as_ref(), Some(&spans[1]), "the same at any time");
    }
}
