//! The strict JSON parser at every edge of the gate.
//!
//! Parsers disagree about duplicate keys, so an object with one could be authorised as one thing and
//! executed as another; it is refused at every depth. Nesting and the number of values are bounded: a value takes
//! many times the two bytes that it may have in the text. The value is built once, at about the cost of
//! `serde_json::from_slice`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::registry::visible_line;

/// How deep arrays and objects may nest. `serde_json` itself stops at 128.
pub const MAX_DEPTH: usize = 64;

/// How many values one text may hold. The largest descriptions of APIs have about half as many.
pub const MAX_VALUES: usize = 1_000_000;

/// How much of a duplicate key an error shows.
const SHOWN_KEY: usize = 64;

/// How many characters are shown of what is no JSON.
const MAX_BEGINNING: usize = 60;

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
    /// More values than [`MAX_VALUES`].
    #[error("more than {MAX_VALUES} values")]
    Values,
}

impl JsonError {
    /// The fault in a sentence about an answer: a parser's words alone say nothing to who wrote the program.
    #[must_use]
    pub fn about_answer(&self) -> String {
        match self {
            Self::Syntax(reason) => format!("it is not JSON ({reason})"),
            Self::Duplicate(_) | Self::Depth | Self::Values => self.to_string(),
        }
    }

    /// The same, with the words that the answer begins with where it is something else than JSON.
    #[must_use]
    pub fn about(&self, answer: &[u8]) -> String {
        let answer = answer.trim_ascii();
        match self {
            Self::Syntax(_) if answer.is_empty() => "it is empty".to_owned(),
            Self::Syntax(_) if !answer.starts_with(b"{") && !answer.starts_with(b"[") => {
                match beginning(answer) {
                    Some(words) => format!("it is not JSON; it begins with `{words}`"),
                    None => "it is not JSON".to_owned(),
                }
            }
            _ => self.about_answer(),
        }
    }
}

/// The first words of a text, fit for a message. Words are shown whole or not at all: part of a secret would not
/// be known as one.
fn beginning(text: &[u8]) -> Option<String> {
    let read = text.get(..MAX_BEGINNING * 4).unwrap_or(text);
    let text = String::from_utf8_lossy(read);
    let end = text.char_indices().nth(MAX_BEGINNING).map_or(text.len(), |(at, _)| at);
    let shown = text.get(..end)?;
    let shown = if shown.len() < text.len() {
        shown.rsplit_once(char::is_whitespace).map(|(words, _)| words)?
    } else {
        shown
    };
    Some(visible_line(shown).into_owned())
}

/// Parses exactly one JSON value.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let state = State::default();
    whole(bytes, Strict { depth: 0, state: &state }, &state)
}

/// Parses exactly one JSON value into a type. For documents of others that a type describes: what the type
/// does not know is bounded, too.
pub fn parse_as<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    let wrong = |error: serde_json::Error| JsonError::Syntax(error.to_string());
    serde_json::from_value(parse(bytes)?).map_err(wrong)
}

/// Whether a text is the JSON of a value. Nothing is built of the text, which is read up to the first difference.
#[must_use]
pub fn is_json_of(text: &str, value: &Value) -> bool {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Same(value).deserialize(&mut deserializer).and_then(|()| deserializer.end()).is_ok()
}

/// What a text is whose outermost members somebody reads by name.
#[derive(Debug, Clone, PartialEq)]
pub enum Outermost<const N: usize> {
    /// An object, and the values under the names that were asked for.
    Object([Option<Value>; N]),
    /// Any other value.
    Other(Value),
}

/// Parses exactly one JSON value, of whose outermost members only those with these names are kept. The
/// others are held to the same rules.
pub fn parse_members<const N: usize>(
    bytes: &[u8],
    names: [&str; N],
) -> Result<Outermost<N>, JsonError> {
    let state = State::default();
    whole(bytes, Members { strict: Strict { depth: 0, state: &state }, names }, &state)
}

fn whole<'de, S: DeserializeSeed<'de>>(
    bytes: &'de [u8],
    seed: S,
    state: &State,
) -> Result<S::Value, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed =
        seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    parsed
        .map_err(|error| state.fault.take().unwrap_or_else(|| JsonError::Syntax(error.to_string())))
}

/// Parses one JSON value from a program that may have written text that is not Unicode: stray bytes and
/// halves of surrogate pairs become U+FFFD, as in JavaScript. For answers only. What a caller sends is
/// refused instead, so that the gate never decides about other text than was sent.
pub fn parse_lossy(bytes: &[u8]) -> Result<Value, JsonError> {
    parse(bytes).or_else(|error| parse(&mend_if_it_may_help(bytes, error)?))
}

/// The same for a text whose outermost members are read by name.
pub fn parse_members_lossy<const N: usize>(
    bytes: &[u8],
    names: [&str; N],
) -> Result<Outermost<N>, JsonError> {
    parse_members(bytes, names)
        .or_else(|error| parse_members(&mend_if_it_may_help(bytes, error)?, names))
}

fn mend_if_it_may_help(bytes: &[u8], error: JsonError) -> Result<Vec<u8>, JsonError> {
    match error {
        JsonError::Syntax(_) => Ok(mend(bytes)),
        JsonError::Duplicate(_) | JsonError::Depth | JsonError::Values => Err(error),
    }
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

/// What is known of a text while it is read.
#[derive(Default)]
struct State {
    values: Cell<usize>,
    /// Beside serde's error, what kind of fault it met.
    fault: Cell<Option<JsonError>>,
}

/// Builds a value, remembering how deep it is.
#[derive(Clone, Copy)]
struct Strict<'a> {
    depth: usize,
    state: &'a State,
}

impl Strict<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.fail(JsonError::Depth));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn fail<E: serde::de::Error>(self, fault: JsonError) -> E {
        self.state.fault.set(Some(fault));
        E::custom("refused")
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let values = self.state.values.get() + 1;
        if values > MAX_VALUES {
            return Err(self.fail(JsonError::Values));
        }
        self.state.values.set(values);
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

/// Compares a text with a value while it is read. A difference is an error, so that reading stops.
struct Same<'v>(&'v Value);

impl Same<'_> {
    fn is<E: serde::de::Error>(&self, other: &Value) -> Result<(), E> {
        if self.0 == other { Ok(()) } else { Err(differs()) }
    }
}

fn differs<E: serde::de::Error>() -> E {
    E::custom("differs")
}

impl<'de> DeserializeSeed<'de> for Same<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Same<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the same JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.is(&Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.is(&Value::Bool(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.is(&value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.is(&value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.is(&value.into())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        if self.0.as_str() == Some(value) { Ok(()) } else { Err(differs()) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let items = self.0.as_array().ok_or_else(differs)?;
        for item in items {
            seq.next_element_seed(Same(item))?.ok_or_else(differs)?;
        }
        seq.next_element_seed(Nothing).map(drop)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        let members = self.0.as_object().ok_or_else(differs)?;
        let mut seen = BTreeSet::new();
        while let Some(key) = access.next_key::<String>()? {
            let (key, value) = members.get_key_value(&key).ok_or_else(differs)?;
            if !seen.insert(key) {
                return Err(differs());
            }
            access.next_value_seed(Same(value))?;
        }
        if seen.len() == members.len() { Ok(()) } else { Err(differs()) }
    }
}

/// Differs from every value: what comes behind the last one.
struct Nothing;

impl<'de> DeserializeSeed<'de> for Nothing {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
        Err(differs())
    }
}

/// Reads the outermost value: an object without a map for its few members.
struct Members<'a, 'n, const N: usize> {
    strict: Strict<'a>,
    names: [&'n str; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Members<'_, '_, N> {
    type Value = Outermost<N>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Outermost<N>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Members<'_, '_, N> {
    type Value = Outermost<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.strict.expecting(f)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Outermost<N>, E> {
        self.strict.visit_unit().map(Outermost::Other)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Outermost<N>, E> {
        self.strict.visit_bool(value).map(Outermost::Other)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Outermost<N>, E> {
        self.strict.visit_u64(value).map(Outermost::Other)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Outermost<N>, E> {
        self.strict.visit_i64(value).map(Outermost::Other)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Outermost<N>, E> {
        self.strict.visit_f64(value).map(Outermost::Other)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Outermost<N>, E> {
        self.strict.visit_str(value).map(Outermost::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Outermost<N>, A::Error> {
        self.strict.visit_seq(seq).map(Outermost::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Outermost<N>, A::Error> {
        let Self { strict, names } = self;
        let inner = strict.deeper()?;
        let mut found = [const { None }; N];
        let mut others = BTreeSet::new();
        while let Some(key) = access.next_key_seed(Key(names))? {
            match key {
                Named::At(at) => match found.get_mut(at) {
                    Some(place @ None) => *place = Some(access.next_value_seed(inner)?),
                    _ => return Err(strict.fail(duplicate(names.get(at).unwrap_or(&"")))),
                },
                Named::Other(key) => {
                    if others.contains(&key) {
                        return Err(strict.fail(duplicate(&key)));
                    }
                    access.next_value_seed(inner)?;
                    others.insert(key);
                }
            }
        }
        Ok(Outermost::Object(found))
    }
}

/// A member's name: the place of one that was asked for, or itself.
enum Named {
    At(usize),
    Other(String),
}

struct Key<'n, const N: usize>([&'n str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Key<'_, N> {
    type Value = Named;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Named, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<const N: usize> Visitor<'_> for Key<'_, N> {
    type Value = Named;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Named, E> {
        let at = self.0.iter().position(|name| *name == key);
        Ok(at.map_or_else(|| Named::Other(key.to_owned()), Named::At))
    }
}

fn duplicate(key: &str) -> JsonError {
    let shown: String = key.chars().take(SHOWN_KEY).collect();
    JsonError::Duplicate(shown.escape_debug().to_string())
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
