//! What a run of a program does next, by its steps alone, so that a run that is taken up again after a
//! restart goes on in the same way.

use crate::runs::record::{Step, StepBody, TurnOutcome};
use crate::runs::session::GATEWAY;

/// What a program is told whose work was interrupted.
const INTERRUPTED: &str = "[message from gateway]\nThe gateway was restarted while you were at work. \
    Calls of tools that were under way may or may not have done their work: find out before you repeat \
    them. Go on where you stopped.";

/// What a program is told whose conversation is lost.
const LOST: &str = "[message from gateway]\nYou have worked on this before, and that conversation is lost. \
    Find out what is done already before you do it again.";

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// The program works.
    Work(Work),
    /// Nothing, unless a message comes: this is the answer.
    Conclude {
        /// The answer.
        text: String,
    },
    /// It failed, for this reason.
    Failed {
        /// The reason.
        message: String,
    },
}

/// What a program is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    /// Its own name for the conversation to go on with; a new one without.
    pub(crate) session: Option<String>,
    /// What it is told.
    pub(crate) prompt: String,
}

/// What comes next.
pub(crate) fn next(steps: &[Step]) -> Next {
    let turns: Vec<Turn<'_>> = steps.iter().filter_map(|step| Turn::of(step, steps)).collect();
    let Some(last) = turns.last() else {
        return Next::Work(Work { session: None, prompt: told(steps, 0) });
    };
    let session = || turns.iter().rev().find(|turn| turn.was_heard).and_then(|turn| turn.session);
    let more = told(steps, last.seq);
    match last.outcome {
        Some(TurnOutcome::Answered { text }) if more.is_empty() => {
            Next::Conclude { text: text.clone() }
        }
        Some(TurnOutcome::Failed { .. }) if is_lost(&turns) => {
            let prompt = format!("{}\n\n{LOST}{}", told(steps, 0), calls_made(steps));
            Next::Work(Work { session: None, prompt })
        }
        Some(TurnOutcome::Failed { message }) if more.is_empty() => {
            Next::Failed { message: message.clone() }
        }
        Some(TurnOutcome::Answered { .. } | TurnOutcome::Failed { .. }) => {
            Next::Work(Work { session: session().map(str::to_owned), prompt: more })
        }
        Some(TurnOutcome::Interrupted) | None => {
            let session = session().map(str::to_owned);
            // What it may not have read is told again: all of it, where there is no conversation.
            let heard = turns.iter().rev().find(|turn| turn.was_heard);
            let from = heard.map_or(0, |turn| turn.seq);
            let again = told(steps, from);
            let prompt = match (&session, again.is_empty()) {
                (None, _) => told(steps, 0),
                (Some(_), true) => INTERRUPTED.to_owned(),
                (Some(_), false) => format!("{INTERRUPTED}\n\n{again}"),
            };
            Next::Work(Work { session, prompt })
        }
    }
}

/// Whether a program could not go on with its conversation: it was killed before it had kept it.
fn is_lost(turns: &[Turn<'_>]) -> bool {
    let Some((last, before)) = turns.split_last() else { return false };
    let is_resumed =
        last.session.is_some() && before.iter().any(|turn| turn.session == last.session);
    is_resumed && !last.has_asked
}

/// The calls that were made in a conversation that is lost.
fn calls_made(steps: &[Step]) -> String {
    let calls = steps.iter().filter_map(|step| match &step.body {
        StepBody::Call { call, outcome } => {
            let error = outcome.as_ref().and_then(|outcome| outcome.error);
            let ended = error.map_or("ok", |code| code.as_str());
            Some(format!("\n- `{}`: {ended}", call.name))
        }
        StepBody::Message { .. }
        | StepBody::Model { .. }
        | StepBody::Turn { .. }
        | StepBody::Trimmed { .. }
        | StepBody::Summary { .. } => None,
    });
    let calls: String = calls.collect();
    if calls.is_empty() { calls } else { format!(" You have called:{calls}") }
}

/// A time at which the program worked.
struct Turn<'a> {
    seq: u32,
    session: Option<&'a str>,
    outcome: Option<&'a TurnOutcome>,
    has_asked: bool,
    /// Whether it has certainly read what it was told: it asked a model.
    was_heard: bool,
}

impl<'a> Turn<'a> {
    fn of(step: &'a Step, steps: &[Step]) -> Option<Self> {
        let StepBody::Turn { session, outcome } = &step.body else { return None };
        let until = |other: &&Step| !matches!(other.body, StepBody::Turn { .. });
        let during = steps.iter().filter(|other| other.seq > step.seq).take_while(until);
        let asked = during.into_iter().any(|other| matches!(other.body, StepBody::Model { .. }));
        let answered = matches!(outcome, Some(TurnOutcome::Answered { .. }));
        Some(Self {
            seq: step.seq,
            session: session.as_deref(),
            outcome: outcome.as_ref(),
            has_asked: asked,
            was_heard: session.is_some() && (asked || answered),
        })
    }
}

/// The messages since a step, as the program reads them.
fn told(steps: &[Step], since: u32) -> String {
    let texts = steps.iter().filter(|step| step.seq >= since).filter_map(|step| match &step.body {
        StepBody::Message { from: None, text } => Some(text.clone()),
        StepBody::Message { from: Some(from), text } if from == GATEWAY => Some(text.clone()),
        StepBody::Message { from: Some(from), text } => {
            Some(format!("[message from {from}]\n{text}"))
        }
        StepBody::Model { .. }
        | StepBody::Call { .. }
        | StepBody::Turn { .. }
        | StepBody::Trimmed { .. }
        | StepBody::Summary { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
#[path = "next_tests.rs"]
mod tests;
