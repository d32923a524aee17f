//! Resolved secret values, and the disguises in which they may turn up: one automaton finds the
//! plain value, hex, base64 at each alignment, percent and JSON escapes, the reversed value and
//! UTF-16, all in one pass; another finds all of these where line ends break them up.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::MASK;
use super::spans::Spans;

/// From this length on a value is masked anywhere and in every disguise. A shorter one would blank
/// parts of ordinary words, so it is masked as it is, and only where it stands alone.
const MIN_CHARS: usize = 8;

/// Still shorter values are not masked at all: they are words and numbers of every text.
const MIN_ALONE_CHARS: usize = 4;

/// Values and disguises of this length are also found where they are broken over lines.
const MIN_WRAPPED: usize = 12;

/// A line of a secret with several lines is looked for by itself from this length on.
const MIN_LINE_CHARS: usize = 16;

/// Finds known values. Without any, it costs nothing. Not `Debug`: it would print them.
pub(super) enum Known {
    /// No value is known.
    Nothing,
    /// The values and their disguises.
    Values(Box<Values>),
    /// There are values, but no automaton could be built: every text is hidden.
    Everything,
}

/// Patterns, each list with the automaton over it.
pub(super) struct Values {
    plain: (AhoCorasick, Vec<Pattern>),
    /// The same without blanks and line ends, for texts that are taken without them.
    wrapped: (AhoCorasick, Vec<Pattern>),
    /// Bytes of the shortest pattern: a shorter text holds none.
    shortest: usize,
}

/// One disguise of one value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern {
    text: String,
    /// It counts only without a letter or digit beside it.
    alone: bool,
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
        let squeezed = patterns.iter().map(|pattern| {
            let (bytes, _) = squeezed(&pattern.text);
            Pattern { text: String::from_utf8_lossy(&bytes).into_owned(), ..pattern.clone() }
        });
        let squeezed: BTreeSet<Pattern> =
            squeezed.filter(|pattern| pattern.text.len() >= MIN_WRAPPED).collect();
        let shortest = patterns.iter().chain(&squeezed).map(|pattern| pattern.text.len()).min();
        match (with_automaton(patterns), with_automaton(squeezed)) {
            (Some(plain), Some(wrapped)) => {
                let shortest = shortest.unwrap_or_default();
                Self::Values(Box::new(Values { plain, wrapped, shortest }))
            }
            _ => Self::Everything,
        }
    }

    pub(super) const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The text without any known value.
    pub(super) fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let values = match self {
            Self::Nothing => return Cow::Borrowed(text),
            Self::Everything if text == MASK => return Cow::Borrowed(text),
            Self::Everything => return Cow::Owned(MASK.to_owned()),
            Self::Values(values) => values,
        };
        if text.len() < values.shortest {
            return Cow::Borrowed(text);
        }
        let mut spans = Spans::default();
        values.find(text, &mut spans);
        if has_line_end(text) {
            values.find_wrapped(text, &mut spans);
        }
        spans.apply(text).map_or(Cow::Borrowed(text), Cow::Owned)
    }
}

impl Values {
    fn find(&self, text: &str, spans: &mut Spans) {
        let (automaton, patterns) = &self.plain;
        if !automaton.is_match(text) {
            return;
        }
        // Overlapping, because two secrets may share characters and both must go entirely.
        for hit in automaton.find_overlapping_iter(text) {
            let Some(pattern) = patterns.get(hit.pattern().as_usize()) else { continue };
            if !pattern.alone || stands_alone(text, hit.start(), hit.end()) {
                spans.push(pattern.edges(text, hit.start(), hit.end()));
            }
        }
    }

    /// Finds what stands over several lines: the text is read without blanks and line ends.
    fn find_wrapped(&self, text: &str, spans: &mut Spans) {
        let (automaton, patterns) = &self.wrapped;
        let (bytes, places) = squeezed(text);
        if !automaton.is_match(&bytes) {
            return;
        }
        for hit in automaton.find_overlapping_iter(&bytes) {
            let Some(pattern) = patterns.get(hit.pattern().as_usize()) else { continue };
            let last = hit.end().checked_sub(1).and_then(|last| places.get(last));
            if let (Some(start), Some(last)) = (places.get(hit.start()), last) {
                spans.push(pattern.edges(text, *start, last + 1));
            }
        }
    }
}

impl Pattern {
    /// The range of a hit, with the characters of base64 that share bits with it.
    fn edges(&self, text: &str, start: usize, end: usize) -> Range<usize> {
        start - base64_before(text, start, self.before)..end + base64_after(text, end, self.after)
    }
}

fn with_automaton(patterns: BTreeSet<Pattern>) -> Option<(AhoCorasick, Vec<Pattern>)> {
    let patterns = Vec::from_iter(patterns);
    let texts = patterns.iter().map(|pattern| pattern.text.as_bytes());
    let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(texts).ok()?;
    Some((automaton, patterns))
}

fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let before = text.get(..start).and_then(|text| text.chars().next_back());
    let after = text.get(end..).and_then(|text| text.chars().next());
    !before.into_iter().chain(after).any(char::is_alphanumeric)
}

fn has_line_end(text: &str) -> bool {
    let bytes = text.as_bytes();
    // One look at each byte: this is asked of every text, and most have neither.
    bytes.iter().enumerate().any(|(at, byte)| match byte {
        b'\n' | b'\r' => true,
        b'\\' => matches!(bytes.get(at + 1), Some(b'n' | b'r')),
        _ => false,
    })
}

/// The bytes without blanks and line ends, real and escaped, and where each of them stood.
fn squeezed(text: &str) -> (Vec<u8>, Vec<usize>) {
    let bytes = text.as_bytes();
    let (mut kept, mut places) = (Vec::with_capacity(bytes.len()), Vec::with_capacity(bytes.len()));
    let mut at = 0;
    while let Some(next) = bytes.get(at) {
        let rest = bytes.get(at..).unwrap_or_default().iter().take(MAX_ESCAPES + 1);
        let escapes = rest.take_while(|b| **b == b'\\').count();
        let is_blank = matches!(bytes.get(at + escapes), Some(b'n' | b'r' | b't'));
        if (1..=MAX_ESCAPES).contains(&escapes) && is_blank {
            at += escapes + 1;
            continue;
        }
        if !next.is_ascii_whitespace() {
            kept.push(*next);
            places.push(at);
        }
        at += 1;
    }
    (kept, places)
}

/// Backslashes before the `n` of an escaped line end, in a string inside strings.
const MAX_ESCAPES: usize = 4;

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

/// Whether a value is so short that it is never masked.
pub(super) fn is_too_short(value: &str) -> bool {
    value.chars().count() < MIN_ALONE_CHARS
}

fn add(value: &str, patterns: &mut BTreeSet<Pattern>) {
    if is_too_short(value) {
        return;
    }
    let alone = value.chars().count() < MIN_CHARS;
    let mut whole = |text: String| {
        patterns.insert(Pattern { text, alone, before: 0, after: 0 });
    };
    if alone {
        return whole(value.to_owned());
    }
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
        .map(|text| Pattern { text: text.to_owned(), alone: false, before, after })
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
