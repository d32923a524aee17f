//! What a model sees: wire names, and text without hidden characters.

use sha2::{Digest, Sha256};

use crate::model::{IdError, ToolId, WireName};

/// Derived names stay this short: clients put `mcp__drawgate__` in front, and many model APIs count
/// the sum against 64.
const MAX_DERIVED: usize = 48;
/// Hexadecimal digits of the identity's hash at the end of a name that was cut.
const HASH_DIGITS: usize = 8;

/// The author's own name, with what is not legal in it replaced.
pub(super) fn flat(id: &ToolId) -> Result<WireName, IdError> {
    let tool = id.tool();
    match WireName::new(tool) {
        Ok(name) => Ok(name),
        Err(_) => derived(id, tool),
    }
}

/// `source__tool`.
pub(super) fn qualified(id: &ToolId) -> Result<WireName, IdError> {
    derived(id, &format!("{}__{}", id.source(), id.tool()))
}

fn derived(id: &ToolId, text: &str) -> Result<WireName, IdError> {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    let name: String = text.chars().map(legal).collect();
    if name.len() <= MAX_DERIVED {
        return WireName::new(&name);
    }
    let digest = hex::encode(Sha256::digest(id.as_str().as_bytes()));
    let head: String = name.chars().take(MAX_DERIVED - HASH_DIGITS - 1).collect();
    let tail: String = digest.chars().take(HASH_DIGITS).collect();
    WireName::new(&format!("{head}_{tail}"))
}

/// What two names have in common if people, or clients that rewrite names, take them for the same.
#[must_use]
pub fn skeleton(name: &str) -> String {
    let fold = |c: char| match c.to_ascii_lowercase() {
        '-' => '_',
        // Look-alikes among the legal characters.
        '1' | 'i' => 'l',
        '0' => 'o',
        other => other,
    };
    name.chars().map(fold).collect()
}

/// Makes characters visible that would hide something from a person who reads the text: controls,
/// zero-width and bidirectional marks, tag characters, variation selectors.
#[must_use]
pub fn visible_text(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.chars().any(hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hidden(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown.into()
}

const fn hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
