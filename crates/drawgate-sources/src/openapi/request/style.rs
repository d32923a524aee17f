//! How the specification writes values: RFC 6570 with some additions.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use super::encode;
use crate::openapi::parameter::{Parameter, Place, Reserved, Style, Writing};

/// How deep `deepObject` goes into a value; below, it is JSON.
const MAX_DEEP: usize = 16;

/// A value as the styles see it.
enum Shape {
    One(String),
    List(Vec<String>),
    Pairs(Vec<(String, String)>),
}

type Encode = fn(&str) -> String;

/// A value in a path.
pub(super) fn path(parameter: &Parameter, value: &Value) -> String {
    let encode: Encode = encode::unreserved;
    match parameter.writing {
        Writing::Json => encode(&value.to_string()),
        Writing::Styled { style, explode } => {
            let shape = shape(value);
            match style {
                Style::Label => label(&shape, explode, encode),
                Style::Matrix => matrix(&parameter.name, &shape, explode, encode),
                Style::Simple
                | Style::Form
                | Style::SpaceDelimited
                | Style::PipeDelimited
                | Style::DeepObject => simple(&shape, explode, encode),
            }
        }
    }
}

/// A value in a header, which is not encoded.
pub(super) fn header(parameter: &Parameter, value: &Value) -> String {
    match parameter.writing {
        Writing::Json => ascii(&value.to_string()),
        Writing::Styled { explode, .. } => simple(&shape(value), explode, str::to_owned),
    }
}

/// `name=value` pairs of a query or of cookies.
pub(super) fn pairs(parameter: &Parameter, value: &Value) -> Vec<String> {
    let is_cookie = parameter.place == Place::Cookie;
    let reserved = if is_cookie { Reserved::Encoded } else { parameter.reserved };
    field(&parameter.name, value, parameter.writing, reserved)
}

/// `name=value` pairs of a query or of a form.
pub(super) fn field(
    name: &str,
    value: &Value,
    writing: Writing,
    reserved: Reserved,
) -> Vec<String> {
    let encode: Encode = match reserved {
        Reserved::Encoded => encode::unreserved,
        Reserved::Kept => encode::reserved,
    };
    let (style, explode) = match writing {
        Writing::Json => return vec![pair(name, &encode(&value.to_string()))],
        Writing::Styled { style, explode } => (style, explode),
    };
    let separator = match (style, explode) {
        (Style::DeepObject, _) => return deep(name, value, encode),
        (Style::SpaceDelimited, false) => "%20",
        (Style::PipeDelimited, false) => "%7C",
        (
            Style::Form
            | Style::Simple
            | Style::Label
            | Style::Matrix
            | Style::SpaceDelimited
            | Style::PipeDelimited,
            _,
        ) => ",",
    };
    form(name, &shape(value), explode, separator, encode)
}

/// One value as text. Numbers without a fraction are written without one.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => digits(number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn digits(number: &Number) -> String {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            format!("{float:.0}")
        }
        _ => number.to_string(),
    }
}

fn shape(value: &Value) -> Shape {
    match value {
        Value::Array(list) => {
            Shape::List(list.iter().filter(|item| !item.is_null()).map(plain).collect())
        }
        Value::Object(map) => Shape::Pairs(members(map)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Shape::One(plain(value))
        }
    }
}

fn members(map: &Map<String, Value>) -> Vec<(String, String)> {
    let stated = map.iter().filter(|(_, value)| !value.is_null());
    stated.map(|(key, value)| (key.clone(), plain(value))).collect()
}

fn simple(shape: &Shape, explode: bool, encode: Encode) -> String {
    match shape {
        Shape::One(text) => encode(text),
        Shape::List(list) => joined(list, ",", encode),
        Shape::Pairs(pairs) if explode => assigned(pairs, ",", encode),
        Shape::Pairs(pairs) => flat(pairs, ",", encode),
    }
}

fn label(shape: &Shape, explode: bool, encode: Encode) -> String {
    let separator = if explode { "." } else { "," };
    let text = match shape {
        Shape::One(text) => encode(text),
        Shape::List(list) => joined(list, separator, encode),
        Shape::Pairs(pairs) if explode => assigned(pairs, separator, encode),
        Shape::Pairs(pairs) => flat(pairs, separator, encode),
    };
    format!(".{text}")
}

fn matrix(name: &str, shape: &Shape, explode: bool, encode: Encode) -> String {
    let name = encode(name);
    let one = |text: String| {
        if text.is_empty() { format!(";{name}") } else { format!(";{name}={text}") }
    };
    match shape {
        Shape::One(text) => one(encode(text)),
        Shape::List(list) if explode => list.iter().map(|item| one(encode(item))).collect(),
        Shape::List(list) => one(joined(list, ",", encode)),
        Shape::Pairs(pairs) if explode => {
            let one =
                |(key, value): &(String, String)| [";", &encode(key), "=", &encode(value)].concat();
            pairs.iter().map(one).collect()
        }
        Shape::Pairs(pairs) => one(flat(pairs, ",", encode)),
    }
}

fn form(name: &str, shape: &Shape, explode: bool, separator: &str, encode: Encode) -> Vec<String> {
    match shape {
        Shape::One(text) => vec![pair(name, &encode(text))],
        Shape::List(list) if explode => list.iter().map(|item| pair(name, &encode(item))).collect(),
        Shape::Pairs(pairs) if explode => {
            pairs.iter().map(|(key, value)| pair(key, &encode(value))).collect()
        }
        // Nothing of nothing: an empty list is not a list with one empty item.
        Shape::List(list) if list.is_empty() => Vec::new(),
        Shape::Pairs(pairs) if pairs.is_empty() => Vec::new(),
        Shape::List(list) => vec![pair(name, &joined(list, separator, encode))],
        Shape::Pairs(pairs) => vec![pair(name, &flat(pairs, separator, encode))],
    }
}

/// `name[key]=value`; lists and deeper objects as the common parsers of such queries read them:
/// `name[list][0]=value`.
fn deep(name: &str, value: &Value, encode: Encode) -> Vec<String> {
    let mut pairs = Vec::new();
    descend(&encode::unreserved(name), value, encode, MAX_DEEP, &mut pairs);
    pairs
}

fn descend(name: &str, value: &Value, encode: Encode, depth: usize, pairs: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(map) if depth > 0 => {
            for (key, value) in map {
                let name = format!("{name}%5B{}%5D", encode::unreserved(key));
                descend(&name, value, encode, depth - 1, pairs);
            }
        }
        Value::Array(list) if depth > 0 => {
            for (index, value) in list.iter().enumerate() {
                descend(&format!("{name}%5B{index}%5D"), value, encode, depth - 1, pairs);
            }
        }
        Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            pairs.push(format!("{name}={}", encode(&plain(value))));
        }
    }
}

/// Names are encoded whole, whatever the values may keep.
fn pair(name: &str, value: &str) -> String {
    format!("{}={value}", encode::unreserved(name))
}

fn joined(list: &[String], separator: &str, encode: Encode) -> String {
    list.iter().map(|item| encode(item)).collect::<Vec<_>>().join(separator)
}

fn assigned(pairs: &[(String, String)], separator: &str, encode: Encode) -> String {
    let one = |(key, value): &(String, String)| format!("{}={}", encode(key), encode(value));
    pairs.iter().map(one).collect::<Vec<_>>().join(separator)
}

fn flat(pairs: &[(String, String)], separator: &str, encode: Encode) -> String {
    let both = pairs.iter().flat_map(|(key, value)| [encode(key), encode(value)]);
    both.collect::<Vec<_>>().join(separator)
}

/// JSON without characters that a header does not take.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a `String` can't fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}
