//! Questions to the word lists: whether a word takes a telling name back, or a value is no secret.

use super::vocabulary::VOCABULARY;

pub(super) fn is_benign(word: &[u8]) -> bool {
    str::from_utf8(word).is_ok_and(|word| VOCABULARY.benign.contains(word))
}

pub(super) fn is_quantity(word: &[u8]) -> bool {
    str::from_utf8(word).is_ok_and(|word| VOCABULARY.quantities.contains(word))
}

pub(super) fn is_fused_tail(word: &[u8]) -> bool {
    str::from_utf8(word).is_ok_and(|word| VOCABULARY.tails.contains(word))
}

/// Whether an unquoted value in text is a known plain word, or a reference to a variable.
pub(super) fn is_no_secret(value: &str) -> bool {
    let value = value.trim_end_matches([',', ';', '.', ')', '}']);
    if value.is_empty() {
        return true;
    }
    if value.len() > LONGEST_PLAIN {
        return false;
    }
    is_type(value)
        || VOCABULARY.plain.contains(value.to_ascii_lowercase().as_str())
        || is_variable(value)
}

/// Longer values are never compared with the lists, which keeps the scan linear.
const LONGEST_PLAIN: usize = 64;

/// A type with a parameter, or a borrowed one, as in the source code of a program.
fn is_type(value: &str) -> bool {
    ["Option<", "Vec<", "Secret<", "Arc<", "Box<", "Result<", "Cow<", "Promise<", "&'", "&mut "]
        .iter()
        .any(|start| value.starts_with(start))
}

/// `$NAME`, `${NAME`, `env:NAME`: only in capitals, as shells and our own references use them.
fn is_variable(value: &str) -> bool {
    let name = value
        .strip_prefix("env:")
        .or_else(|| value.strip_prefix("${"))
        .or_else(|| value.strip_prefix('$'));
    name.is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    })
}

/// Whether a value looks generated: long enough and of more than one kind of character.
pub(super) fn looks_random(value: &str, at_least: usize) -> bool {
    let has = |test: fn(&u8) -> bool| usize::from(value.bytes().any(|b| test(&b)));
    let kinds = has(u8::is_ascii_lowercase) + has(u8::is_ascii_uppercase) + has(u8::is_ascii_digit);
    value.len() >= at_least && kinds >= 2
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
