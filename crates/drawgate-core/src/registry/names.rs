//! What a model sees: wire names, and text without hidden characters.

use sha2::{Digest, Sha256};

use crate::model::{IdError, ToolId, WireName};

/// Derived names stay this short: clients put a prefix of their own in front, and many model APIs count
/// the sum against 64.
const MAX_DERIVED: usize = 48;
/// Hexadecimal digits of the identity's hash at the end of a name that was cut.
const HASH_DIGITS: usize = 8;

/// The author's own name, with what is not legal in it replaced.
pub(super) fn flat(id: &ToolId, name: &str) -> Result<WireName, IdError> {
    match WireName::new(name) {
        Ok(name) => Ok(name),
        Err(_) => derived(id, name),
    }
}

/// `source__tool`.
pub(super) fn qualified(id: &ToolId, name: &str) -> Result<WireName, IdError> {
    derived(id, &format!("{}__{name}", id.source()))
}

/// A name with the identity's hash at the end, for one that is too long, not legal or taken.
pub(super) fn hashed(id: &ToolId, name: &str) -> Result<WireName, IdError> {
    let digest = hex::encode(Sha256::digest(id.as_str().as_bytes()));
    let head: String = name.chars().map(legal).take(MAX_DERIVED - HASH_DIGITS - 1).collect();
    // What begins with a hyphen looks like an option.
    let head = head.strip_prefix('-').map(|rest| format!("_{rest}")).unwrap_or(head);
    let tail: String = digest.chars().take(HASH_DIGITS).collect();
    WireName::new(&format!("{head}_{tail}"))
}

fn derived(id: &ToolId, text: &str) -> Result<WireName, IdError> {
    if id.is_plain() && text.len() <= MAX_DERIVED {
        return WireName::new(&text.chars().map(legal).collect::<String>());
    }
    hashed(id, text)
}

fn legal(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }
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
/// zero-width and bidirectional marks, tag characters, variation selectors. What writing needs stays: ends
/// of lines (but not a carriage return alone, which lets a terminal write over the line), joiners in emoji and in scripts that use them, and the flags that are spelt with tags.
#[must_use]
pub fn visible_text(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.chars().any(hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("\r\n") {
            shown.push_str("\r\n");
            rest = rest.get(2..).unwrap_or_default();
            continue;
        }
        let kept = if c == FLAG { flag(rest) } else { c.len_utf8() };
        let (now, later) = rest.split_at(kept);
        if hidden(c) && !joins(shown.chars().next_back(), c, later.chars().next()) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push_str(now);
        }
        rest = later;
    }
    shown.into()
}

/// The same for a text that stands in a line of ours: ends of lines are shown, too, so that what others wrote
/// begins no line of its own.
#[must_use]
pub fn visible_line(text: &str) -> std::borrow::Cow<'_, str> {
    let shown = visible_text(text);
    if shown.contains(['\n', '\r']) {
        return shown.replace('\r', "\\r").replace('\n', "\\n").into();
    }
    shown
}

/// The black flag, which begins the flags of parts of countries.
const FLAG: char = '\u{1f3f4}';
/// England, Scotland, Wales: the only ones in use. Any other tag could hide text.
const FLAGS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];

/// How many bytes belong to the flag at the beginning.
fn flag(text: &str) -> usize {
    let tag = |c: char| char::from_u32(0xe0000 + u32::from(c)).unwrap_or(c);
    let spelt = |name: &&str| {
        let tags = name.chars().map(tag).chain(['\u{e007f}']);
        std::iter::once(FLAG).chain(tags).collect::<String>()
    };
    let found = FLAGS.iter().map(spelt).find(|flag| text.starts_with(flag.as_str()));
    found.map_or(FLAG.len_utf8(), |flag| flag.len())
}

/// Whether a joiner or a choice of form stands where writing has one.
fn joins(before: Option<char>, c: char, after: Option<char>) -> bool {
    let Some(before) = before else { return false };
    match c {
        // Text form of a symbol.
        '\u{fe0e}' => pictures(before),
        '\u{200d}' if pictures(before) || before == '\u{fe0f}' => after.is_some_and(pictures),
        '\u{200c}' | '\u{200d}' => joined_script(before) && after.is_some_and(joined_script),
        _ => false,
    }
}

/// Symbols that emoji are made of.
const fn pictures(c: char) -> bool {
    matches!(c,
        '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{2600}'..='\u{27bf}'
        | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Arabic and the scripts of India, whose letters change by their neighbours.
const fn joined_script(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{6ff}' | '\u{750}'..='\u{77f}' | '\u{900}'..='\u{dff}')
}

const fn hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
