//! The ids of spans. A tree of runs is in one trace: that of the call that started it, or one of its own.
//! Ids are derived from those of the runs and steps, so that a run that is taken up again goes on in the
//! same trace.

use drawgate_core::canonical::sha256_hex;
use drawgate_core::model::TraceParent;

use super::record::RunRecord;

/// Hexadecimal digits of a trace's id, and of a span's.
const TRACE_DIGITS: usize = 32;
const SPAN_DIGITS: usize = 16;

/// The span of a run.
pub(crate) fn of_run(run: &RunRecord) -> Option<TraceParent> {
    context(run, &format!("run {}", run.id))
}

/// The span of a step of a run.
pub(crate) fn of_step(run: &RunRecord, step: u32) -> Option<TraceParent> {
    context(run, &format!("step {}/{step}", run.id))
}

/// The span above that of a run: of the call that started it, by a run or by another caller.
pub(crate) fn above(run: &RunRecord) -> Option<TraceParent> {
    match &run.parent {
        Some(parent) => context(run, &format!("step {}/{}", parent.run, parent.step)),
        None => run.trace.clone(),
    }
}

/// Nothing for an id that has only zeros, which the standard forbids.
fn context(run: &RunRecord, span: &str) -> Option<TraceParent> {
    let trace = match &run.trace {
        Some(callers) => callers.trace_id().to_owned(),
        None => digits(&format!("trace {}", run.root), TRACE_DIGITS),
    };
    let span = digits(span, SPAN_DIGITS);
    TraceParent::parse(&format!("00-{trace}-{span}-01"))
}

fn digits(text: &str, count: usize) -> String {
    sha256_hex(text.as_bytes()).chars().take(count).collect()
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
