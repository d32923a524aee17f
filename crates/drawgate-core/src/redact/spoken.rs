//! Secrets that only a word announces: `Bearer …`, `password is …`, `IDENTIFIED BY '…'`, and the
//! lines of a netrc file.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::extent::{self, Mode, byte, skip};
use super::spans::Spans;
use super::vocabulary::VOCABULARY;
use super::words::looks_random;

/// How sure a word makes us that a secret follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Of a scheme: any long word is one.
    Scheme,
    /// Also what stands in quotes.
    Password,
    /// Only what looks generated.
    Token,
}

impl Trust {
    /// What the vocabulary calls so.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "scheme" => Some(Self::Scheme),
            "password" => Some(Self::Password),
            "token" => Some(Self::Token),
            _ => None,
        }
    }
}

static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(VOCABULARY.announcing.iter().map(|(word, _)| word))
        .ok()
});

/// Notes every announced secret.
pub(super) fn find(text: &str, spans: &mut Spans) {
    let Some(finder) = FINDER.as_ref() else { return spans.push(0..text.len()) };
    for hit in finder.find_iter(text) {
        let Some((_, trust)) = VOCABULARY.announcing.get(hit.pattern().as_usize()) else {
            continue;
        };
        let range = hit.start()..hit.end();
        if let Some(value) = announced(text, range, *trust) {
            spans.push_value(text, value);
        }
    }
}

/// No more than this is read to judge a word.
const LONGEST_READ: usize = 512;

fn announced(text: &str, word: Range<usize>, trust: Trust) -> Option<Range<usize>> {
    let start = value_start(text, word.end)?;
    let limit = text.floor_char_boundary(start + LONGEST_READ);
    let range = extent::value(text.get(..limit)?, start, Mode::Word);
    let value = text.get(range.clone())?;
    let quoted = range.start > start;
    let hides = match trust {
        Trust::Scheme => value.len() >= 16 || looks_random(value, 8),
        Trust::Password => (quoted && !value.is_empty()) || generated(value),
        Trust::Token => generated(value),
    };
    (hides || is_netrc(text, word.start)).then(|| range.start..whole_end(text, &range))
}

/// After the word and perhaps `is` or `was`.
fn value_start(text: &str, end: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let start = skip(bytes, end, |b| b == b' ');
    if start == end || start > end + 4 {
        return None;
    }
    let rest = text.get(start..)?;
    let verb =
        ["is ", "was ", "of ", "= ", "value ", "is: "].iter().find(|verb| rest.starts_with(**verb));
    Some(start + verb.map_or(0, |verb| verb.len()))
}

/// A value that was longer than what was read is hidden to the end of its word.
fn whole_end(text: &str, range: &Range<usize>) -> usize {
    if range.len() + 8 < LONGEST_READ {
        return range.end;
    }
    skip(text.as_bytes(), range.end, |b| !b.is_ascii_whitespace())
}

/// Stricter than elsewhere: a sentence has long words too.
fn generated(value: &str) -> bool {
    let mixed = value.bytes().any(|b| b.is_ascii_uppercase())
        && value.bytes().any(|b| b.is_ascii_lowercase())
        && value.bytes().any(|b| b.is_ascii_digit());
    !value.contains(['/', '(', '.', ':']) && value.len() >= 12 && mixed
}

/// `machine … login … password …`
fn is_netrc(text: &str, password: usize) -> bool {
    let start = text.floor_char_boundary(password.saturating_sub(96));
    let before = text.get(start..password).unwrap_or_default();
    let mut words = before.rsplit(char::is_whitespace).filter(|word| !word.is_empty());
    words.nth(1) == Some("login") && byte(text.as_bytes(), password) == Some(b'p')
}
