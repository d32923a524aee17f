//! Percent encoding.

use std::fmt::Write as _;

/// Reserved characters that don't end a value in a query.
const HARMLESS: &[u8] = b":/?@!$'()*,=";

/// How often a text is decoded. Nobody who means well writes one that needs more.
const MAX_LAYERS: usize = 8;

/// All but letters, digits and `-._~` is encoded.
pub(in crate::openapi) fn unreserved(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        push(byte, is_unreserved(byte), &mut out);
    }
    out
}

/// Reserved characters stay, and what is encoded already; `#`, `[`, `]`, `&`, `;` and `+` would end the
/// value or change it, and don't.
pub(super) fn reserved(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let is_triplet = byte == b'%'
            && after.first().is_some_and(u8::is_ascii_hexdigit)
            && after.get(1).is_some_and(u8::is_ascii_hexdigit);
        push(byte, is_triplet || is_unreserved(byte) || HARMLESS.contains(&byte), &mut out);
        rest = after;
    }
    out
}

/// Text of a document's path template: what can't stand in a path is encoded, and nothing ends it.
pub(in crate::openapi) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let plain = |byte: u8| is_unreserved(byte) || b"/%:@!$&'()*+,;=".contains(&byte);
    for byte in text.bytes() {
        push(byte, plain(byte), &mut out);
    }
    out
}

/// What an encoded text says.
pub(super) fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&decode(text.as_bytes())).into_owned()
}

/// What it says to who decodes it again and again; `None` if that has no end in sight.
pub(super) fn decoded_fully(text: &str) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..MAX_LAYERS {
        let next = decode(&bytes);
        if next.len() == bytes.len() {
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        bytes = next;
    }
    None
}

fn decode(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return out,
            [b'%', high, low, after @ ..] if digit(high).is_some() && digit(low).is_some() => {
                out.push(digit(high).unwrap_or_default() << 4 | digit(low).unwrap_or_default());
                after
            }
            [byte, after @ ..] => {
                out.push(*byte);
                after
            }
        };
    }
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn push(byte: u8, plain: bool, out: &mut String) {
    if plain {
        out.push(char::from(byte));
    } else {
        // Writing to a `String` can't fail.
        let _ = write!(out, "%{byte:02X}");
    }
}
