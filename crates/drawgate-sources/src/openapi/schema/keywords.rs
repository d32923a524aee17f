//! One schema, keyword by keyword. What is not known, or has a shape that it must not have, is left
//! out: one fault of an author must not cost the whole tool.

use regex::RegexBuilder;
use serde_json::{Map, Value, json};

use super::convert::{Converter, Stop};
use crate::openapi::document::Dialect;

/// Characters of a description inside of a schema.
const MAX_TEXT: usize = 300;
/// Bytes of an example or a default that are worth their place.
const MAX_DATA: usize = 256;
/// Values of an `enum`; a longer list is left to the server.
const MAX_VALUES: usize = 500;
/// Names in `required`.
const MAX_REQUIRED: usize = 500;
/// Bytes of a pattern.
const MAX_PATTERN: usize = 1_000;
/// Memory for one pattern, as the gate has it.
const PATTERN_MEMORY: usize = 1 << 20;

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
/// Keywords that hold one schema.
const ONE: [&str; 10] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords that hold a list of schemas.
const MANY: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords that hold schemas by name.
const NAMED: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
/// Keywords that hold a count.
const COUNTS: [&str; 8] = [
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "maxContains",
    "minContains",
];

/// The schemas directly inside a schema.
pub(super) fn parts(schema: &Value) -> Vec<&Value> {
    let Value::Object(map) = schema else { return Vec::new() };
    let one = ONE.iter().filter_map(|key| map.get(*key)).filter(|value| value.is_object());
    let many = MANY.iter().filter_map(|key| map.get(*key)?.as_array()).flatten();
    let named = NAMED.iter().filter_map(|key| map.get(*key)?.as_object()).flat_map(Map::values);
    one.chain(many).chain(named).collect()
}

/// What is left of a schema where it is cut: its type and what it is.
pub(super) fn outline(map: &Map<String, Value>, dialect: Dialect) -> Value {
    let mut out = Map::new();
    put_type(map, dialect, &mut out);
    put_annotations(map, &mut out);
    Value::Object(out)
}

pub(super) fn convert<'a>(
    converter: &mut Converter<'a>,
    map: &'a Map<String, Value>,
) -> Result<Value, Stop> {
    let mut out = Map::new();
    put_type(map, converter.dialect, &mut out);
    put_annotations(map, &mut out);
    put_values(map, converter.dialect, &mut out);
    put_limits(map, converter.dialect, &mut out);
    for key in ONE {
        if let Some(value @ (Value::Object(_) | Value::Bool(_))) = map.get(key) {
            out.insert(key.to_owned(), converter.convert(value)?);
        }
    }
    put_lists(converter, map, &mut out)?;
    put_named(converter, map, &mut out)?;
    put_required(converter, map, &mut out);
    Ok(Value::Object(out))
}

/// A description, short enough.
pub(super) fn text(text: &str) -> String {
    let text = text.trim();
    if text.chars().nth(MAX_TEXT).is_none() {
        return text.to_owned();
    }
    text.chars().take(MAX_TEXT).chain(['…']).collect()
}

fn is_nullable(map: &Map<String, Value>, dialect: Dialect) -> bool {
    dialect == Dialect::V30 && map.get("nullable") == Some(&Value::Bool(true))
}

fn put_type(map: &Map<String, Value>, dialect: Dialect, out: &mut Map<String, Value>) {
    let known = |value: &&Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
    let mut types: Vec<&Value> = match map.get("type") {
        Some(one @ Value::String(_)) => vec![one],
        Some(Value::Array(list)) => list.iter().collect(),
        _ => Vec::new(),
    };
    types.retain(known);
    let null = json!("null");
    if is_nullable(map, dialect) && !types.is_empty() {
        types.push(&null);
    }
    let mut kept: Vec<&Value> = Vec::new();
    for one in types {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    match kept.as_slice() {
        [] => {}
        [one] => {
            out.insert("type".to_owned(), (*one).clone());
        }
        several => {
            out.insert("type".to_owned(), several.iter().copied().cloned().collect());
        }
    }
}

fn put_annotations(map: &Map<String, Value>, out: &mut Map<String, Value>) {
    let described = ["description", "title"].iter().find_map(|key| map.get(*key)?.as_str());
    if let Some(described) = described.filter(|described| !described.trim().is_empty()) {
        out.insert("description".to_owned(), text(described).into());
    }
    for key in ["format", "contentEncoding", "contentMediaType"] {
        if let Some(value @ Value::String(_)) = map.get(key) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    if map.get("deprecated") == Some(&Value::Bool(true)) {
        out.insert("deprecated".to_owned(), true.into());
    }
}

fn put_values(map: &Map<String, Value>, dialect: Dialect, out: &mut Map<String, Value>) {
    let is_small = |value: &&Value| value.to_string().len() <= MAX_DATA;
    if let Some(value) = map.get("default").filter(is_small) {
        out.insert("default".to_owned(), value.clone());
    }
    if let Some(value) = map.get("const") {
        out.insert("const".to_owned(), value.clone());
    }
    if let Some(Value::Array(list)) = map.get("enum")
        && (1..=MAX_VALUES).contains(&list.len())
    {
        let mut list = list.clone();
        if is_nullable(map, dialect) && !list.contains(&Value::Null) {
            list.push(Value::Null);
        }
        out.insert("enum".to_owned(), list.into());
    }
    let first = || map.get("examples").and_then(Value::as_array).and_then(|list| list.first());
    if let Some(value) = map.get("example").or_else(first).filter(is_small) {
        out.insert("examples".to_owned(), json!([value]));
    }
}

fn put_limits(map: &Map<String, Value>, dialect: Dialect, out: &mut Map<String, Value>) {
    for key in COUNTS {
        if let Some(count) = map.get(key).and_then(Value::as_u64) {
            out.insert(key.to_owned(), count.into());
        }
    }
    if let Some(Value::Bool(true)) = map.get("uniqueItems") {
        out.insert("uniqueItems".to_owned(), true.into());
    }
    if let Some(step) = map.get("multipleOf")
        && step.as_f64().is_some_and(|step| step > 0.0)
    {
        out.insert("multipleOf".to_owned(), step.clone());
    }
    for (key, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let limit = map.get(key).filter(|limit| limit.is_number());
        match (map.get(exclusive), limit) {
            (Some(Value::Bool(true)), Some(limit)) if dialect == Dialect::V30 => {
                out.insert(exclusive.to_owned(), limit.clone());
            }
            (beyond, limit) => {
                if let Some(limit) = limit {
                    out.insert(key.to_owned(), limit.clone());
                }
                if let Some(beyond) = beyond.filter(|beyond| beyond.is_number()) {
                    out.insert(exclusive.to_owned(), beyond.clone());
                }
            }
        }
    }
    if let Some(Value::String(pattern)) = map.get("pattern")
        && is_regular(pattern)
    {
        out.insert("pattern".to_owned(), pattern.clone().into());
    }
}

/// Requests are checked by the server as well, and authors write `oneOf` where several fit; so a
/// request needs to fit any.
fn put_lists<'a>(
    converter: &mut Converter<'a>,
    map: &'a Map<String, Value>,
    out: &mut Map<String, Value>,
) -> Result<(), Stop> {
    for key in MANY {
        let Some(Value::Array(list)) = map.get(key) else { continue };
        let mut schemas = Vec::new();
        for schema in list {
            schemas.push(converter.convert(schema)?);
        }
        if schemas.is_empty() {
            continue;
        }
        match (key, out.get("anyOf").is_some()) {
            ("oneOf", false) => out.insert("anyOf".to_owned(), schemas.into()),
            ("oneOf", true) => {
                let all = out.entry("allOf").or_insert_with(|| json!([]));
                if let Value::Array(all) = all {
                    all.push(json!({ "anyOf": schemas }));
                }
                None
            }
            _ => out.insert(key.to_owned(), schemas.into()),
        };
    }
    Ok(())
}

fn put_named<'a>(
    converter: &mut Converter<'a>,
    map: &'a Map<String, Value>,
    out: &mut Map<String, Value>,
) -> Result<(), Stop> {
    for key in NAMED {
        let Some(Value::Object(named)) = map.get(key) else { continue };
        let mut schemas = Map::new();
        for (name, schema) in named {
            let is_dropped = match key {
                "properties" => converter.is_read_only(schema),
                "patternProperties" => !is_regular(name),
                _ => false,
            };
            if !is_dropped {
                schemas.insert(name.clone(), converter.convert(schema)?);
            }
        }
        out.insert(key.to_owned(), schemas.into());
    }
    Ok(())
}

fn put_required<'a>(
    converter: &Converter<'a>,
    map: &'a Map<String, Value>,
    out: &mut Map<String, Value>,
) {
    let Some(Value::Array(list)) = map.get("required") else { return };
    let properties = map.get("properties");
    let mut names: Vec<Value> = Vec::new();
    for name in list.iter().filter(|name| name.is_string()).take(MAX_REQUIRED) {
        let property = name.as_str().and_then(|name| properties?.get(name));
        let is_dropped = property.is_some_and(|schema| converter.is_read_only(schema));
        if !is_dropped && !names.contains(name) {
            names.push(name.clone());
        }
    }
    if !names.is_empty() {
        out.insert("required".to_owned(), names.into());
    }
}

/// Patterns are of another language, which differs in what few use.
fn is_regular(pattern: &str) -> bool {
    pattern.len() <= MAX_PATTERN
        && RegexBuilder::new(pattern).size_limit(PATTERN_MEMORY).build().is_ok()
}
