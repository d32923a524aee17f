//! The parameters of a command: what each may be, and its value as text.
//!
//! Values are never converted: the text `5` is no number, and `null` is no value. Patterns must
//! match the whole text, unlike in JSON Schema, since an author who writes `[a-z]+` for an argument of a
//! program does not mean "a letter somewhere".

use std::collections::BTreeMap;

use drawgate_core::registry::CompiledSchema;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use super::TemplateError;
use super::error::{Fault, FillError};

/// Beyond it, whole numbers are not the same in every language.
const MAX_SAFE: u64 = (1 << 53) - 1;
/// The kernel takes no longer argument, its final NUL included.
pub(super) const MAX_TEXT: usize = 128 * 1024 - 1;
/// Memory for one compiled pattern.
const PATTERN_MEMORY: usize = 1 << 20;
/// Allows line breaks and tabs in a text.
const MULTILINE: &str = "x-multiline";
/// Allows an empty text, if it is zero.
const MIN_LENGTH: &str = "minLength";

/// All parameters, and the schema that they come from.
#[derive(Debug)]
pub(super) struct Parameters {
    pub(super) all: BTreeMap<String, Parameter>,
    /// As offered to callers: closed, with whole patterns.
    pub(super) schema: Value,
    compiled: CompiledSchema,
}

/// One parameter.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) shape: Shape,
    is_required: bool,
    default: Option<Value>,
    value: ValueRules,
}

/// How many values a parameter has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Text,
    Integer,
    Number,
    Boolean,
}

/// What one value must be.
#[derive(Debug)]
struct ValueRules {
    scalar: Scalar,
    pattern: Option<Regex>,
    is_listed: bool,
    is_multiline: bool,
    may_be_empty: bool,
    range: Range,
}

#[derive(Debug, Default)]
struct Range {
    minimum: Option<f64>,
    maximum: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
}

/// What callers gave, as text, by parameter. What is absent was not given.
pub(super) type Texts<'a> = BTreeMap<&'a str, Vec<String>>;

impl Parameters {
    pub(super) fn read(schema: &Value) -> Result<Self, TemplateError> {
        let bad = |reason: &str| TemplateError::Parameters(reason.to_owned());
        let mut schema = match schema {
            Value::Null => json!({ "type": "object" }),
            Value::Object(map) => Value::Object(map.clone()),
            _ => return Err(bad("must be an object, as in `{\"type\": \"object\"}`")),
        };
        schema["additionalProperties"] = false.into();
        let required =
            names(&schema["required"]).ok_or_else(|| bad("`required` must be a list of names"))?;
        let mut all = BTreeMap::new();
        match schema.get_mut("properties") {
            None => {}
            Some(Value::Object(properties)) => {
                for (name, property) in properties.iter_mut() {
                    let parameter = Parameter::read(name, property, required.contains(name))?;
                    all.insert(name.clone(), parameter);
                }
            }
            Some(_) => return Err(bad("`properties` must be an object")),
        }
        if let Some(name) = required.iter().find(|name| !all.contains_key(*name)) {
            return Err(TemplateError::parameter(name, "is required, but not among `properties`"));
        }
        let compiled = CompiledSchema::for_object(&schema).map_err(|e| bad(&e.to_string()))?;
        let parameters = Self { all, schema, compiled };
        parameters.check_defaults()?;
        Ok(parameters)
    }

    /// Checks arguments, and writes each as text.
    pub(super) fn texts(&self, arguments: &Map<String, Value>) -> Result<Texts<'_>, FillError> {
        if let Some(name) = arguments.keys().find(|name| !self.all.contains_key(*name)) {
            return Err(FillError::new(name, Fault::Unknown));
        }
        let mut texts = Texts::new();
        let mut given = Map::new();
        for (name, parameter) in &self.all {
            let value = arguments.get(name).filter(|value| !value.is_null());
            let Some(value) = value.or(parameter.default.as_ref()) else {
                if parameter.is_required {
                    return Err(FillError::new(name, Fault::Missing));
                }
                continue;
            };
            let written = parameter.texts(value).map_err(|fault| FillError::new(name, fault))?;
            texts.insert(name, written);
            given.insert(name.clone(), value.clone());
        }
        self.check_schema(given)?;
        for (name, parameter) in &self.all {
            let written = texts.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
            let fit = written.iter().try_for_each(|text| parameter.value.check_text(text));
            fit.map_err(|fault| FillError::new(name, fault))?;
        }
        Ok(texts)
    }

    fn check_schema(&self, given: Map<String, Value>) -> Result<(), FillError> {
        let Err(faults) = self.compiled.check(&Value::Object(given)) else { return Ok(()) };
        let fault = faults.into_iter().next();
        let (place, what) = fault.map(|fault| (fault.place, fault.what)).unwrap_or_default();
        let name = place.split('/').nth(1).unwrap_or_default();
        Err(FillError::new(name, Fault::Schema(what)))
    }

    /// A default that could never be passed is found now, not in the first call.
    fn check_defaults(&self) -> Result<(), TemplateError> {
        for (name, parameter) in &self.all {
            let Some(value) = &parameter.default else { continue };
            let fit = parameter.texts(value).and_then(|texts| {
                texts.iter().try_for_each(|text| parameter.value.check_text(text))
            });
            fit.map_err(|fault| TemplateError::parameter(name, format!("its `default` {fault}")))?;
        }
        Ok(())
    }
}

impl Parameter {
    /// Reads a property, and rewrites its patterns to match whole texts.
    fn read(name: &str, property: &mut Value, is_required: bool) -> Result<Self, TemplateError> {
        let Value::Object(schema) = property else {
            return Err(TemplateError::parameter(name, "needs a schema with a `type`"));
        };
        let default = schema.get("default").filter(|value| !value.is_null()).cloned();
        let (shape, value) = match kind(schema) {
            Some("array") => {
                let mut items = schema.get("items").cloned().unwrap_or_else(|| json!({}));
                let Value::Object(item) = &mut items else {
                    return Err(TemplateError::parameter(name, "`items` must be one schema"));
                };
                if kind(item).is_none() {
                    item.insert("type".to_owned(), "string".into());
                }
                let value = ValueRules::read(name, item)?;
                schema.insert("items".to_owned(), items);
                (Shape::List, value)
            }
            _ => (Shape::One, ValueRules::read(name, schema)?),
        };
        Ok(Self { shape, is_required, default, value })
    }

    /// Whether its text can hold nothing that the author did not think of.
    pub(super) fn is_closed(&self) -> bool {
        self.is_numeric() || self.value.pattern.is_some() || self.value.is_listed
    }

    /// Whether its text is a number, or one that the author has listed.
    pub(super) fn is_chosen(&self) -> bool {
        self.is_numeric() || self.value.is_listed
    }

    /// Whether there is one value in each call.
    pub(super) fn is_always_there(&self) -> bool {
        self.shape == Shape::One && (self.is_required || self.default.is_some())
    }

    /// Whether its text is a number or a truth value.
    pub(super) fn is_numeric(&self) -> bool {
        self.value.scalar != Scalar::Text
    }

    /// Whether it is one truth value.
    pub(super) fn is_boolean(&self) -> bool {
        self.shape == Shape::One && self.value.scalar == Scalar::Boolean
    }

    fn texts(&self, value: &Value) -> Result<Vec<String>, Fault> {
        match (self.shape, value) {
            (Shape::One, value) => Ok(vec![self.value.text(value)?]),
            (Shape::List, Value::Array(list)) => {
                list.iter().map(|item| self.value.text(item)).collect()
            }
            (Shape::List, _) => Err(Fault::Type("a list")),
        }
    }
}

impl ValueRules {
    fn read(name: &str, schema: &mut Map<String, Value>) -> Result<Self, TemplateError> {
        const ADVICE: &str = "needs the `type` string, integer, number, boolean, or array of these";
        let scalar = match kind(schema) {
            Some("string") => Scalar::Text,
            Some("integer") => Scalar::Integer,
            Some("number") => Scalar::Number,
            Some("boolean") => Scalar::Boolean,
            Some(_) | None => return Err(TemplateError::parameter(name, ADVICE)),
        };
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        let range = Range {
            minimum: number("minimum"),
            maximum: number("maximum"),
            above: number("exclusiveMinimum"),
            below: number("exclusiveMaximum"),
        };
        let is_listed =
            schema.get("enum").is_some_and(Value::is_array) || schema.contains_key("const");
        let is_multiline = schema.get(MULTILINE) == Some(&Value::Bool(true));
        let may_be_empty = schema.get(MIN_LENGTH).and_then(Value::as_u64) == Some(0);
        let pattern = match schema.get_mut("pattern") {
            Some(Value::String(pattern)) => Some(whole(name, pattern)?),
            Some(_) => return Err(TemplateError::parameter(name, "`pattern` must be text")),
            None => None,
        };
        Ok(Self { scalar, pattern, is_listed, is_multiline, may_be_empty, range })
    }

    fn text(&self, value: &Value) -> Result<String, Fault> {
        match (self.scalar, value) {
            (Scalar::Text, Value::String(text)) => match &self.pattern {
                Some(pattern) if !pattern.is_match(text) => {
                    Err(Fault::Schema("it must match the whole pattern".to_owned()))
                }
                Some(_) | None => Ok(text.clone()),
            },
            (Scalar::Integer, Value::Number(number)) => {
                // JSON has one kind of number: `5.0` is whole.
                let is_whole = number.as_f64().is_some_and(|value| value.fract() == 0.0);
                if !is_whole {
                    return Err(Fault::Type("a whole number"));
                }
                self.range.check(number)?;
                let whole = number.as_i64().map(|value| value.to_string());
                let whole =
                    whole.unwrap_or_else(|| number.to_string().trim_end_matches(".0").to_owned());
                // JSON keeps the sign of zero.
                Ok(if whole == "-0" { "0".to_owned() } else { whole })
            }
            (Scalar::Number, Value::Number(number)) => {
                self.range.check(number)?;
                Ok(number.to_string())
            }
            (Scalar::Boolean, Value::Bool(value)) => Ok(value.to_string()),
            (Scalar::Text, _) => Err(Fault::Type("text")),
            (Scalar::Integer, _) => Err(Fault::Type("a whole number")),
            (Scalar::Number, _) => Err(Fault::Type("a number")),
            (Scalar::Boolean, _) => Err(Fault::Type("`true` or `false`")),
        }
    }

    fn check_text(&self, text: &str) -> Result<(), Fault> {
        if text.contains('\0') {
            Err(Fault::Nul)
        } else if text.len() > MAX_TEXT {
            Err(Fault::TooLong)
        } else if self.is_listed {
            // The author wrote it.
            Ok(())
        } else if self.has_control(text) {
            Err(Fault::Control)
        } else if text.is_empty() && !self.may_be_empty {
            Err(Fault::Empty)
        } else {
            Ok(())
        }
    }

    /// Whether it has control characters beyond the line breaks and tabs that may be in it.
    fn has_control(&self, text: &str) -> bool {
        let lines = text.replace("\r\n", "\n");
        let text = if self.is_multiline { lines.as_str() } else { text };
        text.chars().any(|c| c.is_control() && !(self.is_multiline && matches!(c, '\n' | '\t')))
    }
}

impl Range {
    fn check(&self, number: &serde_json::Number) -> Result<(), Fault> {
        let value = number.as_f64().unwrap_or(f64::NAN);
        let is_integer = number.is_i64() || number.is_u64();
        let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
        let is_beyond = match size {
            Some(size) if is_integer => size > MAX_SAFE,
            #[expect(clippy::cast_precision_loss, reason = "2^53 - 1 is exact")]
            Some(_) | None => value.fract() == 0.0 && value.abs() > MAX_SAFE as f64,
        };
        let reason = match self {
            _ if is_beyond => "whole numbers go to 9007199254740991".to_owned(),
            Self { minimum: Some(bound), .. } if value < *bound => {
                format!("it must be {bound} or more")
            }
            Self { maximum: Some(bound), .. } if value > *bound => {
                format!("it must be {bound} or less")
            }
            Self { above: Some(bound), .. } if value <= *bound => {
                format!("it must be more than {bound}")
            }
            Self { below: Some(bound), .. } if value >= *bound => {
                format!("it must be less than {bound}")
            }
            Self { .. } => return Ok(()),
        };
        Err(Fault::Range(reason))
    }
}

/// The one type that a schema names; `null` beside it adds nothing, since `null` is no value.
fn kind(schema: &Map<String, Value>) -> Option<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => Some(kind),
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            kinds.next().filter(|_| kinds.next().is_none())
        }
        Some(_) => None,
        None => {
            let listed = schema.get("enum").and_then(Value::as_array);
            listed.filter(|values| values.iter().all(Value::is_string)).map(|_| "string")
        }
    }
}

/// A pattern for whole texts, also in the schema that callers see.
fn whole(name: &str, pattern: &mut String) -> Result<Regex, TemplateError> {
    let compiled = RegexBuilder::new(&format!(r"\A(?:{pattern})\z"))
        .size_limit(PATTERN_MEMORY)
        .dfa_size_limit(PATTERN_MEMORY)
        .build()
        .map_err(|_| {
            let reason = "its `pattern` can't be used; write one without look-around, back references and `\\p`";
            TemplateError::parameter(name, reason)
        })?;
    if !(pattern.starts_with('^') && pattern.ends_with('$')) {
        *pattern = format!("^(?:{pattern})$");
    }
    Ok(compiled)
}

fn names(required: &Value) -> Option<Vec<String>> {
    match required {
        Value::Null => Some(Vec::new()),
        Value::Array(list) => list.iter().map(|name| Some(name.as_str()?.to_owned())).collect(),
        _ => None,
    }
}
