//! What the JSON Schemas of our files have in common: they are generated from Rust types, and
//! tidied for the people and editors that read them.

use serde_json::{Map, Value, json};

/// How the schema of one file is tidied.
#[derive(Clone, Copy)]
pub struct Tidy {
    /// Whether a default says nothing to the file's authors.
    pub is_idle: fn(&Value) -> bool,
    /// Adds the one schema that is left of an `Option` to what stands beside it.
    pub put_only: fn(&mut Map<String, Value>, Value),
}

/// Removes what only Rust knows: nulls, widths of numbers, defaults that say nothing, and the line
/// breaks of doc comments.
pub fn tidy(schema: &mut Value, how: Tidy) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| tidy(item, how)),
        Value::Object(map) => {
            map.retain(|key, value| !is_noise(key, value, how));
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
                (how.put_only)(map, only);
            }
            for (key, value) in map.iter_mut() {
                match value {
                    // The keys in there are names, and may be called like keywords.
                    Value::Object(named)
                        if matches!(key.as_str(), "properties" | "definitions") =>
                    {
                        named.values_mut().for_each(|schema| tidy(schema, how));
                    }
                    value => tidy(value, how),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_noise(key: &str, value: &Value, how: Tidy) -> bool {
    match key {
        "default" => (how.is_idle)(value),
        "format" => value.as_str().is_some_and(|name| name.starts_with("uint") || name == "double"),
        _ => false,
    }
}

/// The one variant beside null of what was an `Option`.
fn only_variant(any_of: &mut Value) -> Option<Value> {
    let variants = any_of.as_array_mut()?;
    variants.retain(|variant| variant.get("type") != Some(&json!("null")));
    if let [only] = variants.as_slice() { Some(only.clone()) } else { None }
}

/// The schema of a choice between words, each with its description.
pub fn words<'a>(description: &str, words: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let word = |(word, text)| json!({ "description": text, "type": "string", "const": word });
    json!({ "description": description, "oneOf": words.map(word).collect::<Value>() })
}
