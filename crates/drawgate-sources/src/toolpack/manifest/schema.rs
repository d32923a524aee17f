//! The JSON Schema of `toolpack.json`: generated from the types, so that it can't say anything else
//! than the reader, which checks files against it.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::types::Manifest;

/// Members that must be there, by definition.
const REQUIRED: [(&str, &[&str]); 3] = [
    ("", &["id", "name", "version", "tools"]),
    ("/$defs/Connector", &["id", "type"]),
    ("/$defs/Tool", &["type"]),
];

static SCHEMA: LazyLock<Value> = LazyLock::new(generate);

/// The JSON Schema (draft 2020-12) of a manifest, for editors.
#[must_use]
pub fn schema() -> Value {
    SCHEMA.clone()
}

pub(super) fn kept() -> &'static Value {
    &SCHEMA
}

fn generate() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut schema = settings.into_generator().into_root_schema_for::<Manifest>().to_value();
    tidy(&mut schema);
    for (place, names) in REQUIRED {
        if let Some(Value::Object(map)) = schema.pointer_mut(place) {
            map.insert("required".into(), json!(names));
        }
    }
    let conditions =
        [("/$defs/Tool", tool_conditions()), ("/$defs/Connector", connector_conditions())];
    for (place, conditions) in conditions {
        if let Some(Value::Object(map)) = schema.pointer_mut(place) {
            map.insert("allOf".into(), conditions);
        }
    }
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".into(), json!("toolpack.json"));
    }
    schema
}

/// What a tool of each type needs.
fn tool_conditions() -> Value {
    let is =
        |kind: &str| json!({ "properties": { "type": { "const": kind } }, "required": ["type"] });
    json!([
        { "if": is("command"), "then": { "required": ["name", "command_template"] } },
        { "if": is("mcp"), "then": { "required": ["name", "connector_id"] } },
        { "if": is("openapi"), "then": {
            "required": ["connector_id"],
            "anyOf": [{ "required": ["name"] }, { "required": ["operations"] }],
        } },
    ])
}

/// What a connector of each type needs.
fn connector_conditions() -> Value {
    let is =
        |kind: &str| json!({ "properties": { "type": { "const": kind } }, "required": ["type"] });
    let spec = json!([{ "required": ["spec_path"] }, { "required": ["spec_url"] }]);
    json!([
        { "if": is("mcp"), "then": { "required": ["mcp"] } },
        { "if": is("openapi"), "then": {
            "required": ["openapi"],
            "properties": { "openapi": { "oneOf": spec } },
        } },
    ])
}

/// Removes what only Rust knows: nulls, integer widths, defaults that say nothing, and the line breaks
/// of doc comments.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(map) => {
            map.retain(|key, value| !is_noise(key, value));
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace("\n\n", "\0").replace('\n', " ").replace('\0', "\n\n");
            }
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".into(), only);
                }
            }
            if let Some(Value::Object(only)) = map.get_mut("anyOf").and_then(only_variant) {
                map.remove("anyOf");
                map.extend(only);
            }
            map.values_mut().for_each(tidy);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_noise(key: &str, value: &Value) -> bool {
    match key {
        "default" => !value.is_boolean(),
        "format" => value.as_str().is_some_and(|name| name.starts_with("uint")),
        _ => false,
    }
}

/// The one variant beside null of what was an `Option`.
fn only_variant(any_of: &mut Value) -> Option<Value> {
    let variants = any_of.as_array_mut()?;
    variants.retain(|variant| variant.get("type") != Some(&json!("null")));
    if let [only] = variants.as_slice() { Some(only.clone()) } else { None }
}
