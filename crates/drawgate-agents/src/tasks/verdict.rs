//! What becomes of a result by what its reviewers said, and the texts in which that is told.

use super::record::{Said, TaskRecord, TaskState};

/// Bytes that are kept of what the reviewers say about one result.
const MAX_FEEDBACK: usize = 16 * 1024;

/// What the reviewers said together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing against it.
    Accepted,
    /// Not everyone could say.
    Unreviewed(String),
    /// At least one rejected it.
    Rejected(String),
}

/// What the reviewers of this iteration said together: any rejection rejects.
pub(crate) fn verdict(task: &TaskRecord) -> Verdict {
    let (mut rejections, mut failures) = (Vec::new(), Vec::new());
    for (plugin, said) in task.reviews() {
        match said {
            Said::Nothing | Said::Accepted => {}
            Said::Rejected { feedback } => rejections.push(format!("{plugin}: {feedback}")),
            Said::Failed { reason } => failures.push(format!("{plugin}: {reason}")),
        }
    }
    if !rejections.is_empty() {
        Verdict::Rejected(clipped(&rejections.join("\n\n"), MAX_FEEDBACK))
    } else if failures.is_empty() {
        Verdict::Accepted
    } else {
        Verdict::Unreviewed(clipped(&failures.join("\n"), MAX_FEEDBACK))
    }
}

/// What the next run is told.
pub(crate) fn next_prompt(feedback: &str) -> String {
    format!(
        "Your result was reviewed and rejected. The reviewers say:\n\n{feedback}\n\nDo the task again with \
        this in mind, and answer with the whole new result."
    )
}

/// The end of a task, as the one that delegated it reads it.
pub(crate) fn describe(task: &TaskRecord) -> String {
    let feedback = task.feedback.as_deref().unwrap_or_default();
    let result = task.result.as_deref().unwrap_or_default();
    let head = match task.state {
        TaskState::Complete => "complete".to_owned(),
        TaskState::Unreviewed => {
            format!("unreviewed, because a reviewer did not answer: {feedback}")
        }
        TaskState::Rejected => {
            format!("rejected after {} iterations: {feedback}", task.iteration)
        }
        TaskState::Failed => format!("failed: {feedback}"),
        TaskState::Working | TaskState::Reviewing => task.state.as_str().to_owned(),
    };
    format!("[task `{}`: {head}]\n{result}", task.id).trim_end().to_owned()
}

/// The beginning of a text, up to so many bytes.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
