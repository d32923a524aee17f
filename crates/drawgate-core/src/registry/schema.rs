//! JSON Schemas: bounded, closed, compiled once.
//!
//! A schema comes from a stranger. Before it is compiled its depth, its size with all references
//! followed, and the references themselves are checked, so that neither compiling nor validating can
//! be made to run for long or to fetch anything.

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

use super::schema_cost::SchemaCost;

/// How deep a schema may nest.
pub(super) const MAX_DEPTH: usize = 32;
/// How many nodes the validation of one value may visit, with every reference followed.
const MAX_VISITS: u64 = 50_000;
/// The same where a schema refers to itself: what is weighed then is one round only.
const MAX_VISITS_RECURSIVE: u64 = 10_000;
/// Visits for a whole document: some seconds at the worst, and far beyond any honest call.
const MAX_WORK: u64 = 200_000_000;
/// Visits that listing the faults may take; it remembers nothing, unlike the mere check.
const MAX_LISTING: u64 = 2_000_000;
/// Memory for one compiled pattern.
const PATTERN_MEMORY: usize = 1 << 20;
/// Levels of schemas times levels of the value, where a schema refers to itself: bounds the stack.
const MAX_STACK: usize = 1024;
/// How deep a value may nest in any case where the schema refers to itself.
const MAX_RECURSIVE_DEPTH: usize = 64;
/// How many faults one answer lists.
const MAX_FAULTS: usize = 8;
/// Why a schema can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Not an object.
    #[error("the schema must be an object")]
    NotAnObject,
    /// Describes something else than an object.
    #[error("the schema must have type `object`")]
    NotForObjects,
    /// Nested too deeply.
    #[error("the schema nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// Too large with all references followed.
    #[error("the schema has more than {0} parts with its references followed")]
    TooLarge(u64),
    /// A reference out of the document.
    #[error("`$ref` may only point into the same schema, not to `{}`", .0.escape_debug())]
    RemoteReference(String),
    /// A reference to nothing.
    #[error("`$ref` to `{}` points to nothing", .0.escape_debug())]
    DanglingReference(String),
    /// Not valid as a schema.
    #[error("not a valid JSON Schema: {0}")]
    Invalid(String),
}

/// A schema, ready to check values.
pub struct CompiledSchema {
    validator: Validator,
    /// Visits for one value.
    visits: u64,
    recursion: Option<Recursion>,
}

/// How a schema refers to itself.
#[derive(Debug, Clone, Copy)]
struct Recursion {
    /// How deep a value may nest.
    depth: usize,
    /// How many references lead back.
    returns: u32,
}

impl CompiledSchema {
    /// Checks and compiles a schema for an object.
    pub fn for_object(schema: &Value) -> Result<Self, SchemaError> {
        let Value::Object(map) = schema else { return Err(SchemaError::NotAnObject) };
        match map.get("type") {
            None => {}
            Some(Value::String(kind)) if kind == "object" => {}
            Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "object") => {}
            Some(_) => return Err(SchemaError::NotForObjects),
        }
        Self::compile(schema)
    }

    /// Checks and compiles a schema for arguments. Where an argument is repeated in a header, its protocol
    /// lets a client write `null` for one that is absent.
    pub fn for_arguments(schema: &Value) -> Result<Self, SchemaError> {
        let mut copy = schema.clone();
        allow_null_in_headers(&mut copy);
        Self::for_object(&copy)
    }

    /// Checks and compiles a schema for a result, which may be any value.
    pub fn for_output(schema: &Value) -> Result<Self, SchemaError> {
        let Value::Object(map) = schema else { return Err(SchemaError::NotAnObject) };
        if map.get("$schema").is_some_and(|dialect| !dialect.is_string()) {
            return Err(SchemaError::Invalid("`$schema` must be a text".to_owned()));
        }
        Self::compile(schema)
    }

    fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let mut copy = schema.clone();
        if let Value::Object(map) = &mut copy {
            forget_foreign_dialect(map);
        }
        forget_irregular_patterns(&mut copy);
        let (weight, cost) = SchemaCost::of(&copy)?;
        let recursion = (cost.returns > 0).then(|| Recursion {
            depth: (MAX_STACK / cost.longest.max(1)).min(MAX_RECURSIVE_DEPTH),
            returns: cost.returns,
        });
        let most = if recursion.is_some() { MAX_VISITS_RECURSIVE } else { MAX_VISITS };
        if weight.visits > most {
            return Err(SchemaError::TooLarge(most));
        }
        let SchemaCost { loops, ids, .. } = cost;
        for place in loops {
            // A schema that refers to itself for the same value adds nothing but endless work.
            forget(&mut copy, &place, "$ref");
        }
        for (place, keyword) in ids {
            // It would begin a document of its own, whose references were weighed as if in this one.
            forget(&mut copy, &place, keyword);
        }
        let options =
            PatternOptions::regex().size_limit(PATTERN_MEMORY).dfa_size_limit(PATTERN_MEMORY);
        let validator = jsonschema::options()
            .with_pattern_options(options)
            .build(&copy)
            .map_err(|error| SchemaError::Invalid(misfit(&error).to_string()))?;
        Ok(Self { validator, visits: weight.visits, recursion })
    }

    /// Checks a value. The faults say where and what, never the value itself.
    pub fn check(&self, value: &Value) -> Result<(), Vec<Fault>> {
        let size = Size::of(value);
        if let Some(recursion) = self.recursion
            && size.depth > recursion.depth
        {
            return Err(vec![Fault::whole(format!(
                "nests deeper than {} levels",
                recursion.depth
            ))]);
        }
        let work = size.nodes.saturating_mul(self.visits);
        if work > MAX_WORK {
            return Err(vec![Fault::whole(
                "too large to be checked against this schema".to_owned(),
            )]);
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        if self.recursion.is_some_and(|recursion| recursion.listing(work, size) > MAX_LISTING) {
            return Err(vec![Fault::whole("does not fit the schema".to_owned())]);
        }
        let faults = self.validator.iter_errors(value).take(MAX_FAULTS);
        Err(faults
            .map(|error| Fault {
                place: cut(&error.instance_path().to_string()),
                what: cut(&error.masked().to_string()),
            })
            .collect())
    }
}

/// Why a schema is not one, and where.
fn misfit(error: &jsonschema::ValidationError<'_>) -> Fault {
    let place = cut(&error.instance_path().to_string());
    let what = match error.instance().as_ref() {
        Value::String(kind) if place.ends_with("/type") => {
            format!(
                "`{}` is not a type; use `array`, `boolean`, `integer`, `null`, `number`, `object` or `string`",
                cut(&kind.escape_debug().to_string())
            )
        }
        _ => cut(&error.masked().to_string()),
    };
    Fault { place, what }
}

impl Recursion {
    /// Each level of the value may be looked at along every way that leads back.
    fn listing(self, work: u64, size: Size) -> u64 {
        let levels = u32::try_from(size.depth).unwrap_or(u32::MAX);
        work.saturating_mul(u64::from(self.returns).saturating_pow(levels))
    }
}

impl std::fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CompiledSchema")
    }
}

/// One place where a value breaks its schema.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Fault {
    /// A JSON pointer into the value; empty for the whole.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

impl Fault {
    fn whole(what: String) -> Self {
        Self { place: String::new(), what }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if self.place.is_empty() { "/" } else { &self.place };
        write!(f, "`{place}`: {}", self.what)
    }
}

/// What clients get to see: `type: object` present, and no boolean in `properties`, since several
/// drop a whole list for one such schema.
pub(super) fn normalised(schema: &Value) -> Value {
    let mut copy = schema.clone();
    if let Value::Object(map) = &mut copy {
        if !map.get("type").is_some_and(|kind| kind == "object") {
            map.insert("type".to_owned(), "object".into());
        }
        if let Some(Value::Object(properties)) = map.get_mut("properties") {
            for (_, property) in properties.iter_mut() {
                match property {
                    Value::Bool(true) => *property = Value::Object(Map::new()),
                    Value::Bool(false) => *property = serde_json::json!({ "not": {} }),
                    Value::Null
                    | Value::Number(_)
                    | Value::String(_)
                    | Value::Array(_)
                    | Value::Object(_) => {}
                }
            }
        }
    }
    copy
}

/// Lets `null` stand for an argument that has a header, here and in objects within.
fn allow_null_in_headers(schema: &mut Value) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (_, property) in properties.iter_mut() {
        if property.get("x-mcp-header").is_some() {
            *property = serde_json::json!({ "anyOf": [property.take(), { "type": "null" }] });
        } else {
            allow_null_in_headers(property);
        }
    }
}

/// Patterns that look around or back can't be matched in linear time, and common validation libraries
/// write them. They are left to the tool itself; everything else in its schema is still checked.
fn forget_irregular_patterns(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("pattern").and_then(Value::as_str).is_some_and(is_irregular) {
                map.shift_remove("pattern");
            }
            if let Some(Value::Object(patterns)) = map.get_mut("patternProperties") {
                patterns.retain(|pattern, _| !is_irregular(pattern));
            }
            for (key, value) in map.iter_mut() {
                let is_data = ["enum", "const", "default", "examples"].contains(&key.as_str());
                if !is_data || value.get("type").is_some() {
                    forget_irregular_patterns(value);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(forget_irregular_patterns),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_irregular(pattern: &str) -> bool {
    let looks = ["(?=", "(?!", "(?<=", "(?<!", "\\k<"].iter().any(|mark| pattern.contains(mark));
    let refers = pattern.as_bytes().windows(2).any(|pair| matches!(pair, [b'\\', b'1'..=b'9']));
    looks || refers
}

/// Keeps `$schema` only where it names a dialect that the validator knows.
fn forget_foreign_dialect(map: &mut Map<String, Value>) {
    let known = map.get("$schema").and_then(Value::as_str).is_some_and(|dialect| {
        let dialect = dialect.trim_end_matches('#');
        [
            "draft-04/schema",
            "draft-06/schema",
            "draft-07/schema",
            "draft/2019-09/schema",
            "draft/2020-12/schema",
        ]
        .iter()
        .any(|name| dialect.ends_with(name))
            && dialect.contains("://json-schema.org/")
    });
    if !known {
        map.remove("$schema");
    }
}

pub(super) fn cut(text: &str) -> String {
    const LONGEST: usize = 300;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain("…".chars()).collect()
}

fn forget(schema: &mut Value, place: &str, keyword: &str) {
    if let Some(Value::Object(map)) = schema.pointer_mut(place) {
        map.shift_remove(keyword);
    }
}

/// How large a value is.
#[derive(Clone, Copy)]
struct Size {
    nodes: u64,
    depth: usize,
}

impl Size {
    fn of(value: &Value) -> Self {
        let join = |sum: Self, part: &Value| {
            let part = Self::of(part);
            Self { nodes: sum.nodes + part.nodes, depth: sum.depth.max(part.depth + 1) }
        };
        let own = Self { nodes: 1, depth: 0 };
        match value {
            Value::Array(list) => list.iter().fold(Self { depth: 1, ..own }, join),
            Value::Object(map) => map.values().fold(Self { depth: 1, ..own }, join),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => own,
        }
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
