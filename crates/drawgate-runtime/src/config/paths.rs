//! The files and folders that a configuration names, and what becomes of them.
//!
//! Each key for a path has a `format` in the schema that says so. They are found by walking the schema and
//! the values side by side, so that a new key is found wherever it is; a test refuses one without a format.

use std::path::PathBuf;

use serde_json::Value;

use super::{Config, schema};

/// What becomes of a path that a configuration names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathUse {
    /// The data folder itself.
    Data,
    /// The gateway believes what is in it.
    Trusted,
    /// The same; relative paths start at the data folder.
    TrustedInData,
    /// The same, and it is read by the gateway alone.
    Secret,
    /// The gateway starts it.
    Program,
    /// The same, in a sandbox: a path, or a name that is looked up in `PATH`.
    Command,
    /// Programs may read it.
    Readable,
    /// Programs or tools may write it.
    Writable,
}

impl PathUse {
    /// All, by the words in the schema.
    pub(super) const FORMATS: [(&str, Self); 8] = [
        ("data-path", Self::Data),
        ("trusted-path", Self::Trusted),
        ("trusted-path-in-data", Self::TrustedInData),
        ("secret-path", Self::Secret),
        ("program-path", Self::Program),
        ("program", Self::Command),
        ("readable-path", Self::Readable),
        ("writable-path", Self::Writable),
    ];
}

/// A path that a configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPath {
    /// The key that names it: `servers.files.permissions.write[0]`.
    pub key: String,
    /// The path, as it is written.
    pub path: PathBuf,
    /// What becomes of it.
    pub usage: PathUse,
}

impl NamedPath {
    /// The table in which its key is; of an element of an array, that of the array.
    #[must_use]
    pub fn table(&self) -> &str {
        self.key.rsplit_once('.').map_or("", |(table, _)| table)
    }

    /// Whether its key is in a table.
    #[must_use]
    pub fn is_in(&self, table: &str) -> bool {
        super::tree::is_within(&self.key, table)
    }
}

impl Config {
    /// All files and folders that it names.
    #[must_use]
    pub fn named_paths(&self) -> Vec<NamedPath> {
        let schema = schema::schema_of(self.kinds);
        let Ok(value) = serde_json::to_value(self) else {
            // What it names is not known, so it may be anything: nothing may be given to a program.
            let whole = |usage| NamedPath { key: "*".to_owned(), path: PathBuf::from("/"), usage };
            return [PathUse::Secret, PathUse::Writable].map(whole).into();
        };
        let mut found = Vec::new();
        walk(&schema, &schema, &value, "", &mut found);
        found
    }
}

fn walk(root: &Value, schema: &Value, value: &Value, key: &str, found: &mut Vec<NamedPath>) {
    let reference = schema["$ref"].as_str().and_then(|text| text.strip_prefix('#'));
    if let Some(meant) = reference.and_then(|pointer| root.pointer(pointer)) {
        walk(root, meant, value, key, found);
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        for part in schema[word].as_array().into_iter().flatten() {
            walk(root, part, value, key, found);
        }
    }
    let usage = PathUse::FORMATS.iter().find(|(format, _)| schema["format"] == *format);
    match value {
        Value::String(text) => found.extend(usage.map(|(_, usage)| NamedPath {
            key: key.to_owned(),
            path: PathBuf::from(text),
            usage: *usage,
        })),
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                let key = super::tree::element(key, index);
                // What is said about a list of paths holds for each.
                let schema = if usage.is_some() { schema } else { &schema["items"] };
                walk(root, schema, element, &key, found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let known = &schema["properties"][name];
                let schema = if known.is_null() { &schema["additionalProperties"] } else { known };
                walk(root, schema, member, &super::tree::child(key, name), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
