//! The strict JSON parser at every edge of the gate.
//!
//! Parsers disagree about duplicate keys, so an object with one could be authorised as one thing and
//! executed as another; it is refused at every depth. Nesting is bounded. The value is built once,
//! at about the cost of `serde_json::from_slice`.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// How deep arrays and objects may nest. `serde_json` itself stops at 128.
pub const MAX_DEPTH: usize = 64;

/// How much of a duplicate key an error shows.
const SHOWN_KEY: usize = 64;

/// Why bytes are not acceptable JSON. No variant repeats the content, but for a key's beginning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Not JSON, not UTF-8, a number without a value, or something after the value.
    #[error("{0}")]
    Syntax(String),
    /// An object has this key twice.
    #[error("duplicate key `{0}`; give each key once")]
    Duplicate(String),
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    Depth,
}

/// Parses exactly one JSON value.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let fault = Cell::new(None);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = Strict { depth: 0, fault: &fault }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    parsed.map_err(|error| fault.take().unwrap_or_else(|| JsonError::Syntax(error.to_string())))
}

/// Parses one JSON value from a program that may have written text that is not Unicode: stray bytes and
/// halves of surrogate pairs become U+FFFD, as in JavaScript. For answers only. What a caller sends is
/// refused instead, so that the gate never decides about other text than was sent.
pub fn parse_lossy(bytes: &[u8]) -> Result<Value, JsonError> {
    parse(bytes).or_else(|error| match error {
        JsonError::Syntax(_) => parse(&mend(bytes)),
        JsonError::Duplicate(_) | JsonError::Depth => Err(error),
    })
}

/// The same text with every stray byte and every lone surrogate replaced. Nothing but strings can have
/// them in a text that is JSON otherwise.
fn mend(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(bytes).into_owned().into_bytes();
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        at += found;
        at += match (escaped_unit(&text, at), escaped_unit(&text, at + UNIT)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 2 * UNIT,
            (Some(0xd800..0xe000), _) => {
                if let Some(lone) = text.get_mut(at..at + UNIT) {
                    lone.copy_from_slice(br"\ufffd");
                }
                UNIT
            }
            // Whatever else is escaped is one byte at least.
            _ => 2,
        };
    }
    text
}

/// The length of `\uXXXX`.
const UNIT: usize = 6;

/// The UTF-16 code unit that is escaped at this place, if one is.
fn escaped_unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at.checked_add(UNIT)?)?.strip_prefix(br"\u")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u16::from_str_radix(digits, 16).ok()
}

/// Builds a value, remembering how deep it is and, beside serde's error, what kind of fault it met.
#[derive(Clone, Copy)]
struct Strict<'a> {
    depth: usize,
    fault: &'a Cell<Option<JsonError>>,
}

impl Strict<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.fail(JsonError::Depth));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn fail<E: serde::de::Error>(self, fault: JsonError) -> E {
        self.fault.set(Some(fault));
        E::custom("refused")
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            match map.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(access.next_value_seed(inner)?);
                }
                Entry::Occupied(place) => return Err(self.fail(duplicate(place.key()))),
            }
        }
        Ok(Value::Object(map))
    }
}

fn duplicate(key: &str) -> JsonError {
    let shown: String = key.chars().take(SHOWN_KEY).collect();
    JsonError::Duplicate(shown.escape_debug().to_string())
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
