//! What the gate takes: bytes, depth, and the work of checking one value.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Converted;

/// The largest schema of a tool's arguments, as text: more is no help to a model.
const MAX_BYTES: usize = 64 * 1024;
/// Levels of JSON; the gate takes 64, and puts some around it.
const MAX_DEPTH: usize = 56;
/// Levels with references followed; the gate takes 400.
const MAX_PATH: usize = 300;
/// Parts with references followed; the gate takes 50,000.
const MAX_VISITS: u64 = 40_000;
/// The same where a schema refers to itself; the gate takes 10,000.
const MAX_VISITS_RECURSIVE: u64 = 8_000;

pub(super) fn fits(converted: &Converted) -> bool {
    let mut weigh = Weigh {
        definitions: &converted.definitions,
        known: HashMap::new(),
        path: 0,
        recursive: false,
    };
    let mut bytes = 0;
    let mut visits = 0_u64;
    for value in converted.properties.values().chain(converted.definitions.values()) {
        bytes += value.to_string().len();
        if bytes > MAX_BYTES || depth(value) > MAX_DEPTH {
            return false;
        }
    }
    for value in converted.properties.values() {
        match weigh.value(value) {
            Some(more) => visits = visits.saturating_add(more),
            None => return false,
        }
    }
    visits <= if weigh.recursive { MAX_VISITS_RECURSIVE } else { MAX_VISITS }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or_default(),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

struct Weigh<'a> {
    definitions: &'a Map<String, Value>,
    /// `None` while a definition is being weighed.
    known: HashMap<&'a str, Option<u64>>,
    path: usize,
    recursive: bool,
}

impl<'a> Weigh<'a> {
    /// `None` if it is too deep.
    fn value(&mut self, value: &'a Value) -> Option<u64> {
        if self.path > MAX_PATH {
            return None;
        }
        self.path += 1;
        let weight = match value {
            Value::Object(map) => self.object(map),
            Value::Array(list) => {
                list.iter().try_fold(1_u64, |sum, item| Some(sum.saturating_add(self.value(item)?)))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(1),
        };
        self.path -= 1;
        weight
    }

    fn object(&mut self, map: &'a Map<String, Value>) -> Option<u64> {
        map.iter().try_fold(1_u64, |sum, (key, value)| {
            let more = match value.as_str().filter(|_| key == "$ref") {
                Some(reference) => self.follow(reference)?,
                None => self.value(value)?,
            };
            Some(sum.saturating_add(more))
        })
    }

    fn follow(&mut self, reference: &'a str) -> Option<u64> {
        let name = reference.strip_prefix("#/$defs/").unwrap_or_default();
        match self.known.get(name) {
            Some(Some(weight)) => return Some(*weight),
            Some(None) => {
                self.recursive = true;
                return Some(1);
            }
            None => {}
        }
        let target = self.definitions.get(name)?;
        self.known.insert(name, None);
        let weight = self.value(target)?;
        self.known.insert(name, Some(weight));
        Some(weight)
    }
}
