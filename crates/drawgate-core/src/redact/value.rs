//! The walk through a JSON value. It answers `None` where nothing changes, so that an innocent
//! payload is never copied.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::MASK;
use super::args::{Argument, Arguments};
use super::keys::{Class, classify};
use super::known::Known;
use super::text::Scan;

/// Containers nested deeper than this are hidden unseen.
const MAX_DEPTH: usize = 64;

/// Deeper than any JSON that a parser accepts.
const MAX_KNOWN_DEPTH: usize = 256;

impl Scan<'_> {
    /// The redacted value, or `None` if it stays as it is.
    pub(super) fn value(&self, value: &Value, depth: usize) -> Option<Value> {
        match value {
            Value::Null | Value::Bool(_) => None,
            Value::Number(number) => self.number(number),
            Value::String(text) => owned(self.text(text)).map(Value::String),
            Value::Array(_) | Value::Object(_) if depth > MAX_DEPTH => Some(mask()),
            Value::Array(items) => self.array(items, depth).map(Value::Array),
            Value::Object(map) => self.map(map, depth).map(Value::Object),
        }
    }

    /// The redacted object, or `None` if it stays as it is.
    pub(super) fn map(&self, map: &Map<String, Value>, depth: usize) -> Option<Map<String, Value>> {
        let paired = map.len() > 1 && names_a_secret(map);
        let mut out: Option<Map<String, Value>> = None;
        for (at, (name, value)) in map.iter().enumerate() {
            let new_name = self.name(name);
            let new_value = if paired && is_value_name(name) {
                masked(value)
            } else {
                self.under(new_name.as_deref().unwrap_or(name), value, depth)
            };
            if out.is_none() && (new_name.is_some() || new_value.is_some()) {
                out = Some(map.iter().take(at).map(|(k, v)| (k.clone(), v.clone())).collect());
            }
            if let Some(out) = &mut out {
                out.insert(
                    new_name.unwrap_or_else(|| name.clone()),
                    new_value.unwrap_or_else(|| value.clone()),
                );
            }
        }
        out
    }

    /// Each item by itself, then the items as a command line: in this order a second pass over
    /// the result sees what this one saw.
    fn array(&self, items: &[Value], depth: usize) -> Option<Vec<Value>> {
        let alone = changed(items, |_, item| self.value(item, depth + 1));
        let shown = alone.as_deref().unwrap_or(items);
        let Some(hidden) = hidden_items(shown) else { return alone };
        let together = changed(shown, |at, item| match hidden.get(at) {
            Some(Argument::All) => masked(item),
            Some(Argument::From(from)) => mask_from(item, *from),
            Some(Argument::Keep) | None => None,
        });
        together.or(alone)
    }

    fn under(&self, name: &str, value: &Value, depth: usize) -> Option<Value> {
        match self.extra.classify(name) {
            Class::Counting if is_quantity(value, depth) => {
                self.value(value, depth + 1).and_then(|_| masked(value))
            }
            Class::Secret | Class::Header | Class::Counting => masked(value),
            Class::Weak if value.is_string() => masked(value),
            Class::Plain | Class::Weak => self.value(value, depth + 1),
        }
    }

    fn number(&self, number: &serde_json::Number) -> Option<Value> {
        if self.known.is_nothing() {
            return None;
        }
        owned(self.known.mask(&number.to_string())).map(Value::String)
    }
}

/// The items with the changes, or `None` if there are none.
fn changed(items: &[Value], change: impl Fn(usize, &Value) -> Option<Value>) -> Option<Vec<Value>> {
    let mut out: Option<Vec<Value>> = None;
    for (at, item) in items.iter().enumerate() {
        let new = change(at, item);
        if out.is_none() && new.is_some() {
            out = Some(items.iter().take(at).cloned().collect());
        }
        if let Some(out) = &mut out {
            out.push(new.unwrap_or_else(|| item.clone()));
        }
    }
    out
}

/// Masks known values in every string and name, in place.
pub(super) fn mask_known_in(known: &Known, value: &mut Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => {
            let new = owned(known.mask(&number.to_string()));
            new.map(|new| *value = Value::String(new)).is_some()
        }
        Value::String(text) => owned(known.mask(text)).map(|new| *text = new).is_some(),
        Value::Array(_) | Value::Object(_) if depth > MAX_KNOWN_DEPTH => {
            *value = mask();
            true
        }
        Value::Array(items) => {
            items.iter_mut().fold(false, |any, item| mask_known_in(known, item, depth + 1) | any)
        }
        Value::Object(map) => {
            let mut any = false;
            for item in map.values_mut() {
                any |= mask_known_in(known, item, depth + 1);
            }
            any | mask_known_names(known, map)
        }
    }
}

fn mask_known_names(known: &Known, map: &mut Map<String, Value>) -> bool {
    if map.keys().all(|name| matches!(known.mask(name), Cow::Borrowed(_))) {
        return false;
    }
    let old = std::mem::take(map);
    map.extend(old.into_iter().map(|(name, value)| (known.mask(&name).into_owned(), value)));
    true
}

/// A borrowed text is an unchanged one.
fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

fn mask() -> Value {
    Value::String(MASK.to_owned())
}

/// `null` and booleans hide nothing and say whether there was a secret at all.
fn masked(value: &Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(_) => None,
        Value::String(text) if text == MASK => None,
        Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => Some(mask()),
    }
}

fn mask_from(item: &Value, from: usize) -> Option<Value> {
    let kept = item.as_str()?.get(..from)?;
    let new = format!("{kept}{MASK}");
    (item.as_str() != Some(&new)).then_some(Value::String(new))
}

/// Digits that fit a count but no key.
const LONGEST_COUNT: usize = 9;

/// Whether the value holds nothing but numbers.
pub(super) fn is_quantity(value: &Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => {
            text.len() <= LONGEST_COUNT && text.bytes().all(|b| b.is_ascii_digit())
        }
        Value::Array(_) | Value::Object(_) if depth > MAX_DEPTH => false,
        Value::Array(items) => items
            .iter()
            .all(|item| !matches!(item, Value::String(_)) && is_quantity(item, depth + 1)),
        Value::Object(map) => map
            .values()
            .all(|item| !matches!(item, Value::String(_)) && is_quantity(item, depth + 1)),
    }
}

/// `{"name": "DB_PASSWORD", "value": …}` and its relatives.
fn names_a_secret(map: &Map<String, Value>) -> bool {
    map.iter().any(|(name, value)| is_name_name(name) && value.as_str().is_some_and(is_secret_name))
}

pub(super) fn is_name_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "name",
        "key",
        "header",
        "headername",
        "field",
        "fieldname",
        "variable",
        "var",
        "param",
        "parameter",
        "property",
        "attribute",
        "option",
        "flag",
        "envname",
        "k",
        "n",
        "id",
    ];
    is_one_of(name, NAMES)
}

pub(super) fn is_value_name(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "value",
        "val",
        "values",
        "content",
        "default",
        "data",
        "text",
        "headervalue",
        "fieldvalue",
        "stringvalue",
        "string",
        "v",
        "raw",
        "plaintext",
        "example",
    ];
    is_one_of(name, NAMES)
}

/// Compares without case and separators, without an allocation.
fn is_one_of(name: &str, names: &[&str]) -> bool {
    let letters = || name.bytes().filter(u8::is_ascii_alphanumeric).map(|b| b.to_ascii_lowercase());
    names.iter().any(|other| letters().eq(other.bytes()))
}

/// What to hide of each item, if the array is a command line, or a header and its value.
fn hidden_items(items: &[Value]) -> Option<Vec<Argument>> {
    if items.len() < 2 {
        return None;
    }
    let texts = || items.iter().filter_map(Value::as_str);
    if texts().any(|text| text.starts_with('-')) {
        let mut arguments = Arguments::argv();
        return Some(items.iter().map(|item| arguments.next(&shown(item))).collect());
    }
    if !texts().any(|text| is_header_name(text) || items.len() == 2) {
        return None;
    }
    let mut after_name = false;
    let mark = |item: &Value| {
        let text = item.as_str().unwrap_or_default();
        let secret = classify(text) != Class::Plain;
        let hide = after_name && !secret;
        after_name = is_header_name(text) || (items.len() == 2 && is_secret_name(text));
        if hide { Argument::All } else { Argument::Keep }
    };
    Some(items.iter().map(mark).collect())
}

fn shown(item: &Value) -> Cow<'_, str> {
    match item {
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(number) => Cow::Owned(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Cow::Borrowed(""),
    }
}

/// Whether the text is a name, and one that tells of a secret.
fn is_secret_name(text: &str) -> bool {
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    text.len() <= LONGEST_NAME
        && text.bytes().all(is_name)
        && matches!(classify(text), Class::Secret | Class::Header)
}

/// Longer texts are no names.
const LONGEST_NAME: usize = 96;

fn is_header_name(text: &str) -> bool {
    is_secret_name(text) && (text.contains('-') || classify(text) == Class::Header)
}
