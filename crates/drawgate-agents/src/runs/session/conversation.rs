//! From the steps of a run to the conversation that a model reads. Pure, so that a run that is taken up
//! again after a restart reads the same.

use crate::model::{Api, CallResult, Message, Part, Reply, Stop, ToolCall, Usage};
use crate::runs::record::{CallOutcome, ModelOutcome, Purpose, Step, StepBody, TurnOutcome};

/// What stands in the conversation for a result that was left out to save room.
const TRIMMED: &str = "[this result was left out to save room; call the tool again if you need it]";
/// What introduces a summary.
const SUMMARY: &str = "Summary of the work so far:";

/// The gateway's own notes are from this run, which is none.
pub(crate) const GATEWAY: &str = "gateway";

/// The conversation of a run, after that of earlier runs in its thread.
pub(crate) fn conversation(history: &[Message], steps: &[Step]) -> Vec<Message> {
    let trimmed = steps.iter().rev().find_map(|step| match &step.body {
        StepBody::Trimmed { before } => Some(*before),
        StepBody::Message { .. }
        | StepBody::Model { .. }
        | StepBody::Call { .. }
        | StepBody::Turn { .. }
        | StepBody::Summary { .. } => None,
    });
    let summary = steps.iter().rev().find_map(|step| match &step.body {
        StepBody::Summary { before, text } => Some((*before, text)),
        StepBody::Message { .. }
        | StepBody::Model { .. }
        | StepBody::Call { .. }
        | StepBody::Turn { .. }
        | StepBody::Trimmed { .. } => None,
    });
    let mut messages = Vec::new();
    let first = match summary {
        None => {
            messages.extend_from_slice(history);
            0
        }
        Some((before, text)) => {
            messages.extend(steps.first().and_then(spoken));
            messages.push(Message::User(format!("{SUMMARY}\n\n{text}")));
            before
        }
    };
    // A program shows its model the results of calls itself; what it came to is in its answers.
    let is_program = steps.iter().any(|step| matches!(step.body, StepBody::Turn { .. }));
    let mut results: Vec<CallResult> = Vec::new();
    for step in steps.iter().filter(|step| step.seq >= first) {
        if let StepBody::Call { call, outcome } = &step.body {
            if is_program {
                continue;
            }
            let is_trimmed = trimmed.is_some_and(|before| step.seq < before);
            results.extend(outcome.as_ref().map(|outcome| result(call, outcome, is_trimmed)));
        } else if let Some(message) = spoken(step) {
            flush(&mut messages, &mut results);
            messages.push(message);
        }
    }
    flush(&mut messages, &mut results);
    messages
}

fn flush(messages: &mut Vec<Message>, results: &mut Vec<CallResult>) {
    if !results.is_empty() {
        messages.push(Message::Results(std::mem::take(results)));
    }
}

/// The message that a step is, if it is one.
fn spoken(step: &Step) -> Option<Message> {
    match &step.body {
        StepBody::Message { from: None, text } => Some(Message::User(text.clone())),
        StepBody::Message { from: Some(from), text } => {
            Some(Message::User(format!("[message from {from}]\n{text}")))
        }
        StepBody::Model {
            purpose: Purpose::Work,
            outcome: Some(ModelOutcome::Reply { reply, .. }),
            ..
        } => Some(Message::Model(reply.clone())),
        StepBody::Turn { outcome: Some(TurnOutcome::Answered { text }), .. } => {
            Some(Message::Model(answer(text)))
        }
        StepBody::Model { .. }
        | StepBody::Call { .. }
        | StepBody::Turn { .. }
        | StepBody::Trimmed { .. }
        | StepBody::Summary { .. } => None,
    }
}

fn result(call: &ToolCall, outcome: &CallOutcome, is_trimmed: bool) -> CallResult {
    CallResult {
        id: call.id.clone(),
        name: call.name.clone(),
        text: if is_trimmed { TRIMMED.to_owned() } else { outcome.text.clone() },
        is_error: outcome.error.is_some(),
    }
}

/// The answer of a program, as a reply.
fn answer(text: &str) -> Reply {
    Reply {
        parts: vec![Part::Text(text.to_owned())],
        stop: Stop::End,
        usage: Usage::default(),
        api: Api::Anthropic,
        raw: serde_json::Value::Null,
    }
}

/// The last text that a model wrote; of a program, what it answered last.
pub(crate) fn last_text(steps: &[Step]) -> String {
    // Its requests come after the beginning of its work, which is where its answer is.
    let answered = steps.iter().rev().find_map(last_answer).filter(|text| !text.is_empty());
    let written = || steps.iter().rev().filter_map(written).find(|text| !text.is_empty());
    answered.or_else(written).unwrap_or_default()
}

/// The answer of a program, or nothing if its work had none.
fn last_answer(step: &Step) -> Option<String> {
    match &step.body {
        StepBody::Turn { outcome: Some(TurnOutcome::Answered { text }), .. } => Some(text.clone()),
        StepBody::Turn { .. } => Some(String::new()),
        StepBody::Model { .. }
        | StepBody::Message { .. }
        | StepBody::Call { .. }
        | StepBody::Trimmed { .. }
        | StepBody::Summary { .. } => None,
    }
}

/// What a model wrote in a step.
fn written(step: &Step) -> Option<String> {
    match &step.body {
        StepBody::Model {
            purpose: Purpose::Work | Purpose::Relayed,
            outcome: Some(ModelOutcome::Reply { reply, .. }),
            ..
        } => Some(reply.text()),
        StepBody::Model { .. }
        | StepBody::Message { .. }
        | StepBody::Call { .. }
        | StepBody::Turn { .. }
        | StepBody::Trimmed { .. }
        | StepBody::Summary { .. } => None,
    }
}

/// The reply of a step that is one of the agent's own requests.
pub(crate) fn work_reply(step: &Step) -> Option<(u32, &Reply)> {
    match &step.body {
        StepBody::Model {
            purpose: Purpose::Work,
            outcome: Some(ModelOutcome::Reply { reply, .. }),
            ..
        } => Some((step.seq, reply)),
        StepBody::Model { .. }
        | StepBody::Message { .. }
        | StepBody::Call { .. }
        | StepBody::Turn { .. }
        | StepBody::Trimmed { .. }
        | StepBody::Summary { .. } => None,
    }
}

/// What a run does next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next<'a> {
    /// Ask the model.
    Think,
    /// Make the calls of this reply.
    Call(&'a Reply),
    /// Perform the calls that have no outcome: their steps.
    Perform(Vec<u32>),
    /// Nothing, if this reply is what was asked for.
    Conclude(&'a Reply),
}

/// What a run does next, by its steps alone.
pub(crate) fn next(steps: &[Step]) -> Next<'_> {
    let Some((at, reply)) = steps.iter().rev().find_map(work_reply) else { return Next::Think };
    let after = || steps.iter().filter(|step| step.seq > at);
    let is_call = |step: &&Step| matches!(step.body, StepBody::Call { .. });
    let open: Vec<u32> =
        after().filter(is_call).filter(|step| step.is_open()).map(|step| step.seq).collect();
    if !open.is_empty() {
        return Next::Perform(open);
    }
    if reply.calls().next().is_some() {
        let made = after().any(|step| is_call(&step));
        return if made { Next::Think } else { Next::Call(reply) };
    }
    let answered = after().any(|step| matches!(step.body, StepBody::Message { .. }));
    if answered { Next::Think } else { Next::Conclude(reply) }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
pub(crate) mod tests;
