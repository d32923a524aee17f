//! Checks a document that people write against its JSON Schema: unknown and missing members, wrong
//! types, unknown words, numbers out of bounds. All at once, and each with a suggestion.
//!
//! What is wrong is removed, so that the rest can still be read and checked for meaning. Only the part
//! of JSON Schema that our own schemas use is understood; how a document is spoken of, its [`Voice`]
//! says.

use serde_json::{Map, Value};

use crate::suggest::nearest;

/// How a kind of document is spoken of.
pub trait Voice {
    /// What an object is called.
    const OBJECT: &'static str;
    /// What its members are called.
    const MEMBERS: &'static str;
    /// What a null is called, and what to do about it.
    const NULL: (&'static str, Option<&'static str>);
    /// What becomes of elements that are wrong.
    const ELEMENTS: Elements;

    /// The path of a member.
    fn member(&self, path: &str, key: &str) -> String;

    /// The path of an element.
    fn element(&self, path: &str, index: usize) -> String;

    /// A stranger's word, fit for a message.
    fn shown(&self, word: &str) -> String;

    /// An unknown member, in words; and a better hint than a list of names, if there is one.
    fn unknown(&self, parent: &str, key: &str, value: &Value) -> (String, Option<String>);

    /// A missing member, in words, with a hint. `what` is its description.
    fn missing(&self, parent: &str, key: &str, what: Option<&str>) -> Found;

    /// The word that another one stands for, where that is known.
    fn meant(&self, _word: &str, _words: &[&str]) -> Option<&'static str> {
        None
    }

    /// Whether a text fits one of the document's own formats.
    fn format(&self, _format: &str, _text: &str) -> Result<(), String> {
        Ok(())
    }
}

/// What becomes of elements of arrays that are wrong, and of objects that lack a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elements {
    /// Objects stay, since their places matter; an array of anything else goes as a whole.
    Stay,
    /// They are removed.
    Leave,
}

/// Where exactly something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// At the key.
    Key,
    /// At its value.
    Value,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The path of it.
    pub path: String,
    /// Where there.
    pub spot: Spot,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Finds every problem of form below a path, and removes the values that have one.
pub fn check<V: Voice>(schema: &Value, voice: &V, value: &mut Value, path: &str) -> Vec<Found> {
    let mut walk = Walk { root: schema, voice, found: Vec::new() };
    walk.keep(schema, value, path);
    walk.found
}

/// Names in backticks, as a sentence lists them.
#[must_use]
pub fn list(names: &[&str], last_word: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} {last_word} {last}", most.join(", ")),
    }
}

struct Walk<'a, V> {
    root: &'a Value,
    voice: &'a V,
    found: Vec<Found>,
}

impl<'a, V: Voice> Walk<'a, V> {
    /// Whether the value may stay.
    fn keep(&mut self, schema: &'a Value, value: &mut Value, path: &str) -> bool {
        let schema = self.resolve(schema);
        if let Some(words) = words(schema) {
            return self.keep_word(&words, value, path);
        }
        match (schema.get("type").and_then(Value::as_str), value) {
            (None, _) | (Some("boolean"), Value::Bool(_)) | (Some("number"), Value::Number(_)) => {
                true
            }
            (Some("object"), Value::Object(map)) => self.keep_object(schema, map, path),
            (Some("array"), Value::Array(items)) => self.keep_array(schema, items, path),
            (Some("string"), Value::String(text)) => {
                self.keep_text(format_of(Some(schema)), text, path, Spot::Value)
            }
            (Some("integer"), Value::Number(number)) if number.is_i64() => {
                self.keep_number(schema, number.as_i64().unwrap_or_default(), path)
            }
            (Some(expected), value) => self.wrong_type(expected, value, path),
        }
    }

    fn resolve(&self, schema: &'a Value) -> &'a Value {
        // Beside a type it holds conditions, which are checked with the meaning.
        let wrapped = schema.get("allOf").filter(|_| schema.get("type").is_none());
        if let Some(inner) = wrapped.and_then(|all| all.get(0)) {
            return self.resolve(inner);
        }
        let target = schema.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|target| self.root.pointer(target.strip_prefix('#')?));
        target.map_or(schema, |target| self.resolve(target))
    }

    fn keep_object(&mut self, schema: &'a Value, map: &mut Map<String, Value>, path: &str) -> bool {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let names = format_of(schema.get("propertyNames"));
        self.missing(schema, map, path);
        map.retain(|key, value| {
            let inner = self.voice.member(path, key);
            match (known.and_then(|known| known.get(key)), others) {
                (Some(schema), _) => self.keep(schema, value, &inner),
                (None, Some(Value::Bool(false))) => self.unknown(known, path, key, value),
                (None, Some(schema)) => {
                    self.keep_text(names, key, &inner, Spot::Key)
                        && self.keep(schema, value, &inner)
                }
                (None, None) => true,
            }
        });
        V::ELEMENTS == Elements::Stay || required(schema).all(|key| map.contains_key(key))
    }

    fn keep_array(&mut self, schema: &'a Value, items: &mut Vec<Value>, path: &str) -> bool {
        let Some(schema) = schema.get("items") else { return true };
        let (mut index, mut all) = (0, true);
        items.retain_mut(|item| {
            let fits = self.keep(schema, item, &self.voice.element(path, index));
            index += 1;
            all &= fits;
            fits || V::ELEMENTS == Elements::Stay
        });
        let is_object = || self.resolve(schema).get("type").is_some_and(|kind| kind == "object");
        all || V::ELEMENTS == Elements::Leave || is_object()
    }

    fn keep_text(&mut self, format: &str, text: &str, path: &str, spot: Spot) -> bool {
        match self.voice.format(format, text) {
            Ok(()) => true,
            Err(message) => self.add(path, spot, message, None),
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
        self.add(path, Spot::Value, message, Some(range))
    }

    fn keep_word(&mut self, words: &[&str], value: &Value, path: &str) -> bool {
        let Value::String(word) = value else {
            return self.wrong_type("string", value, path);
        };
        if words.contains(&word.as_str()) {
            return true;
        }
        let message = format!("unknown {} `{}`", last_part(path), self.voice.shown(word));
        let meant = self.voice.meant(word, words);
        let hint = match (meant, nearest(word, words.iter().copied())) {
            (Some(meant), _) => format!("use `{meant}`"),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => format!("use {}", list(words, "or")),
        };
        self.add(path, Spot::Value, message, Some(hint))
    }

    fn unknown(
        &mut self,
        known: Option<&Map<String, Value>>,
        parent: &str,
        key: &str,
        value: &Value,
    ) -> bool {
        let names: Vec<&str> = known.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let (message, better) = self.voice.unknown(parent, key, value);
        let hint = better.unwrap_or_else(|| match nearest(key, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known {} are {}", V::MEMBERS, list(&names, "and")),
        });
        self.add(&self.voice.member(parent, key), Spot::Key, message, Some(hint))
    }

    fn missing(&mut self, schema: &Value, map: &Map<String, Value>, path: &str) {
        for key in required(schema).filter(|key| !map.contains_key(*key)) {
            let what = schema.pointer(&format!("/properties/{key}/description"));
            self.found.push(self.voice.missing(path, key, what.and_then(Value::as_str)));
        }
    }

    fn wrong_type(&mut self, expected: &str, value: &Value, path: &str) -> bool {
        let expected = match expected {
            "object" => V::OBJECT,
            "array" => "an array",
            "boolean" => "true or false",
            "integer" => "a whole number",
            "number" => "a number",
            _ => "a string",
        };
        let message =
            format!("`{}` must be {expected}, not {}", last_part(path), found_name::<V>(value));
        let hint = match (expected, value) {
            ("a whole number", Value::String(text)) if text.parse::<i64>().is_ok() => {
                Some(format!("write {text} without quotes"))
            }
            ("an array", Value::String(_)) => Some("put it in `[` and `]`".to_owned()),
            ("true or false", Value::String(text)) if text == "true" || text == "false" => {
                Some(format!("write {text} without quotes"))
            }
            (_, Value::Null) => V::NULL.1.map(str::to_owned),
            _ => None,
        };
        self.add(path, Spot::Value, message, hint)
    }

    fn add(&mut self, path: &str, spot: Spot, message: String, hint: Option<String>) -> bool {
        self.found.push(Found { path: path.to_owned(), spot, message, hint });
        false
    }
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    let required = schema.get("required").and_then(Value::as_array);
    required.into_iter().flatten().filter_map(Value::as_str)
}

fn format_of(schema: Option<&Value>) -> &str {
    schema.and_then(|schema| schema.get("format")).and_then(Value::as_str).unwrap_or_default()
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
fn last_part(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn found_name<V: Voice>(value: &Value) -> &'static str {
    match value {
        Value::Null => V::NULL.0,
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => V::OBJECT,
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
