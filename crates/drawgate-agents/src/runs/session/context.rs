//! Keeps a conversation within the model's context: first old results go, then a summary takes the place
//! of what is old. A call and its result are never parted.

use super::conversation::work_reply;
use crate::runs::record::{Step, StepBody};

/// Of the model's context, in hundredths, how much a request may fill.
const FULL_PERCENT: u64 = 80;
/// Replies whose results are never left out.
const KEPT_REPLIES: usize = 2;

/// How to make room in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relief {
    /// Leave out results before a step.
    Trim {
        /// The step.
        before: u32,
    },
    /// Summarise what is before a step.
    Summarize {
        /// The step.
        before: u32,
    },
    /// There is nothing left to take out.
    None,
}

/// Whether a request of so many tokens is too long for comfort.
pub(crate) const fn is_full(estimate: u64, context_tokens: u64) -> bool {
    estimate.saturating_mul(100) > context_tokens.saturating_mul(FULL_PERCENT)
}

/// The next way to make room that was not gone yet.
pub(crate) fn relief(steps: &[Step]) -> Relief {
    let replies: Vec<u32> = steps.iter().filter_map(work_reply).map(|(seq, _)| seq).collect();
    let (mut trimmed, mut summarized) = (0, 0);
    for step in steps {
        match &step.body {
            StepBody::Trimmed { before } => trimmed = *before,
            StepBody::Summary { before, .. } => summarized = *before,
            StepBody::Message { .. }
            | StepBody::Model { .. }
            | StepBody::Call { .. }
            | StepBody::Turn { .. } => {}
        }
    }
    let kept = replies.len().checked_sub(KEPT_REPLIES).and_then(|at| replies.get(at));
    if let Some(before) = kept.copied().filter(|before| *before > trimmed.max(summarized)) {
        let has_results = steps.iter().any(|step| {
            step.seq >= trimmed.max(summarized)
                && step.seq < before
                && matches!(step.body, StepBody::Call { .. })
        });
        if has_results {
            return Relief::Trim { before };
        }
    }
    match replies.last() {
        Some(before) if *before > summarized => Relief::Summarize { before: *before },
        Some(_) | None => Relief::None,
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
