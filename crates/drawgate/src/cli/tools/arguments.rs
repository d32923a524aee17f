//! What a person writes after `tools call NAME`: `name=text`, which is read by the type that the tool
//! declares for it, and `name:=JSON`, which is taken as it is.

use drawgate_core::json::{self, JsonError};
use drawgate_core::registry::visible_text;
use serde_json::{Map, Value};

use super::types::Types;

/// How much of what was typed a message repeats.
const SHOWN: usize = 60;

/// Why arguments can't be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error("`{0}` is not an argument; write `name=text` or `name:=JSON`")]
    Form(String),
    #[error("`{0}` is given twice; give each argument once")]
    Twice(String),
    #[error("what follows `{name}:=` is not JSON ({fault}); write text as `{name}=TEXT`")]
    Json { name: String, fault: JsonError },
    #[error("`{name}` takes {types}, which `{text}` is not; write it like `{name}={example}`")]
    Type { name: String, types: String, text: String, example: String },
    #[error("`--input` is not JSON ({0}); write it like `--input '{{\"path\": \"a.txt\"}}'`")]
    Input(JsonError),
    #[error("`--input` must be a JSON object, such as `{{\"path\": \"a.txt\"}}`")]
    NoObject,
}

/// One argument, as it was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Text(String, String),
    Json(String, String),
}

impl Typed {
    pub(super) fn parse(pair: &str) -> Result<Self, ArgumentError> {
        let form = || ArgumentError::Form(shown(pair));
        let (name, text) = pair.split_once('=').ok_or_else(form)?;
        let (name, typed): (_, fn(String, String) -> Self) = match name.strip_suffix(':') {
            Some(name) => (name, Self::Json),
            None => (name, Self::Text),
        };
        if name.is_empty() {
            return Err(form());
        }
        Ok(typed(name.to_owned(), text.to_owned()))
    }

    /// Whether the tool's schema decides what it is.
    pub(super) const fn needs_schema(&self) -> bool {
        matches!(self, Self::Text(..))
    }

    fn read(self, schema: &Value) -> Result<(String, Value), ArgumentError> {
        match self {
            Self::Json(name, text) => match json::parse(text.as_bytes()) {
                Ok(value) => Ok((name, value)),
                Err(fault) => Err(ArgumentError::Json { name: shown(&name), fault }),
            },
            Self::Text(name, text) => {
                let types = Types::of_property(schema, &name);
                match types.read(&text) {
                    Some(value) => Ok((name, value)),
                    None => Err(ArgumentError::Type {
                        name: shown(&name),
                        types: types.to_string(),
                        text: shown(&text),
                        example: types.example().to_owned(),
                    }),
                }
            }
        }
    }
}

/// The arguments of a call of a tool with this schema; null if it is not known.
pub(super) fn read(typed: Vec<Typed>, schema: &Value) -> Result<Map<String, Value>, ArgumentError> {
    let mut arguments = Map::new();
    for one in typed {
        let (name, value) = one.read(schema)?;
        if arguments.contains_key(&name) {
            return Err(ArgumentError::Twice(shown(&name)));
        }
        arguments.insert(name, value);
    }
    Ok(arguments)
}

/// All arguments as one JSON object.
pub(super) fn read_object(text: &str) -> Result<Map<String, Value>, ArgumentError> {
    match json::parse(text.as_bytes()).map_err(ArgumentError::Input)? {
        Value::Object(map) => Ok(map),
        _ => Err(ArgumentError::NoObject),
    }
}

fn shown(text: &str) -> String {
    let short: String = text.chars().take(SHOWN).collect();
    visible_text(&short).into_owned()
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
