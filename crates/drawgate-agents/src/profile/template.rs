//! Prompts with `{{parameter}}` in them: filled in once, without logic.

use std::ops::Range;

use serde_json::{Map, Value};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// Puts arguments where the prompt names them. A text goes in as it is and any other value as JSON; what
/// has no argument stays; what an argument contains is not looked at.
#[must_use]
pub fn fill(prompt: &str, arguments: &Map<String, Value>) -> String {
    let mut filled = String::with_capacity(prompt.len());
    let mut end = 0;
    for Placeholder { name, range } in placeholders(prompt) {
        let Some(value) = arguments.get(name) else { continue };
        filled.push_str(prompt.get(end..range.start).unwrap_or_default());
        match value {
            Value::String(text) => filled.push_str(text),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => {
                filled.push_str(&value.to_string());
            }
        }
        end = range.end;
    }
    filled.push_str(prompt.get(end..).unwrap_or_default());
    filled
}

/// A place in a prompt where an argument goes.
pub(super) struct Placeholder<'a> {
    /// The parameter.
    pub(super) name: &'a str,
    range: Range<usize>,
}

/// All places in a prompt where arguments go, in their order.
pub(super) fn placeholders(prompt: &str) -> impl Iterator<Item = Placeholder<'_>> {
    let mut from = 0_usize;
    std::iter::from_fn(move || {
        loop {
            let rest = prompt.get(from..)?;
            let start = from.saturating_add(rest.find(OPEN)?);
            let inner = start.saturating_add(OPEN.len());
            let Some(length) = name_before_close(prompt.get(inner..)?) else {
                // `{{{name}}` names the parameter within its last two braces.
                from = start.saturating_add(1);
                continue;
            };
            let close = inner.saturating_add(length);
            from = close.saturating_add(CLOSE.len());
            let name = prompt.get(inner..close)?.trim();
            return Some(Placeholder { name, range: start..from });
        }
    })
}

/// The length of what stands before the closing braces, if it can be a parameter.
fn name_before_close(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !is_in_name(c) && c != ' ' && c != '\t')?;
    let (inside, rest) = text.split_at_checked(end)?;
    (rest.starts_with(CLOSE) && is_parameter(inside.trim())).then_some(end)
}

/// Whether a parameter can have this name.
pub(super) fn is_parameter(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.len() <= 64 && name.chars().all(is_in_name)
}

const fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
