//! Percent encoding.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};

/// All but letters, digits and `-._~`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same without reserved characters that don't end a value in a query.
const ENDS_VALUE: &AsciiSet = &RESERVED
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b'=');
/// The same without what may stand in a path; `?` and `#` would end it.
const ENDS_PATH: &AsciiSet =
    &ENDS_VALUE.remove(b'%').remove(b'&').remove(b'+').remove(b';').add(b'?');

/// How often a text is decoded. Only an attacker writes one that needs more.
const MAX_LAYERS: usize = 8;

/// All but letters, digits and `-._~` is encoded.
pub(in crate::openapi) fn unreserved(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Reserved characters stay, and what is encoded already; `#`, `[`, `]`, `&`, `;` and `+` would end the
/// value or change it, and don't.
pub(super) fn reserved(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('%').enumerate() {
        if index > 0 {
            let encoded = part.as_bytes().get(..2);
            let is_triplet = encoded.is_some_and(|it| it.iter().all(u8::is_ascii_hexdigit));
            out.push_str(if is_triplet { "%" } else { "%25" });
        }
        out.extend(utf8_percent_encode(part, ENDS_VALUE));
    }
    out
}

/// Text of a document's path template: what can't stand in a path is encoded, and nothing ends it.
pub(in crate::openapi) fn literal(text: &str) -> String {
    utf8_percent_encode(text, ENDS_PATH).to_string()
}

/// What an encoded text says.
pub(super) fn decoded(text: &str) -> String {
    String::from_utf8_lossy(&decode(text.as_bytes())).into_owned()
}

/// What it says if it is decoded until nothing is encoded; `None` if that takes too long.
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
    percent_decode(text).collect()
}
