//! What a schema would cost, found out before it is compiled.
//!
//! The walk knows where a schema may stand and where only names or data do, so that a property called
//! `enum` hides nothing. Each target of a reference is weighed once and remembered.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::schema::{MAX_DEPTH, SchemaError, cut};

/// How many levels the walk may go with references followed, so that it can't exhaust the stack.
const MAX_PATH: usize = 400;

/// Keywords that hold data, never schemas.
const DATA: [&str; 5] = ["enum", "const", "default", "examples", "example"];
/// Keywords that hold schemas by name, for parts of the value.
const NAMED_PARTS: [&str; 2] = ["properties", "patternProperties"];
/// Keywords that hold schemas by name, which apply only where they are referred to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Keywords that hold schemas by name, for the value itself.
const NAMED_IN_PLACE: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords whose schemas apply to the value itself.
const IN_PLACE: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];
/// Keywords that look at the value once more.
const UNEVALUATED: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];
/// Keywords that refer to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// What a schema costs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weight {
    /// Nodes that are visited for one value, with every reference followed.
    pub(super) visits: u64,
    /// The longest chain of schemas for one and the same value.
    pub(super) chain: usize,
}

/// What the walk found.
pub(super) struct SchemaCost<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, (String, &'a Value)>,
    /// What the target of a reference weighs; `None` while it is being weighed.
    weights: HashMap<&'a str, Option<Weight>>,
    /// References under way for the same value.
    in_place: Vec<&'a str>,
    /// Where the walk is, as a JSON pointer.
    place: String,
    path: usize,
    /// Schemas that refer to themselves for the same value.
    pub(super) loops: Vec<String>,
    /// Where an identifier would begin a document of its own.
    pub(super) ids: Vec<(String, &'static str)>,
    /// How many references lead back to where they came from.
    pub(super) returns: u32,
    /// The longest chain anywhere.
    pub(super) longest: usize,
}

impl<'a> SchemaCost<'a> {
    /// Walks the whole schema.
    pub(super) fn of(root: &'a Value) -> Result<(Weight, Self), SchemaError> {
        let mut cost = Self {
            root,
            anchors: HashMap::new(),
            weights: HashMap::new(),
            in_place: vec!["#"],
            place: String::new(),
            path: 0,
            loops: Vec::new(),
            ids: Vec::new(),
            returns: 0,
            longest: 0,
        };
        cost.find_anchors(root, 0)?;
        let weight = cost.schema(root)?;
        Ok((weight, cost))
    }

    /// Notes `$anchor` and `$dynamicAnchor`, and that nothing nests too deeply.
    fn find_anchors(&mut self, value: &'a Value, depth: usize) -> Result<(), SchemaError> {
        // Each level of a schema is two levels of JSON: the keyword and what it holds.
        if depth > MAX_DEPTH * 2 {
            return Err(SchemaError::TooDeep);
        }
        match value {
            Value::Object(map) => {
                for keyword in ["$anchor", "$dynamicAnchor"] {
                    if let Some(Value::String(name)) = map.get(keyword)
                        && self.anchors.insert(name, (self.place.clone(), value)).is_some()
                    {
                        return Err(SchemaError::Invalid(format!(
                            "anchor `{}` is used twice",
                            cut(name)
                        )));
                    }
                }
                for (key, value) in map {
                    self.at(key, |cost| cost.find_anchors(value, depth + 1))?;
                }
            }
            Value::Array(list) => {
                for (index, item) in list.iter().enumerate() {
                    self.at(&index.to_string(), |cost| cost.find_anchors(item, depth + 1))?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }

    fn schema(&mut self, value: &'a Value) -> Result<Weight, SchemaError> {
        match value {
            Value::Object(map) => self.keywords(map),
            Value::Array(list) => {
                let mut sum = Weight { visits: 1, chain: 0 };
                for (index, item) in list.iter().enumerate() {
                    let part = self.at(&index.to_string(), |cost| cost.schema(item))?;
                    sum.visits = sum.visits.saturating_add(part.visits);
                    sum.chain = sum.chain.max(part.chain);
                }
                Ok(sum)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Ok(Weight { visits: 1, chain: 0 })
            }
        }
    }

    fn keywords(&mut self, map: &'a Map<String, Value>) -> Result<Weight, SchemaError> {
        self.note_id(map);
        let mut sum = Weight { visits: 1, chain: 0 };
        for (key, value) in map {
            let part = self.keyword(key, value)?;
            sum.visits = sum.visits.saturating_add(part.visits);
            sum.chain = sum.chain.max(part.chain);
        }
        if UNEVALUATED.iter().any(|keyword| map.contains_key(*keyword)) {
            // What is evaluated is found out by looking again at all that applies here.
            sum.visits = sum.visits.saturating_mul(2);
        }
        sum.chain += 1;
        self.longest = self.longest.max(sum.chain);
        Ok(sum)
    }

    fn keyword(&mut self, key: &'a str, value: &'a Value) -> Result<Weight, SchemaError> {
        match value {
            Value::String(target) if REFERENCES.contains(&key) => self.follow(target),
            Value::Array(list) if DATA.contains(&key) => {
                Ok(Weight { visits: 1 + list.len() as u64, chain: 0 })
            }
            _ if DATA.contains(&key) => Ok(Weight { visits: 1, chain: 0 }),
            _ if IN_PLACE.contains(&key) => self.at(key, |cost| cost.schema(value)),
            Value::Object(named) if NAMED_IN_PLACE.contains(&key) => {
                self.at(key, |cost| cost.named(named))
            }
            Value::Object(named) if DEFINITIONS.contains(&key) => {
                self.apart(|cost| cost.at(key, |cost| cost.named(named)))?;
                Ok(Weight { visits: 1, chain: 0 })
            }
            Value::Object(named) if NAMED_PARTS.contains(&key) => {
                self.apart(|cost| cost.at(key, |cost| cost.named(named)))
            }
            _ => self.apart(|cost| cost.at(key, |cost| cost.schema(value))),
        }
    }

    fn named(&mut self, named: &'a Map<String, Value>) -> Result<Weight, SchemaError> {
        let mut sum = Weight { visits: 1, chain: 0 };
        for (name, value) in named {
            let part = self.at(name, |cost| cost.schema(value))?;
            sum.visits = sum.visits.saturating_add(part.visits);
            sum.chain = sum.chain.max(part.chain);
        }
        Ok(sum)
    }

    /// For a part of the value: whatever referred here may come again without looping.
    fn apart(
        &mut self,
        walk: impl FnOnce(&mut Self) -> Result<Weight, SchemaError>,
    ) -> Result<Weight, SchemaError> {
        let outer = std::mem::take(&mut self.in_place);
        let part = walk(self);
        self.in_place = outer;
        part.map(|part| Weight { chain: 0, ..part })
    }

    fn at<T>(
        &mut self,
        key: &str,
        walk: impl FnOnce(&mut Self) -> Result<T, SchemaError>,
    ) -> Result<T, SchemaError> {
        let length = self.place.len();
        self.place.push('/');
        self.place.push_str(&key.replace('~', "~0").replace('/', "~1"));
        let found = self.deeper(walk);
        self.place.truncate(length);
        found
    }

    fn deeper<T>(
        &mut self,
        walk: impl FnOnce(&mut Self) -> Result<T, SchemaError>,
    ) -> Result<T, SchemaError> {
        if self.path >= MAX_PATH {
            return Err(SchemaError::TooDeep);
        }
        self.path += 1;
        let found = walk(self);
        self.path -= 1;
        found
    }

    fn note_id(&mut self, map: &Map<String, Value>) {
        for keyword in ["$id", "id"] {
            if map.get(keyword).is_some_and(Value::is_string) {
                self.ids.push((self.place.clone(), keyword));
            }
        }
    }

    fn follow(&mut self, target: &'a str) -> Result<Weight, SchemaError> {
        const STOP: Weight = Weight { visits: 1, chain: 1 };
        if !target.starts_with('#') {
            return Err(SchemaError::RemoteReference(cut(target)));
        }
        if self.in_place.contains(&target) {
            self.loops.push(self.place.clone());
            self.returns = self.returns.saturating_add(1);
            return Ok(STOP);
        }
        match self.weights.get(target) {
            Some(Some(weight)) => return Ok(*weight),
            Some(None) => {
                self.returns = self.returns.saturating_add(1);
                return Ok(STOP);
            }
            None => {}
        }
        let Some((place, value)) = self.locate(target) else {
            return Err(SchemaError::DanglingReference(cut(target)));
        };
        self.weights.insert(target, None);
        self.in_place.push(target);
        let here = std::mem::replace(&mut self.place, place);
        let weight = self.deeper(|cost| cost.schema(value));
        self.place = here;
        self.in_place.pop();
        let weight = weight?;
        self.weights.insert(target, Some(weight));
        Ok(weight)
    }

    fn locate(&self, target: &str) -> Option<(String, &'a Value)> {
        let fragment = decoded(target.strip_prefix('#')?)?;
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.anchors.get(fragment.as_str()).cloned();
        }
        self.root.pointer(&fragment).map(|value| (fragment, value))
    }
}

/// A fragment without its percent encoding.
fn decoded(fragment: &str) -> Option<String> {
    let mut parts = fragment.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}
