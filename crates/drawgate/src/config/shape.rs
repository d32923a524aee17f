//! Checks a file against the JSON Schema: unknown and missing keys, wrong types, unknown words,
//! numbers out of bounds. All at once, and each with a suggestion.
//!
//! What is wrong is removed from the value, so that the rest can still be read and checked for
//! meaning. Only the part of JSON Schema that our own schema uses is understood.

use serde_json::{Map, Value};

use super::formats::check_format;
use super::problem::Problem;
use super::tree::{Tree, child, element};
use drawgate_sources::suggest::nearest;

/// Finds every problem of form and removes the values that have one.
pub(super) fn check(schema: &Value, tree: &mut Tree) -> Vec<Problem> {
    let mut value = std::mem::take(&mut tree.value);
    let mut walk = Walk { root: schema, tree, problems: Vec::new() };
    walk.keep(schema, &mut value, "");
    let problems = walk.problems;
    tree.value = value;
    problems
}

struct Walk<'a> {
    root: &'a Value,
    tree: &'a Tree,
    problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    /// Whether the value may stay.
    fn keep(&mut self, schema: &'a Value, value: &mut Value, path: &str) -> bool {
        let schema = self.resolve(schema);
        if let Some(words) = words(schema) {
            return self.keep_word(&words, value, path);
        }
        match (schema.get("type").and_then(Value::as_str), value) {
            (None, _) | (Some("boolean"), Value::Bool(_)) => true,
            (Some("object"), Value::Object(map)) => self.keep_table(schema, map, path),
            (Some("array"), Value::Array(items)) => self.keep_array(schema, items, path),
            (Some("string"), Value::String(text)) => self.keep_text(schema, text, path),
            (Some("integer"), Value::Number(number)) if number.is_i64() => {
                self.keep_number(schema, number.as_i64().unwrap_or_default(), path)
            }
            (Some(expected), value) => self.wrong_type(expected, value, path),
        }
    }

    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let wrapped = schema.get("allOf").and_then(|all| all.get(0));
        if let Some(inner) = wrapped {
            return self.resolve(inner);
        }
        let target = schema.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|target| self.root.pointer(target.strip_prefix('#')?));
        target.map_or(schema, |target| self.resolve(target))
    }

    fn keep_table(&mut self, schema: &'a Value, map: &mut Map<String, Value>, path: &str) -> bool {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let name_format = schema.pointer("/propertyNames/format").and_then(Value::as_str);
        map.retain(|key, value| {
            let path = child(path, key);
            match (known.and_then(|known| known.get(key)), others) {
                (Some(schema), _) => self.keep(schema, value, &path),
                (None, Some(Value::Bool(false))) => self.unknown_key(known, key, value, &path),
                (None, Some(schema)) => {
                    self.keep_name(name_format, key, &path) && self.keep(schema, value, &path)
                }
                (None, None) => true,
            }
        });
        self.missing_keys(schema, map, path)
    }

    fn keep_array(&mut self, schema: &'a Value, items: &mut Vec<Value>, path: &str) -> bool {
        let mut index = 0;
        items.retain_mut(|item| {
            let path = element(path, index);
            index += 1;
            schema.get("items").is_none_or(|schema| self.keep(schema, item, &path))
        });
        true
    }

    fn keep_text(&mut self, schema: &Value, text: &str, path: &str) -> bool {
        let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
        match check_format(format, text) {
            Ok(()) => true,
            Err(message) => self.at_value(Problem::error(path, message)),
        }
    }

    fn keep_name(&mut self, format: Option<&str>, key: &str, path: &str) -> bool {
        match check_format(format.unwrap_or_default(), key) {
            Ok(()) => true,
            Err(message) => self.at_key(Problem::error(path, message)),
        }
    }

    fn keep_number(&mut self, schema: &Value, number: i64, path: &str) -> bool {
        let bound = |name| schema.get(name).and_then(Value::as_i64);
        let (low, high) = (bound("minimum"), bound("maximum"));
        if low.is_none_or(|low| number >= low) && high.is_none_or(|high| number <= high) {
            return true;
        }
        let range = match (low, high) {
            (Some(low), Some(high)) => format!("use {low} to {high}"),
            (Some(low), None) => format!("use {low} or more"),
            (None, _) => format!("use at most {}", high.unwrap_or(i64::MAX)),
        };
        let message = format!("`{}` can't be {number}", last_part(path));
        self.at_value(Problem::error(path, message).hint(range))
    }

    fn keep_word(&mut self, words: &[&str], value: &Value, path: &str) -> bool {
        let Value::String(word) = value else {
            return self.wrong_type("string", value, path);
        };
        if words.contains(&word.as_str()) {
            return true;
        }
        let message = format!("unknown {} `{}`", last_part(path), word.escape_debug());
        let hint = match nearest(word, words.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("use {}", list(words, "or")),
        };
        self.at_value(Problem::error(path, message).hint(hint))
    }

    fn unknown_key(
        &mut self,
        known: Option<&Map<String, Value>>,
        key: &str,
        value: &Value,
        path: &str,
    ) -> bool {
        let table = path.strip_suffix(&child("", key)).unwrap_or_default().trim_end_matches('.');
        let place = if table.is_empty() { "the file".into() } else { format!("[{table}]") };
        let names: Vec<&str> = known.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let hint = match nearest(key, names.iter().copied()) {
            // `[server]` is the endpoint; the plural is so near that it deserves its own word.
            _ if table == "server" && value.is_object() => {
                format!("did you mean [{}]?", child("servers", key))
            }
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known keys are {}", list(&names, "and")),
        };
        let message = format!("unknown key `{}` in {place}", key.escape_debug());
        self.at_key(Problem::error(path, message).hint(hint))
    }

    fn missing_keys(&mut self, schema: &Value, map: &Map<String, Value>, path: &str) -> bool {
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<&str> = required.filter(|key| !map.contains_key(*key)).collect();
        for key in &missing {
            // A key that was there and wrong has been reported and removed.
            if !self.problems.iter().any(|problem| problem.key == child(path, key)) {
                let message = format!("`{key}` is missing in [{path}]");
                self.at_key(Problem::error(path, message).hint("add it, or remove the table"));
            }
        }
        missing.is_empty()
    }

    fn wrong_type(&mut self, expected: &str, value: &Value, path: &str) -> bool {
        let (expected, found) = (type_name(expected), found_name(value));
        let message = format!("`{}` must be {expected}, not {found}", last_part(path));
        let hint = match (expected, value) {
            ("a whole number", Value::String(text)) if text.parse::<i64>().is_ok() => {
                Some(format!("write {text} without quotes"))
            }
            ("an array", Value::String(_)) => Some("put it in `[` and `]`".to_owned()),
            ("true or false", Value::String(text)) if text == "true" || text == "false" => {
                Some(format!("write {text} without quotes"))
            }
            _ => None,
        };
        let mut problem = Problem::error(path, message);
        problem.hint = hint;
        self.at_value(problem)
    }

    fn at_key(&mut self, mut problem: Problem) -> bool {
        problem.location = self.tree.places.of_key(&problem.key);
        self.problems.push(problem);
        false
    }

    fn at_value(&mut self, mut problem: Problem) -> bool {
        problem.location = self.tree.places.of_value(&problem.key);
        self.problems.push(problem);
        false
    }
}

/// The words that an enumeration allows.
fn words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(Value::Array(words)) = schema.get("enum") {
        return Some(words.iter().filter_map(Value::as_str).collect());
    }
    let variants = schema.get("oneOf")?.as_array()?;
    let words = variants.iter().flat_map(|variant| match variant.get("enum") {
        Some(Value::Array(words)) => words.iter().collect(),
        _ => variant.get("const").into_iter().collect::<Vec<_>>(),
    });
    Some(words.filter_map(Value::as_str).collect())
}

fn last_part(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
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
        "object" => "a table",
        "array" => "an array",
        "boolean" => "true or false",
        "integer" => "a whole number",
        _ => "a string",
    }
}

fn found_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "a number beyond 64 bits",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "a table",
    }
}
