//! Spool: what comes back, within its caps. More becomes an artifact and a short text.
//!
//! A limit that gives up under stress is no limit: where the artifact can't be stored, the output is
//! cut all the same.

mod cut;
mod size;

use serde_json::{Value, json};

use self::size::Size;
use super::audit::Trace;
use super::continuation::{Bound, Carried};
use super::execute::Executed;
use super::gateway::Gateway;
use super::{Refusal, questions, refuse};
use crate::model::{
    ArtifactRef, Caller, ErrorCode, InputRequired, Operation, ToolError, ToolOutput, shape,
};
use crate::registry::Entry;

/// The largest resource or prompt that is passed on.
const MAX_PASSED: usize = 16 * 1024 * 1024;
/// Questions of one call at a time, and the bytes that they may have.
const MAX_QUESTIONS: usize = 16;
const MAX_QUESTION_BYTES: usize = 256 * 1024;
/// Outputs above this are redacted and hashed on a thread of their own.
const HEAVY: usize = 128 * 1024;

/// A call's output, ready to be answered.
pub(crate) struct Spooled {
    pub(super) output: ToolOutput,
    pub(super) artifact: Option<ArtifactRef>,
}

impl Spooled {
    /// Questions instead of an output.
    pub(super) fn question(required: InputRequired) -> Self {
        Self { output: ToolOutput::question(required), artifact: None }
    }
}

impl Gateway {
    /// Makes an output fit to be answered.
    pub(super) async fn spool(
        &self,
        caller: &Caller,
        executed: Executed,
        trace: &mut Trace,
    ) -> Result<Spooled, Refusal> {
        let Executed { entry, mut output, approval, binding, time: _ } = executed;
        if let Some(required) = output.input_required.take() {
            return self.interrupted(caller, &entry, *required, approval, &binding);
        }
        shape::fit_output(entry.operation, &mut output);
        self.mask(&mut output);
        let mut output = self.review(caller, &entry, output, trace).await?;
        let size = Size::of(&output);
        if entry.operation != Operation::CallTool {
            return pass(&entry, output, &size, trace);
        }
        self.parts.registry.peek().show_links(entry.id.source(), &mut output.content);
        if let Some(fault) = check_structured(&entry, &mut output) {
            trace.answer_is_at_fault(fault);
        }
        let heavy = size.text + size.binary > HEAVY;
        let output =
            if heavy { Box::pin(trace.output_heavy(output)).await } else { trace.output(output) };
        if size.fits(&entry.limits) {
            return Ok(Spooled { output, artifact: None });
        }
        Ok(Box::pin(self.cut(caller, &entry, output, &size, trace)).await)
    }

    /// A call that can't go on without answers: the caller gets the questions, and what it must bring
    /// back with the answers.
    fn interrupted(
        &self,
        caller: &Caller,
        entry: &Entry,
        mut required: InputRequired,
        approval: Option<String>,
        arguments: &str,
    ) -> Result<Spooled, Refusal> {
        questions::sign(&mut required.requests, entry.id.source());
        let mut requests = Value::Object(required.requests);
        self.parts.redactor.load().mask_known_in(&mut requests);
        let size = serde_json::to_string(&requests).map_or(usize::MAX, |text| text.len());
        let Value::Object(requests) = requests else { return Err(unfit_question()) };
        if requests.len() > MAX_QUESTIONS || size > MAX_QUESTION_BYTES {
            return Err(unfit_question());
        }
        let bound = Bound { principal: &caller.principal, entry, arguments };
        let carried = Carried::Source { inner: required.state, approval };
        let (nonce, now) = (self.parts.ids.unique(), self.parts.clock.now_ms());
        let state = self.continuations.seal(&bound, carried, nonce, now)?;
        Ok(Spooled::question(InputRequired { requests, state: Some(state) }))
    }

    /// No secret that the gateway knows leaves it, whatever a tool prints.
    pub(super) fn mask(&self, output: &mut ToolOutput) {
        let redactor = self.parts.redactor.load();
        if output.is_error {
            for block in &mut output.content {
                if let Some(Value::String(text)) = block.get_mut("text") {
                    *text = redactor.redact_text(text).into_owned();
                }
            }
        }
        if redactor.knows_any() {
            for block in &mut output.content {
                redactor.mask_known_in(block);
            }
            if let Some(structured) = &mut output.structured {
                redactor.mask_known_in(structured);
            }
            for (_, member) in &mut output.rest {
                redactor.mask_known_in(member);
            }
        }
    }
}

/// What is no tool's output is passed on whole or not at all.
fn pass(
    entry: &Entry,
    mut output: ToolOutput,
    size: &Size,
    trace: &mut Trace,
) -> Result<Spooled, Refusal> {
    let total = size.text + size.binary;
    if total > MAX_PASSED {
        let message = format!(
            "`{}` answered with {total} bytes; {MAX_PASSED} are passed on at most",
            entry.id
        );
        return Err(refuse(ErrorCode::ExecutionFailed, message));
    }
    // The members of such a result are hashed as the structured result of a tool would be.
    output.structured = Some(Value::Object(std::mem::take(&mut output.rest)));
    let mut output = trace.output(output);
    if let Some(Value::Object(rest)) = output.structured.take() {
        output.rest = rest;
    }
    Ok(Spooled { output, artifact: None })
}

fn unfit_question() -> Refusal {
    let message = format!(
        "the tool asks for more than {MAX_QUESTIONS} things or {MAX_QUESTION_BYTES} bytes at once"
    );
    refuse(ErrorCode::ExecutionFailed, message)
}

/// Compares a structured result with the tool's own output schema. One that breaks it stays readable as
/// text, marked, in an error of the tool: clients that validate results refuse anything else.
fn check_structured(entry: &Entry, output: &mut ToolOutput) -> Option<ToolError> {
    let structured = output.structured.as_ref()?;
    let faults = match &entry.output {
        Some(schema) => schema.check(structured).err(),
        None => structured.is_null().then(Vec::new),
    }?;
    // Many servers write `null` for a result that they do not have.
    let structured = output.structured.take().filter(|value| !value.is_null())?;
    if !cut::repeats(&structured, output) {
        output.content.push(json!({ "type": "text", "text": structured.to_string() }));
    }
    if output.is_error {
        return None;
    }
    output.is_error = true;
    let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let list = list.join("; ");
    let message = format!("`{}` returned what breaks its own output schema: {list}", entry.id);
    let mark = format!("[{message}. What it returned follows as text.]");
    output.content.insert(0, json!({ "type": "text", "text": mark }));
    Some(refuse(ErrorCode::ValidationError, message).with_details(json!({ "faults": faults })))
}
