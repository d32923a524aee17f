//! Canonical JSON after RFC 8785, the form that is hashed and signed.
//!
//! Keys are sorted by UTF-16 code units, strings escaped as little as possible, doubles written as
//! ECMAScript does (`1.0` is `1`, `-0` is `0`). One deliberate difference: integers beyond 2^53 that
//! fit 64 bits are written exactly instead of being rounded to a double, because an audit log that
//! silently changes an id would be worse than one that other tools hash differently.

use std::cmp::Ordering;
use std::io::Write as _;

use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

/// Appends the canonical form of a value.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => write_array(items, out),
        Value::Object(map) => write_map(map, out),
    }
}

/// Appends the canonical form of an object.
pub fn write_map(map: &Map<String, Value>, out: &mut Vec<u8>) {
    if map.keys().is_sorted_by(|a, b| utf16_order(a, b) != Ordering::Greater) {
        return write_members(map.iter(), out);
    }
    let mut members: Vec<(&String, &Value)> = map.iter().collect();
    members.sort_unstable_by(|(a, _), (b, _)| utf16_order(a, b));
    write_members(members.into_iter(), out);
}

/// The canonical form of a value.
#[must_use]
pub fn to_string(value: &Value) -> String {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out);
    into_text(out)
}

/// SHA-256 in hexadecimal.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal. Several per call are made, so this is arithmetic and not a formatter.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
    let mut text = vec![0; bytes.len() * 2];
    for ([high, low], byte) in text.as_chunks_mut().0.iter_mut().zip(bytes) {
        (*high, *low) = (digit(byte >> 4), digit(byte & 15));
    }
    into_text(text)
}

/// SHA-256 of the canonical form of a value, in hexadecimal.
#[must_use]
pub fn hash(value: &Value) -> String {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out);
    sha256_hex(&out)
}

/// Appends a string with its quotes.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    out.push(b'"');
    let mut rest = text.as_bytes();
    // Without early exit this is a few vector instructions, and most texts hold nothing special.
    if !rest.iter().fold(false, |found, byte| found | is_special(*byte)) {
        out.extend_from_slice(rest);
        out.push(b'"');
        return;
    }
    while let Some(at) = rest.iter().position(|byte| is_special(*byte)) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        if let Some((byte, after)) = special.split_first() {
            write_escape(*byte, out);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// The order of keys: by UTF-16 code units, which is byte order for most keys.
pub(crate) fn utf16_order(a: &str, b: &str) -> Ordering {
    // Bytes below 0xEE mean code points below U+E000, where both orders agree.
    match a.bytes().zip(b.bytes()).find(|(x, y)| x != y) {
        Some((x, y)) if x < 0xEE && y < 0xEE => x.cmp(&y),
        None => a.len().cmp(&b.len()),
        Some(_) => a.encode_utf16().cmp(b.encode_utf16()),
    }
}

/// Text from bytes that this module wrote, which are UTF-8 by construction.
pub(crate) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn write_members<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, (key, value)) in members.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_text(key, out);
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

fn write_array(items: &[Value], out: &mut Vec<u8>) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x09 => out.extend_from_slice(b"\\t"),
        0x0a => out.extend_from_slice(b"\\n"),
        0x0c => out.extend_from_slice(b"\\f"),
        0x0d => out.extend_from_slice(b"\\r"),
        // Writing to a vector can't fail.
        other => drop(write!(out, "\\u{other:04x}")),
    }
}

fn write_number(number: &Number, out: &mut Vec<u8>) {
    if let Some(value) = number.as_u64() {
        drop(write!(out, "{value}"));
    } else if let Some(value) = number.as_i64() {
        drop(write!(out, "{value}"));
    } else {
        write_double(number, out);
    }
}

/// ECMAScript's `Number::toString`. The shortest digits come from `serde_json`, because the standard
/// library rounds a tie up where ECMAScript takes the even digit; only the layout differs.
fn write_double(number: &Number, out: &mut Vec<u8>) {
    let text = number.to_string();
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let leading = digits.len() - significant.len();
    let significant = significant.trim_end_matches('0');
    if significant.is_empty() {
        out.push(b'0');
        return;
    }
    let offset = |n: usize| i32::try_from(n).unwrap_or_default();
    let point = exponent.parse().unwrap_or(0) + offset(whole.len()) - offset(leading);
    out.extend_from_slice(sign.as_bytes());
    out.extend_from_slice(lay_out(significant, point).as_bytes());
}

/// Places the decimal point after `point` digits.
fn lay_out(digits: &str, point: i32) -> String {
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or_default());
    let split = |n: i32| {
        digits.split_at_checked(usize::try_from(n).unwrap_or_default()).unwrap_or((digits, ""))
    };
    match point {
        1..=21 if count <= point => format!("{digits}{}", zeros(point - count)),
        1..=21 => {
            let (whole, fraction) = split(point);
            format!("{whole}.{fraction}")
        }
        -5..=0 => format!("0.{}{digits}", zeros(-point)),
        _ => {
            let (first, rest) = split(1);
            let dot = if rest.is_empty() { "" } else { "." };
            format!("{first}{dot}{rest}e{:+}", point - 1)
        }
    }
}

#[cfg(test)]
#[path = "canonical_tests.rs"]
mod tests;
