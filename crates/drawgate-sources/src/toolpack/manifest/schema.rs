//! The JSON Schema of `toolpack.json`: generated from the types, so that it can't say anything else
//! than the reader, which checks files against it.

use std::borrow::Cow;
use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::COMMAND;
use super::types::Manifest;
use crate::kind::Kinds;
use crate::schema::{Tidy, tidy, words};
use crate::toolpack::ConnectorKind;

/// Members that must be there, by definition.
const REQUIRED: [(&str, &[&str]); 3] = [
    ("", &["id", "name", "version", "tools"]),
    ("/$defs/Connector", &["id", "type"]),
    ("/$defs/Tool", &["type"]),
];

static SCHEMA: LazyLock<Value> = LazyLock::new(|| generate(Kinds::default()));

/// The JSON Schema (draft 2020-12) of a manifest, for editors.
#[must_use]
pub fn schema() -> Value {
    SCHEMA.clone()
}

/// The schema of manifests that may use these kinds.
pub(super) fn schema_of(kinds: Kinds) -> Cow<'static, Value> {
    if kinds == Kinds::default() { Cow::Borrowed(&SCHEMA) } else { Cow::Owned(generate(kinds)) }
}

fn generate(kinds: Kinds) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let sections: Vec<(&str, Value)> = kinds
        .connectors()
        .map(|(name, kind)| {
            let mut section = kind.schema(&mut generator);
            section.insert("description".to_owned(), kind.settings_description().into());
            (name, section.to_value())
        })
        .collect();
    let mut schema = generator.into_root_schema_for::<Manifest>().to_value();
    put(&mut schema, "/$defs/Connector/properties", sections);
    let is_idle = |default: &Value| !default.is_boolean();
    tidy(&mut schema, Tidy { is_idle, put_only: only_of_option });
    for (place, names) in REQUIRED {
        put(&mut schema, place, [("required", json!(names))]);
    }
    put(&mut schema, "/$defs/Tool", [("allOf", tool_conditions(kinds))]);
    put(&mut schema, "/$defs/Connector", [("allOf", connector_conditions(kinds))]);
    let described = kinds.connectors().map(|(name, kind)| (name, kind.description()));
    put(
        &mut schema,
        "/$defs",
        [("ConnectorKind", words("What a connector connects to.", described))],
    );
    let described = kinds.connectors().map(|(name, kind)| (name, kind.tool_description()));
    let command = [(COMMAND, "A program that is run for each call.")].into_iter();
    put(
        &mut schema,
        "/$defs",
        [("ToolKind", words("Where a tool comes from.", command.chain(described)))],
    );
    put(&mut schema, "", [("title", json!("toolpack.json"))]);
    schema
}

fn put<'a>(schema: &mut Value, place: &str, members: impl IntoIterator<Item = (&'a str, Value)>) {
    if let Some(Value::Object(map)) = schema.pointer_mut(place) {
        map.extend(members.into_iter().map(|(key, value)| (key.to_owned(), value)));
    }
}

fn is_type(kind: &str) -> Value {
    json!({ "properties": { "type": { "const": kind } }, "required": ["type"] })
}

/// What a tool of each type needs.
fn tool_conditions(kinds: Kinds) -> Value {
    let command = json!({ "required": ["name", "command_template"] });
    let of = |kind: &dyn ConnectorKind| {
        if kind.has_operations() {
            let names = json!([{ "required": ["name"] }, { "required": ["operations"] }]);
            json!({ "required": ["connector_id"], "anyOf": names })
        } else {
            json!({ "required": ["name", "connector_id"] })
        }
    };
    let needs = kinds.connectors().map(|(name, kind)| (name, of(kind)));
    let all = [(COMMAND, command)].into_iter().chain(needs);
    all.map(|(name, needs)| json!({ "if": is_type(name), "then": needs })).collect()
}

/// What a connector of each type needs.
fn connector_conditions(kinds: Kinds) -> Value {
    let of = |(name, kind): (&str, &dyn ConnectorKind)| {
        let mut needs = json!({ "required": [name] });
        if let Some(condition) = kind.condition() {
            put(&mut needs, "", [("properties", json!({ name: condition }))]);
        }
        json!({ "if": is_type(name), "then": needs })
    };
    kinds.connectors().map(of).collect()
}

/// What remains of an `Option` is the schema of its value.
fn only_of_option(map: &mut Map<String, Value>, only: Value) {
    if let Value::Object(only) = only {
        map.extend(only);
    }
}
