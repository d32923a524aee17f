//! Which types of JSON a schema leaves for a property, as far as that can be told without a value.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use drawgate_core::json;
use serde_json::Value;

/// How many schemas are looked at for one property; of the others nothing is told. They come from
/// strangers, and may refer to one another in circles.
const MAX_SCHEMAS: usize = 256;

/// A type of JSON. What a schema calls a number is both of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Type {
    String,
    Integer,
    Fraction,
    Boolean,
    Array,
    Object,
    Null,
}

impl Type {
    const ALL: [Self; 7] = [
        Self::String,
        Self::Integer,
        Self::Fraction,
        Self::Boolean,
        Self::Array,
        Self::Object,
        Self::Null,
    ];

    fn named(name: &str) -> Option<&'static [Self]> {
        match name {
            "string" => Some(&[Self::String]),
            "integer" => Some(&[Self::Integer]),
            "number" => Some(&[Self::Integer, Self::Fraction]),
            "boolean" => Some(&[Self::Boolean]),
            "array" => Some(&[Self::Array]),
            "object" => Some(&[Self::Object]),
            "null" => Some(&[Self::Null]),
            _ => None,
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Boolean,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() && float.fract() != 0.0 => Self::Fraction,
                _ => Self::Integer,
            },
        }
    }
}

/// The types that a value may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Types(BTreeSet<Type>);

impl Types {
    fn any() -> Self {
        Self(Type::ALL.into())
    }

    /// Those of a tool's argument. Of one that the schema does not name, nothing is known.
    pub(super) fn of_property(schema: &Value, name: &str) -> Self {
        match schema.get("properties").and_then(|properties| properties.get(name)) {
            Some(property) => Self::allowed(property, schema, &Cell::new(MAX_SCHEMAS)),
            None => Self::any(),
        }
    }

    /// What every keyword of a schema allows.
    fn allowed(schema: &Value, root: &Value, left: &Cell<usize>) -> Self {
        let Some(fewer) = left.get().checked_sub(1) else { return Self::any() };
        left.set(fewer);
        let inner = |schema: &Value| Self::allowed(schema, root, left);
        let mut types = Self::any();
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            let allowed = match (keyword.as_str(), value) {
                ("type", named) => Self::named(named),
                ("const", value) => Self([Type::of(value)].into()),
                ("enum", Value::Array(values)) => Self(values.iter().map(Type::of).collect()),
                ("$ref", Value::String(place)) => match referred(root, place) {
                    Some(schema) => inner(schema),
                    None => continue,
                },
                ("anyOf" | "oneOf", Value::Array(schemas)) => {
                    Self(schemas.iter().flat_map(|schema| inner(schema).0).collect())
                }
                ("allOf", Value::Array(schemas)) => {
                    let all = schemas.iter().map(inner);
                    all.fold(Self::any(), |one, other| one.and(&other))
                }
                _ => continue,
            };
            types = types.and(&allowed);
        }
        types
    }

    fn named(names: &Value) -> Self {
        let names = match names {
            Value::Array(names) => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        let each = names.iter().map(|name| name.as_str().and_then(Type::named));
        let types: Option<Vec<&[Type]>> = each.collect();
        types.map_or_else(Self::any, |types| Self(types.concat().into_iter().collect()))
    }

    fn and(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Text as a value of one of the types. It stays text wherever text may stand, and where nothing
    /// may, so that the gateway says what is wrong.
    pub(super) fn read(&self, text: &str) -> Option<Value> {
        if self.0.is_empty() || self.0.contains(&Type::String) {
            return Some(text.into());
        }
        json::parse(text.as_bytes()).ok().filter(|value| self.0.contains(&Type::of(value)))
    }

    /// Something to write after `name=`, fit for a shell.
    pub(super) fn example(&self) -> &'static str {
        match self.0.first() {
            Some(Type::Integer) if self.0.contains(&Type::Fraction) => "0.5",
            Some(Type::Integer) => "7",
            Some(Type::Fraction) => "0.5",
            Some(Type::Boolean) => "true",
            Some(Type::Array) => "'[\"a\", \"b\"]'",
            Some(Type::Object) => "'{\"a\": 1}'",
            Some(Type::Null) => "null",
            Some(Type::String) | None => "TEXT",
        }
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_fractions = self.0.contains(&Type::Fraction);
        let words = self.0.iter().filter_map(|kind| match kind {
            Type::String => Some("text"),
            Type::Integer if has_fractions => None,
            Type::Integer => Some("an integer"),
            Type::Fraction => Some("a number"),
            Type::Boolean => Some("`true` or `false`"),
            Type::Array => Some("a list as JSON"),
            Type::Object => Some("an object as JSON"),
            Type::Null => Some("`null`"),
        });
        f.write_str(&words.collect::<Vec<_>>().join(" or "))
    }
}

/// The schema that a reference within the same document means.
fn referred<'a>(root: &'a Value, place: &str) -> Option<&'a Value> {
    root.pointer(place.strip_prefix('#')?)
}
