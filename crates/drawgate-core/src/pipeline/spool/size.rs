//! How large an output is, as a reader sees it.

use serde_json::Value;

use crate::model::ToolOutput;
use crate::registry::Limits;

/// Images and other binary blocks are not read by a model as text; they may be this large.
const MAX_BINARY: usize = 8 * 1024 * 1024;
/// Room for the JSON around a short text, so that the caps are about the text itself.
const ENVELOPE: usize = 64;

/// How large an output is. The protocol has a tool repeat its structured result as text, and clients show
/// a model one of the two, so that the larger counts and not both.
#[derive(Default)]
pub(super) struct Size {
    pub(super) text: usize,
    pub(super) lines: usize,
    pub(super) binary: usize,
    /// The part of `text` that is in the further members.
    pub(super) rest: usize,
}

impl Size {
    pub(super) fn of(output: &ToolOutput) -> Self {
        let mut content = Self::default();
        for block in &output.content {
            content.add_block(block);
        }
        let mut structured = Self::default();
        if let Some(value) = &output.structured {
            structured.add(value);
            let binaries: Vec<&str> = output.content.iter().filter_map(binary_of).collect();
            structured.text = structured.text.saturating_sub(repeated(value, &binaries));
        }
        let mut rest = Self::default();
        for (key, value) in &output.rest {
            rest.text += key.len();
            rest.add(value);
        }
        Self {
            text: content.text.max(structured.text) + rest.text,
            lines: content.lines.max(structured.lines).max(rest.lines),
            binary: content.binary,
            rest: rest.text,
        }
    }

    fn add_block(&mut self, block: &Value) {
        let binary = binary_of(block).map_or(0, str::len);
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

    pub(super) fn fits(&self, limits: &Limits) -> bool {
        self.text <= limits.max_output_bytes.saturating_add(ENVELOPE)
            && self.lines <= limits.max_output_lines
            && self.binary <= MAX_BINARY.max(limits.max_output_bytes)
    }
}

/// Only what is defined to be binary counts as such; text does not become so by its key.
fn binary_of(block: &Value) -> Option<&str> {
    let binary = match block.get("type")?.as_str()? {
        "image" | "audio" => block.get("data"),
        "resource" => block.get("resource").and_then(|resource| resource.get("blob")),
        _ => None,
    };
    binary?.as_str()
}

/// Bytes of a structured result that are binary blocks once more.
fn repeated(value: &Value, binaries: &[&str]) -> usize {
    match value {
        Value::String(text) if binaries.contains(&text.as_str()) => text.len(),
        Value::Array(list) => list.iter().map(|item| repeated(item, binaries)).sum(),
        Value::Object(map) => map.values().map(|item| repeated(item, binaries)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}
