//! Spool: what comes back, within its caps. More becomes an artifact and a short text.
//!
//! A limit that gives up under stress is no limit: where the artifact can't be stored, the output is
//! cut all the same.

use serde_json::{Map, Value, json};

use super::audit::Trace;
use super::continuation::{Bound, Carried};
use super::execute::Executed;
use super::gateway::Gateway;
use super::{Refusal, questions, refuse};
use crate::model::{ArtifactRef, Caller, ErrorCode, InputRequired, Operation, ToolOutput};
use crate::registry::{Entry, Limits};
use crate::store::NewArtifact;

/// Characters of a spooled output that are shown.
const PREVIEW: usize = 2000;
/// Images and other binary blocks are not read by a model as text; they may be this large.
const MAX_BINARY: usize = 8 * 1024 * 1024;
/// Room for the JSON around a short text, so that the caps are about the text itself.
const ENVELOPE: usize = 64;
/// Further members of a result are kept beside a cut output up to this size.
const MAX_REST: usize = 4 * 1024;
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
    pub(super) async fn spool(
        &self,
        caller: &Caller,
        executed: Executed,
        trace: &mut Trace,
    ) -> Result<Spooled, Refusal> {
        let Executed { entry, mut output, approval, binding } = executed;
        if let Some(required) = output.input_required.take() {
            return self.interrupted(caller, &entry, *required, approval, &binding);
        }
        let size = Size::of(&output);
        self.mask(&mut output);
        if entry.operation != Operation::CallTool {
            return pass(&entry, output, &size, trace);
        }
        self.parts.registry.peek().show_links(entry.id.source(), &mut output.content);
        if let (Some(schema), false) = (&entry.output, output.is_error) {
            check_structured(&entry, schema, &output)?;
        }
        let heavy = size.text + size.binary > HEAVY;
        let output = if heavy { trace.output_heavy(output).await } else { trace.output(output) };
        if size.fits(&entry.limits) {
            return Ok(Spooled { output, artifact: None });
        }
        self.cut(caller, &entry, output, &size).await
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
    fn mask(&self, output: &mut ToolOutput) {
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

    async fn cut(
        &self,
        caller: &Caller,
        entry: &Entry,
        output: ToolOutput,
        size: &Size,
    ) -> Result<Spooled, Refusal> {
        let preview = preview(&output, &entry.limits);
        let (bytes, mime_type) = self.artifact_bytes(&output);
        let stored = self
            .parts
            .artifacts
            .put(NewArtifact {
                bytes,
                mime_type: mime_type.to_owned(),
                owner: caller.principal.clone(),
                tool_id: entry.id.to_string(),
                created_at: self.parts.clock.now_ms(),
            })
            .await;
        let total = size.text + size.binary;
        let (note, artifact) = match stored {
            Ok(artifact) => {
                let hash = &artifact.sha256;
                let note = format!(
                    "[output of {total} bytes and {} lines cut here; the whole is in {}: read it with `resources/read`, or `drawgate artifacts get {hash}`]",
                    size.lines, artifact.uri
                );
                (note, Some(artifact))
            }
            Err(error) => {
                tracing::warn!(tool = %entry.id, error = %error, "an output could not be stored and was cut");
                (
                    format!(
                        "[output of {total} bytes cut here; the rest is lost, since it could not be stored]"
                    ),
                    None,
                )
            }
        };
        let mut content = vec![json!({ "type": "text", "text": format!("{preview}\n\n{note}") })];
        content.extend(artifact.as_ref().map(|artifact| link(entry, artifact)));
        let rest = if size.rest > MAX_REST { Map::new() } else { output.rest };
        let output = ToolOutput { content, structured: None, rest, ..output };
        Ok(Spooled { output, artifact })
    }

    /// Text as text; anything else as the JSON of the result. Redacted, since it is kept.
    fn artifact_bytes(&self, output: &ToolOutput) -> (Vec<u8>, &'static str) {
        let redactor = self.parts.redactor.load();
        let small_rest = Size::of(output).rest <= MAX_REST;
        let only_text = output.structured.is_none()
            && output.content.iter().all(|block| text_of(block).is_some());
        if only_text && small_rest {
            let texts: Vec<&str> = output.content.iter().filter_map(text_of).collect();
            return (
                redactor.redact_text(&texts.join("\n")).into_owned().into_bytes(),
                "text/plain",
            );
        }
        let mut whole =
            json!({ "content": output.content, "structuredContent": output.structured });
        if let Value::Object(whole) = &mut whole {
            whole.extend(output.rest.clone());
        }
        let redacted = redactor.redact(&whole, &[]);
        (serde_json::to_vec(&*redacted).unwrap_or_default(), "application/json")
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

fn check_structured(
    entry: &Entry,
    schema: &crate::registry::CompiledSchema,
    output: &ToolOutput,
) -> Result<(), Refusal> {
    let Some(structured) = &output.structured else { return Ok(()) };
    schema.check(structured).map_err(|faults| {
        let list: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let message = format!(
            "`{}` returned what breaks its own output schema: {}",
            entry.id,
            list.join("; ")
        );
        refuse(ErrorCode::ValidationError, message).with_details(json!({ "faults": faults }))
    })
}

fn text_of(block: &Value) -> Option<&str> {
    (block.get("type").and_then(Value::as_str) == Some("text"))
        .then(|| block.get("text")?.as_str())?
}

/// The beginning of the text, within the caps of the tool.
fn preview(output: &ToolOutput, limits: &Limits) -> String {
    let text = output.content.iter().find_map(text_of).unwrap_or_default();
    let (mut bytes, mut lines) = (0, 0);
    let fits = |c: &char| {
        bytes += c.len_utf8();
        lines += usize::from(*c == '\n');
        bytes <= limits.max_output_bytes && lines <= limits.max_output_lines
    };
    text.chars().take(PREVIEW).take_while(fits).collect()
}

fn link(entry: &Entry, artifact: &ArtifactRef) -> Value {
    json!({
        "type": "resource_link",
        "uri": artifact.uri,
        "name": format!("output of {}", entry.wire),
        "mimeType": artifact.mime_type,
        "size": artifact.size,
    })
}

/// How large an output is.
#[derive(Default)]
struct Size {
    text: usize,
    lines: usize,
    binary: usize,
    /// The part of `text` that is in the further members.
    rest: usize,
}

impl Size {
    fn of(output: &ToolOutput) -> Self {
        let mut content = Self::default();
        for block in &output.content {
            content.add_block(block);
        }
        let mut structured = Self::default();
        if let Some(value) = &output.structured {
            structured.add(value);
        }
        let mut rest = Self::default();
        for (key, value) in &output.rest {
            rest.text += key.len();
            rest.add(value);
        }
        Self {
            text: content.text + structured.text + rest.text,
            // The structured result usually repeats the text, and its lines are not read twice.
            lines: content.lines.max(structured.lines).max(rest.lines),
            binary: content.binary,
            rest: rest.text,
        }
    }

    /// Only what MCP says is binary counts as such; text does not become so by its key.
    fn add_block(&mut self, block: &Value) {
        let binary = match block.get("type").and_then(Value::as_str) {
            Some("image" | "audio") => block.get("data"),
            Some("resource") => block.get("resource").and_then(|resource| resource.get("blob")),
            _ => None,
        };
        let binary = binary.and_then(Value::as_str).map_or(0, str::len);
        self.add(block);
        self.text = self.text.saturating_sub(binary);
        self.binary += binary;
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.text += text.len() + 2;
                self.lines += text.bytes().filter(|byte| *byte == b'\n').count();
            }
            Value::Array(list) => {
                self.text += list.len() + 2;
                for item in list {
                    self.add(item);
                }
            }
            Value::Object(map) => {
                self.text += map.len() + 2;
                for (key, item) in map {
                    self.text += key.len() + 3;
                    self.add(item);
                }
            }
            Value::Number(number) => self.text += number.to_string().len(),
            Value::Null | Value::Bool(_) => self.text += 5,
        }
    }

    fn fits(&self, limits: &Limits) -> bool {
        self.text <= limits.max_output_bytes.saturating_add(ENVELOPE)
            && self.lines <= limits.max_output_lines
            && self.binary <= MAX_BINARY.max(limits.max_output_bytes)
    }
}
