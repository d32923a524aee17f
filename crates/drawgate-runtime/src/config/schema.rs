//! The JSON Schema of `drawgate.toml`: generated from the types, tidied for TOML, which has no
//! null. Editors use it, and so does the reader itself.
//!
//! Draft 7, because that is what the common TOML language servers understand.

use std::borrow::Cow;
use std::sync::LazyLock;

use drawgate_sources::Kinds;
use drawgate_sources::schema::{Tidy, tidy, words};
use schemars::generate::SchemaSettings;
use schemars::transform::{RemoveRefSiblings, Transform};
use serde_json::{Map, Value, json};

use super::Config;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| generate(Kinds::default()));

/// The schema of configurations that may use these kinds.
pub(super) fn schema_of(kinds: Kinds) -> Cow<'static, Value> {
    if kinds == Kinds::default() { Cow::Borrowed(&SCHEMA) } else { Cow::Owned(generate(kinds)) }
}

pub(super) fn generate(kinds: Kinds) -> Value {
    let mut generator = SchemaSettings::draft07().into_generator();
    let own: Vec<Value> = kinds
        .servers()
        .map(|kind| {
            let mut own = kind.schema(&mut generator);
            RemoveRefSiblings::default().transform(&mut own);
            own.to_value()
        })
        .collect();
    let mut schema = generator.into_root_schema_for::<Config>().to_value();
    if let Some(Value::Object(keys)) = schema.pointer_mut("/definitions/Server/properties") {
        keys.extend(
            own.iter()
                .filter_map(|own| own["properties"].as_object())
                .flatten()
                .map(|(key, value)| (key.clone(), value.clone())),
        );
    }
    tidy(&mut schema, Tidy { is_idle, put_only: only_of_option });
    if let Some(Value::Object(definitions)) = schema.pointer_mut("/definitions") {
        let described = kinds.servers().map(|kind| (kind.protocol(), kind.description()));
        definitions.insert("Protocol".into(), words("What a server speaks.", described));
    }
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".into(), json!("drawgate.toml"));
    }
    schema
}

/// Defaults of whole sections repeat those of their keys.
fn is_idle(default: &Value) -> bool {
    default.is_null() || default.as_object().is_some_and(|map| !map.is_empty())
}

/// In draft 7 nothing may stand beside `$ref`.
fn only_of_option(map: &mut Map<String, Value>, only: Value) {
    map.insert("allOf".into(), Value::Array(vec![only]));
}
