//! The JSON Schema of `drawgate.toml`: generated from the types, tidied for TOML, which has no
//! null. Editors use it, and so does the reader itself.
//!
//! Draft 7, because that is what the common TOML language servers understand.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::Config;

/// The schema, made once.
pub(super) static SCHEMA: LazyLock<Value> = LazyLock::new(generate);

pub(super) fn generate() -> Value {
    let settings = SchemaSettings::draft07();
    let mut schema = settings.into_generator().into_root_schema_for::<Config>().to_value();
    tidy(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".into(), json!("drawgate.toml"));
    }
    schema
}

/// Removes what only Rust and JSON know: nulls, integer widths, defaults of whole sections, and
/// the line breaks of doc comments.
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
            if let Some(only) = map.get_mut("anyOf").and_then(only_variant) {
                map.remove("anyOf");
                map.insert("allOf".into(), json!([only]));
            }
            map.values_mut().for_each(tidy);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_noise(key: &str, value: &Value) -> bool {
    match key {
        "default" => value.is_null() || value.as_object().is_some_and(|map| !map.is_empty()),
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
