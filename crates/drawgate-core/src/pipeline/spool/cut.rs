//! An output that is too large: the whole becomes an artifact, the caller gets its beginning, its end
//! and a link.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::Spooled;
use super::size::Size;
use crate::json::is_json_of;
use crate::model::{ArtifactRef, Caller, ToolOutput};
use crate::pipeline::Gateway;
use crate::pipeline::audit::Trace;
use crate::registry::{Entry, Limits};
use crate::store::NewArtifact;

/// Characters that are shown of the beginning, and as many of the end.
const SHOWN: usize = 2000;
/// Further members of a result are kept beside a cut output up to this size.
const MAX_REST: usize = 4 * 1024;
/// What clients expect of a tool with an output schema: a structured result, or an error.
const WHY_AN_ERROR: &str = "[the tool has done its work, but its result is larger than the limits of this tool \
     (`max_output_bytes`, `max_output_lines`). It is reported as an error because a shortened result would \
     not fit the tool's output schema.]\n\n";

impl Gateway {
    pub(super) async fn cut(
        &self,
        caller: &Caller,
        entry: &Entry,
        output: ToolOutput,
        size: &Size,
        trace: &Trace,
    ) -> Spooled {
        let (head, tail) = ends(&text(&output), &entry.limits);
        let artifact = self.keep(caller, entry, &output, size, trace.redact_keys()).await;
        let total = size.text + size.binary;
        let note = match &artifact {
            Some(artifact) => {
                let how = caller.surface.how_to_read(artifact);
                let how = how.map(|how| format!(": {how}")).unwrap_or_default();
                format!(
                    "[output of {total} bytes and {} lines cut here; the whole is in {}{how}]",
                    size.lines, artifact.uri
                )
            }
            None => format!(
                "[output of {total} bytes cut here; the rest is lost, since it could not be stored]"
            ),
        };
        let why = if entry.output.is_some() && !output.is_error { WHY_AN_ERROR } else { "" };
        let shown = format!("{why}{head}\n\n{note}\n\n{tail}");
        let mut content = vec![json!({ "type": "text", "text": shown.trim_end() })];
        content.extend(artifact.as_ref().map(|artifact| link(entry, artifact)));
        let rest = if size.rest > MAX_REST { Map::new() } else { output.rest };
        let is_error = output.is_error || entry.output.is_some();
        let output = ToolOutput { content, is_error, rest, ..ToolOutput::default() };
        Spooled { output, artifact }
    }

    async fn keep(
        &self,
        caller: &Caller,
        entry: &Entry,
        output: &ToolOutput,
        size: &Size,
        keys: &[String],
    ) -> Option<ArtifactRef> {
        let (bytes, mime_type) = self.artifact_bytes(output, size, keys);
        let artifact = NewArtifact {
            bytes,
            mime_type: mime_type.to_owned(),
            owner: caller.principal.clone(),
            tool_id: entry.id.to_string(),
            created_at: self.parts.clock.now_ms(),
        };
        let stored = self.parts.artifacts.put(artifact).await;
        let warn = |error| tracing::warn!(tool = %entry.id, %error, "an output could not be stored and was cut");
        stored.map_err(warn).ok()
    }

    /// Text as text; anything else as the JSON of the result. Redacted, since it is kept.
    fn artifact_bytes(
        &self,
        output: &ToolOutput,
        size: &Size,
        keys: &[String],
    ) -> (Vec<u8>, &'static str) {
        let redactor = self.parts.redactor.load();
        let only_text = output.content.iter().all(|block| text_of(block).is_some());
        let says_more = output.structured.as_ref().is_some_and(|value| !repeats(value, output));
        if only_text && !says_more && size.rest <= MAX_REST {
            let text = redactor.redact_text_with(&text(output), keys).into_owned();
            return (text.into_bytes(), "text/plain");
        }
        let mut whole =
            json!({ "content": output.content, "structuredContent": output.structured });
        if let Value::Object(whole) = &mut whole {
            whole.extend(output.rest.clone());
        }
        let redacted = redactor.redact(&whole, keys);
        (serde_json::to_vec(&*redacted).unwrap_or_default(), "application/json")
    }
}

/// Whether a structured result has nothing that the one text block does not have: it is the only string
/// of an object, as typed SDKs wrap plain text, or the JSON in the text.
pub(super) fn repeats(structured: &Value, output: &ToolOutput) -> bool {
    let [block] = output.content.as_slice() else { return false };
    let Some(text) = text_of(block) else { return false };
    let wrapped = structured.as_object().filter(|map| map.len() == 1);
    wrapped.and_then(|map| map.values().next()?.as_str()) == Some(text)
        || is_json_of(text, structured)
}

fn text_of(block: &Value) -> Option<&str> {
    (block.get("type").and_then(Value::as_str) == Some("text"))
        .then(|| block.get("text")?.as_str())?
}

/// What there is to read: the text blocks, or the structured result of a tool that has none.
fn text(output: &ToolOutput) -> Cow<'_, str> {
    let texts: Vec<&str> = output.content.iter().filter_map(text_of).collect();
    match (texts.as_slice(), &output.structured) {
        ([], Some(structured)) => structured.to_string().into(),
        ([only], _) => (*only).into(),
        (texts, _) => texts.join("\n").into(),
    }
}

/// The beginning and the end of a text, together within the caps of the tool.
fn ends(text: &str, limits: &Limits) -> (String, String) {
    let head: String = within(text.chars(), limits).collect();
    let rest = text.get(head.len()..).unwrap_or_default();
    let tail: Vec<char> = within(rest.chars().rev(), limits).collect();
    (head, tail.into_iter().rev().collect())
}

/// The first characters, within half of the caps.
fn within(characters: impl Iterator<Item = char>, limits: &Limits) -> impl Iterator<Item = char> {
    let (max_bytes, max_lines) = (limits.max_output_bytes / 2, limits.max_output_lines / 2);
    let (mut bytes, mut lines) = (0, 0);
    characters.take(SHOWN).take_while(move |c| {
        bytes += c.len_utf8();
        lines += usize::from(*c == '\n');
        bytes <= max_bytes && lines <= max_lines
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The most memory that this process has had, in MiB.
    fn peak() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }

    #[test]
    fn a_text_of_many_values_is_compared_without_building_them() {
        let output = ToolOutput::text(format!("[{}0]", "0,".repeat(7 << 20)));
        let before = peak();
        assert!(!repeats(&json!([0, 0, 1]), &output));
        assert!(!repeats(&json!({ "a": 1 }), &output));
        assert!(peak() < before + 64, "{before} MiB, then {} MiB", peak());
        assert!(repeats(&json!([0, 1]), &ToolOutput::text("[ 0, 1 ]")));
    }
}
