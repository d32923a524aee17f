//! Checks a manifest against its schema: unknown and missing members, wrong types, unknown words,
//! numbers out of bounds. All at once, and each with a suggestion.
//!
//! Members that are wrong are removed, so that the rest can still be read and checked for meaning.
//! Only the part of JSON Schema that our own schema uses is understood; patterns and lengths are
//! checked with the meaning, in better words.

use serde_json::{Map, Value};

use super::problem::{Problem, element, member};
use super::schema;
use crate::suggest::nearest;

/// Finds every problem of form and removes the members that have one.
pub(super) fn check(value: &mut Value) -> Vec<Problem> {
    let mut walk = Walk { root: schema::kept(), problems: Vec::new() };
    walk.keep(schema::kept(), value, "$");
    walk.problems
}

struct Walk {
    root: &'static Value,
    problems: Vec<Problem>,
}

impl Walk {
    /// Whether the value may stay.
    fn keep(&mut self, schema: &'static Value, value: &mut Value, path: &str) -> bool {
        let schema = self.resolve(schema);
        if let Some(words) = words(schema) {
            return self.keep_word(&words, value, path);
        }
        match (schema.get("type").and_then(Value::as_str), value) {
            (None, _) | (Some("boolean"), Value::Bool(_)) | (Some("string"), Value::String(_)) => {
                true
            }
            (Some("object"), Value::Object(map)) => self.keep_object(schema, map, path),
            (Some("array"), Value::Array(items)) => self.keep_array(schema, items, path),
            (Some("integer"), Value::Number(number)) if number.is_i64() => {
                self.keep_number(schema, number.as_i64().unwrap_or_default(), path)
            }
            (Some(expected), value) => self.wrong_type(expected, value, path),
        }
    }

    fn resolve(&self, schema: &'static Value) -> &'static Value {
        let target = schema.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|target| self.root.pointer(target.strip_prefix('#')?));
        target.unwrap_or(schema)
    }

    fn keep_object(
        &mut self,
        schema: &'static Value,
        map: &mut Map<String, Value>,
        path: &str,
    ) -> bool {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        self.missing(schema, map, path);
        map.retain(|key, value| {
            let path = member(path, key);
            match (known.and_then(|known| known.get(key)), others) {
                (None, Some(Value::Bool(false))) => self.unknown(known, key, &path),
                (Some(schema), _) | (None, Some(schema)) => self.keep(schema, value, &path),
                (None, None) => true,
            }
        });
        true
    }

    fn keep_array(&mut self, schema: &'static Value, items: &mut [Value], path: &str) -> bool {
        let Some(schema) = schema.get("items") else { return true };
        let mut all = true;
        for (index, item) in items.iter_mut().enumerate() {
            all &= self.keep(schema, item, &element(path, index));
        }
        // A list of words with a wrong one can't be read; connectors and tools are read one by one.
        all || self.resolve(schema).get("type").is_some_and(|kind| kind == "object")
    }

    fn keep_number(&mut self, schema: &Value, number: i64, path: &str) -> bool {
        let bound = |name| schema.get(name).and_then(Value::as_i64);
        let (low, high) = (bound("minimum").unwrap_or(0), bound("maximum").unwrap_or(i64::MAX));
        if (low..=high).contains(&number) {
            return true;
        }
        let message = format!("`{}` can't be {number}", name_of(path));
        self.add(path, message, Some(format!("use {low} to {high}")))
    }

    fn keep_word(&mut self, words: &[&str], value: &Value, path: &str) -> bool {
        let Value::String(word) = value else {
            return self.wrong_type("string", value, path);
        };
        if words.contains(&word.as_str()) {
            return true;
        }
        let message = format!("unknown {} `{}`", name_of(path), shown(word));
        let hint = match nearest(word, words.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("use {}", list(words, "or")),
        };
        self.add(path, message, Some(hint))
    }

    fn unknown(&mut self, known: Option<&Map<String, Value>>, key: &str, path: &str) -> bool {
        let names: Vec<&str> = known.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let hint = match nearest(key, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known members are {}", list(&names, "and")),
        };
        self.add(path, format!("unknown member `{}`", shown(key)), Some(hint))
    }

    fn missing(&mut self, schema: &Value, map: &Map<String, Value>, path: &str) {
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        for key in required.filter(|key| !map.contains_key(*key)) {
            let what = schema.pointer(&format!("/properties/{key}/description"));
            let what =
                what.and_then(Value::as_str).map(|text| format!("add it: {}", lowered(text)));
            self.add(&member(path, key), format!("`{key}` is missing"), what);
        }
    }

    fn wrong_type(&mut self, expected: &str, value: &Value, path: &str) -> bool {
        let (expected, found) = (type_name(expected), found_name(value));
        let hint = match (expected, value) {
            ("a whole number", Value::String(text)) if text.parse::<i64>().is_ok() => {
                Some(format!("write {text} without quotes"))
            }
            ("an array", Value::String(_)) => Some("put it in `[` and `]`".to_owned()),
            ("true or false", Value::String(text)) if text == "true" || text == "false" => {
                Some(format!("write {text} without quotes"))
            }
            (_, Value::Null) => Some("leave it out if there is nothing to say".to_owned()),
            _ => None,
        };
        self.add(path, format!("`{}` must be {expected}, not {found}", name_of(path)), hint)
    }

    fn add(&mut self, path: &str, message: String, hint: Option<String>) -> bool {
        self.problems.push(Problem { path: path.to_owned(), message, hint });
        false
    }
}

/// The words that an enumeration allows.
fn words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(Value::Array(words)) = schema.get("enum") {
        return Some(words.iter().filter_map(Value::as_str).collect());
    }
    if let Some(Value::String(word)) = schema.get("const") {
        return Some(vec![word]);
    }
    let variants = schema.get("oneOf")?.as_array()?;
    let words = variants.iter().flat_map(|variant| match variant.get("enum") {
        Some(Value::Array(words)) => words.iter().collect(),
        _ => variant.get("const").into_iter().collect::<Vec<_>>(),
    });
    Some(words.filter_map(Value::as_str).collect())
}

/// What a path ends with: `timeout_seconds`, `tools[2]`.
fn name_of(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// A stranger's word, short enough for a message.
fn shown(word: &str) -> String {
    drawgate_core::model::shown_name(word)
}

fn lowered(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_lowercase);
    first.chain(chars).collect()
}

/// Names in backticks, as a sentence lists them.
pub(super) fn list(names: &[&str], last_word: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} {last_word} {last}", most.join(", ")),
    }
}

fn type_name(schema_type: &str) -> &'static str {
    match schema_type {
        "object" => "an object",
        "array" => "an array",
        "boolean" => "true or false",
        "integer" => "a whole number",
        _ => "a string",
    }
}

fn found_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
