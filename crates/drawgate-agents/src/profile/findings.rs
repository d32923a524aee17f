//! What is found while a profile is read: problems and warnings, each with its place in the file.

use std::collections::BTreeMap;

use drawgate_sources::suggest::nearest;
use serde_json::Value;

use super::Problem;

/// Where something is: a field, and the custom tool that it belongs to.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    field: String,
    tool: Option<String>,
}

impl Place {
    /// A member of this value.
    pub(super) fn key(&self, name: &str) -> Self {
        let field =
            if self.field.is_empty() { name.to_owned() } else { format!("{}.{name}", self.field) };
        Self { field, tool: self.tool.clone() }
    }

    /// An item of this list.
    pub(super) fn index(&self, index: usize) -> Self {
        Self { field: format!("{}[{index}]", self.field), tool: self.tool.clone() }
    }

    /// The same place, as a part of a custom tool.
    pub(super) fn of_tool(&self, name: &str) -> Self {
        Self { field: self.field.clone(), tool: Some(name.to_owned()) }
    }

    /// The field as text.
    pub(super) fn field(&self) -> &str {
        &self.field
    }
}

/// The lines on which values stand, by field.
#[derive(Debug, Default)]
pub(super) struct Lines(BTreeMap<String, u32>);

impl Lines {
    /// Notes the line of a place.
    pub(super) fn insert(&mut self, place: &Place, line: u32) {
        self.0.insert(place.field.clone(), line);
    }

    /// The line of a field, or of what surrounds it.
    fn of(&self, field: &str) -> Option<u32> {
        let mut field = field;
        loop {
            if let Some(line) = self.0.get(field) {
                return Some(*line);
            }
            field = field.rsplit_once(['.', '['])?.0;
        }
    }
}

/// Collects what is found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    lines: Lines,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

impl Findings {
    /// Findings in a file whose values stand on these lines.
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines, problems: Vec::new(), warnings: Vec::new() }
    }

    /// Something that keeps the profile from being used.
    pub(super) fn problem(&mut self, place: &Place, message: impl Into<String>) {
        let problem = self.at(place, message.into());
        self.problems.push(problem);
    }

    /// Something that has no effect.
    pub(super) fn warning(&mut self, place: &Place, message: impl Into<String>) {
        let warning = self.at(place, message.into());
        self.warnings.push(warning);
    }

    fn at(&self, place: &Place, message: String) -> Problem {
        let line = self.lines.of(&place.field);
        Problem { field: place.field.clone(), tool: place.tool.clone(), line, message }
    }

    /// A key that does not exist, with the one that is probably meant.
    pub(super) fn unknown_key(&mut self, place: &Place, key: &str, known: &[&str]) {
        let advice = match nearest(key, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("use {}", listed(known)),
        };
        self.problem(&place.key(key), format!("unknown field; {advice}"));
    }

    /// The text at a place.
    pub(super) fn text<'a>(&mut self, place: &Place, value: &'a Value) -> Option<&'a str> {
        let text = value.as_str().map(str::trim).filter(|text| !text.is_empty());
        if text.is_none() {
            let advice = match value {
                Value::String(_) | Value::Null => "must not be empty",
                Value::Bool(_) | Value::Number(_) => "must be text; put it in quotes",
                Value::Array(_) | Value::Object(_) => "must be text",
            };
            self.problem(place, advice);
        }
        text
    }

    /// The boolean at a place.
    pub(super) fn boolean(&mut self, place: &Place, value: &Value) -> Option<bool> {
        let found = value.as_bool();
        if found.is_none() {
            self.problem(place, "must be `true` or `false`");
        }
        found
    }

    /// The whole number of at least 1 at a place.
    pub(super) fn count(&mut self, place: &Place, value: &Value) -> Option<u64> {
        let found = value.as_u64().filter(|count| *count > 0);
        if found.is_none() {
            self.problem(place, "must be a whole number of at least 1");
        }
        found
    }

    /// The number above 0 at a place.
    pub(super) fn amount(&mut self, place: &Place, value: &Value) -> Option<f64> {
        let found = value.as_f64().filter(|amount| *amount > 0.0);
        if found.is_none() {
            self.problem(place, "must be a number above 0");
        }
        found
    }
}

/// Words for a sentence: `` `a`, `b` or `c` ``.
pub(super) fn listed(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}
