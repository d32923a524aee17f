//! Nothing hidden in a definition: every string that a model reads has its hidden characters shown.
//!
//! What a caller has to send back as it stands, names of parameters and the values to choose from,
//! can't be shown otherwise without breaking calls. A definition that hides something there is refused.

use serde_json::Value;

use super::names::visible_text;
use crate::model::shown_name;

/// Keywords that hold schemas by name.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords whose strings are sent back as they stand.
const EXACT: [&str; 4] = ["enum", "const", "required", "dependentRequired"];

/// Where in a definition a value stands.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    /// Its keys are keywords.
    Schema,
    /// Its keys are names that an author chose.
    Names,
    /// It is sent back as it stands.
    Exact,
}

/// Shows hidden characters in all strings, or says where they can't be shown.
pub(super) fn show_all(definition: &mut Value) -> Result<(), String> {
    show(definition, Position::Schema)
}

fn show(value: &mut Value, place: Position) -> Result<(), String> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) if visible_text(text) == *text => Ok(()),
        Value::String(text) if place == Position::Exact => {
            Err(format!("the value `{}` has hidden characters", shown_name(text)))
        }
        Value::String(text) => {
            *text = visible_text(text).into_owned();
            Ok(())
        }
        Value::Array(list) => list.iter_mut().try_for_each(|item| show(item, place)),
        Value::Object(map) => map.iter_mut().try_for_each(|(key, value)| {
            if visible_text(key) != *key {
                return Err(format!("the name `{}` has hidden characters", shown_name(key)));
            }
            show(value, within(place, key))
        }),
    }
}

fn within(place: Position, key: &str) -> Position {
    match place {
        Position::Exact => Position::Exact,
        Position::Schema if EXACT.contains(&key) => Position::Exact,
        Position::Schema if NAMED.contains(&key) => Position::Names,
        Position::Schema | Position::Names => Position::Schema,
    }
}

#[cfg(test)]
#[path = "visible_tests.rs"]
mod tests;
