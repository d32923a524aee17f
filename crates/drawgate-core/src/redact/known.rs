//! Resolved secret values, and the disguises in which they may turn up: one automaton finds the
//! plain value, hex, base64 at each alignment, percent and JSON escapes, the reversed value and
//! UTF-16, all in one pass.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::MASK;
use super::spans::Spans;

/// Shorter values would blank ordinary words.
const MIN_CHARS: usize = 6;

/// A line of a secret with several lines is looked for by itself from this length on.
const MIN_LINE_CHARS: usize = 16;

/// Finds known values. Without any, it costs nothing. Not `Debug`: it would print them.
pub(super) enum Known {
    /// No value is known.
    Nothing,
    /// The automaton over the values and their disguises.
    Values(AhoCorasick, Vec<Pattern>),
    /// There are values, but no automaton could be built: every text is hidden.
    Everything,
}

/// One disguise of one value.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern {
    text: String,
    /// Characters of base64 that hold the first and last bits, and bits of the neighbours.
    before: usize,
    after: usize,
}

impl Known {
    pub(super) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut patterns = BTreeSet::new();
        for value in values {
            add(value, &mut patterns);
        }
        patterns.retain(|pattern| !MASK.contains(pattern.text.as_str()));
        if patterns.is_empty() {
            return Self::Nothing;
        }
        let patterns = Vec::from_iter(patterns);
        let texts = patterns.iter().map(|pattern| pattern.text.as_bytes());
        match AhoCorasick::builder().match_kind(MatchKind::Standard).build(texts) {
            Ok(automaton) => Self::Values(automaton, patterns),
            Err(_) => Self::Everything,
        }
    }

    pub(super) const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The text without any known value.
    pub(super) fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let (automaton, patterns) = match self {
            Self::Nothing => return Cow::Borrowed(text),
            Self::Everything if text == MASK => return Cow::Borrowed(text),
            Self::Everything => return Cow::Owned(MASK.to_owned()),
            Self::Values(automaton, patterns) => (automaton, patterns),
        };
        if text.len() < MIN_CHARS || !automaton.is_match(text) {
            return Cow::Borrowed(text);
        }
        // Overlapping, because two secrets may share characters and both must go entirely.
        let mut spans = Spans::default();
        for hit in automaton.find_overlapping_iter(text) {
            let Some(pattern) = patterns.get(hit.pattern().as_usize()) else { continue };
            spans.push(
                hit.start() - base64_before(text, hit.start(), pattern.before)
                    ..hit.end() + base64_after(text, hit.end(), pattern.after),
            );
        }
        spans.apply(text).map_or(Cow::Borrowed(text), Cow::Owned)
    }
}

fn base64_before(text: &str, start: usize, at_most: usize) -> usize {
    let before = text.as_bytes().get(..start).unwrap_or_default();
    before.iter().rev().take(at_most).take_while(|b| is_base64(**b)).count()
}

fn base64_after(text: &str, end: usize, at_most: usize) -> usize {
    let after = text.as_bytes().get(end..).unwrap_or_default();
    after.iter().take(at_most).take_while(|b| is_base64(**b)).count()
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

fn add(value: &str, patterns: &mut BTreeSet<Pattern>) {
    if value.chars().count() < MIN_CHARS {
        return;
    }
    let mut whole = |text: String| {
        patterns.insert(Pattern { text, before: 0, after: 0 });
    };
    whole(value.to_owned());
    whole(value.chars().rev().collect());
    whole(hex::encode(value));
    whole(hex::encode_upper(value));
    percent(value).into_iter().for_each(&mut whole);
    let once = json_escaped(value);
    whole(json_escaped(&once));
    whole(once);
    whole(ascii_escaped(value));
    whole(value.replace('/', "\\/"));
    whole(html_escaped(value));
    if value.is_ascii() {
        whole(value.chars().map(String::from).collect::<Vec<_>>().join("\0"));
    }
    if value.contains('\n') {
        let lines = value.lines().map(str::trim);
        lines
            .filter(|line| line.len() >= MIN_LINE_CHARS && !line.starts_with("-----"))
            .for_each(|line| whole(line.to_owned()));
    }
    for alignment in 0..3 {
        patterns.extend(base64_inner(value, alignment));
    }
}

/// The part of the base64 text that is the same whatever stands before and after the value.
fn base64_inner(value: &str, alignment: usize) -> Vec<Pattern> {
    let mut bytes = vec![0; alignment];
    bytes.extend_from_slice(value.as_bytes());
    let first = (alignment * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    let before = usize::from(alignment > 0);
    let after = usize::from(!(bytes.len() * 8).is_multiple_of(6));
    [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)]
        .iter()
        .filter_map(|text| text.get(first..last))
        .map(|text| Pattern { text: text.to_owned(), before, after })
        .collect()
}

/// The usual ways to percent-encode: what must be, as a form, and every byte; in both cases.
fn percent(value: &str) -> Vec<String> {
    let encode = |keep: fn(u8) -> bool| {
        let mut upper = String::new();
        let mut lower = String::new();
        for byte in value.bytes() {
            if keep(byte) {
                upper.push(char::from(byte));
                lower.push(char::from(byte));
            } else {
                // Writing to a `String` can't fail.
                let _ = write!(upper, "%{byte:02X}");
                let _ = write!(lower, "%{byte:02x}");
            }
        }
        [upper, lower]
    };
    let unreserved = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    let component = |b: u8| b.is_ascii_alphanumeric() || b"-_.~!'()*".contains(&b);
    let path = |b: u8| b.is_ascii_alphanumeric() || b"-_.~/".contains(&b);
    let mut out: Vec<String> =
        [encode(unreserved), encode(component), encode(path), encode(|_| false)].concat();
    let forms: Vec<String> =
        out.iter().filter(|text| text.contains("%20")).map(|t| t.replace("%20", "+")).collect();
    out.extend(forms);
    out
}

fn json_escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or(value).to_owned()
}

/// JSON as some encoders write it: everything beyond ASCII as `\u`.
fn ascii_escaped(value: &str) -> String {
    let mut out = String::new();
    for c in json_escaped(value).chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

fn html_escaped(value: &str) -> String {
    value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
