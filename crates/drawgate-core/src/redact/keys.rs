//! Which names announce a secret. A name is compared without case and separators, so `api_key`,
//! `x-api-key` and `ApiKey` are one; what follows the telling word may take it back, so
//! `token_count` and `secret_name` stay readable.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::vocabulary::VOCABULARY;
use super::words::{is_benign, is_fused_tail, is_quantity};

/// What the value under a name may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing is known about it.
    Plain,
    /// A secret, whatever its type.
    Secret,
    /// A secret that in text reaches to the end of the line.
    Header,
    /// A secret if it is text; a number is a quantity (`max_tokens`).
    Counting,
    /// A secret if it is text; an object under it is looked into (`auth`).
    Weak,
}

impl Class {
    /// The class that the vocabulary calls so.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "secret" => Some(Self::Secret),
            "header" => Some(Self::Header),
            "counting" => Some(Self::Counting),
            "weak" => Some(Self::Weak),
            _ => None,
        }
    }
}

/// Where a telling word may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// Also in the middle of a word: `githubtoken`.
    Anywhere,
    /// Only at the start of a word: `pass` but not `compass`.
    Word,
}

impl Begin {
    /// What the vocabulary calls so.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "anywhere" => Some(Self::Anywhere),
            "word" => Some(Self::Word),
            _ => None,
        }
    }
}

static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(VOCABULARY.names.iter().map(|(stem, ..)| stem))
        .ok()
});

/// Names up to this many bytes are compared without an allocation.
const ON_STACK: usize = 96;

/// Says what the value under `name` may be.
pub(super) fn classify(name: &str) -> Class {
    if name.len() < 3 {
        return Class::Plain;
    }
    if name.len() <= ON_STACK {
        return Name::read(name, &mut [0; ON_STACK], &mut [false; ON_STACK]).class();
    }
    Name::read(name, &mut vec![0; name.len()], &mut vec![false; name.len()]).class()
}

/// Names the caller wants redacted too. They only add: each must equal the whole name.
#[derive(Debug, Default)]
pub(super) struct ExtraKeys(Vec<String>);

/// More names than this are not used, so that a caller can't blank an event word by word.
pub(crate) const MAX_EXTRA_KEYS: usize = 32;

impl ExtraKeys {
    pub(super) fn new(names: &[String]) -> Self {
        let names = names.iter().take(MAX_EXTRA_KEYS).map(|name| normal(name));
        Self(names.filter(|name| !name.is_empty()).collect())
    }

    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn classify(&self, name: &str) -> Class {
        if !self.is_empty() && self.0.contains(&normal(name)) {
            return Class::Secret;
        }
        classify(name)
    }
}

fn normal(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// A name in lower case without separators, and where its words start.
struct Name<'b> {
    bytes: &'b [u8],
    starts: &'b [bool],
}

impl<'b> Name<'b> {
    /// Both buffers are at least as long as the name.
    fn read(name: &str, bytes: &'b mut [u8], starts: &'b mut [bool]) -> Self {
        let raw = name.as_bytes();
        let (mut len, mut before) = (0, b' ');
        for (at, &byte) in raw.iter().enumerate() {
            let after = raw.get(at + 1).copied().unwrap_or(b' ');
            let letter = if byte.is_ascii() { byte.to_ascii_lowercase() } else { b'~' };
            let belongs = !byte.is_ascii() || byte.is_ascii_alphanumeric();
            if let (true, Some(slot), Some(start)) =
                (belongs, bytes.get_mut(len), starts.get_mut(len))
            {
                *slot = letter;
                *start = starts_word(before, byte, after);
                len += 1;
            }
            before = byte;
        }
        Self {
            bytes: bytes.get(..len).unwrap_or_default(),
            starts: starts.get(..len).unwrap_or_default(),
        }
    }

    fn class(&self) -> Class {
        let Some(finder) = FINDER.as_ref() else { return Class::Secret };
        // Most names hold no telling word, and that is found out faster than which.
        if !finder.is_match(self.bytes) {
            return Class::Plain;
        }
        // The last word decides, and of the words that end there the longest.
        let hits = finder.find_overlapping_iter(self.bytes).filter_map(|hit| {
            let (stem, class, begin) = *VOCABULARY.names.get(hit.pattern().as_usize())?;
            let whole = (begin == Begin::Anywhere || self.starts_at(hit.start()))
                && self.ends_at(hit.end());
            whole.then_some((stem, class, hit.start(), hit.end()))
        });
        let last = hits.max_by_key(|(stem, _, _, end)| (*end, stem.len()));
        let Some((stem, class, start, end)) = last else { return Class::Plain };
        if self.taken_back(end) {
            return Class::Plain;
        }
        if stem == "token" && self.words(0, start).any(is_quantity) {
            return Class::Counting;
        }
        class
    }

    fn starts_at(&self, at: usize) -> bool {
        self.starts.get(at).copied().unwrap_or(true)
    }

    fn ends_at(&self, at: usize) -> bool {
        let rest = self.bytes.get(at..).unwrap_or_default();
        self.starts_at(at) || rest.first().is_some_and(u8::is_ascii_digit) || is_fused_tail(rest)
    }

    /// Whether the words after the telling one make it a fact about a secret: `token_count`.
    fn taken_back(&self, end: usize) -> bool {
        let rest = self.bytes.get(end..).unwrap_or_default();
        if rest.iter().all(u8::is_ascii_digit) {
            return false;
        }
        is_benign(rest) || self.words(end, self.bytes.len()).all(is_benign)
    }

    fn words(&self, from: usize, to: usize) -> impl Iterator<Item = &[u8]> {
        let mut at = from;
        std::iter::from_fn(move || {
            if at >= to {
                return None;
            }
            let end = (at + 1..to).find(|&next| self.starts_at(next)).unwrap_or(to);
            let word = self.bytes.get(at..end);
            at = end;
            word
        })
    }
}

fn starts_word(before: u8, byte: u8, after: u8) -> bool {
    let camel = before.is_ascii_lowercase() || before.is_ascii_digit();
    let acronym_ends = before.is_ascii_uppercase() && after.is_ascii_lowercase();
    let separated = before.is_ascii() && !before.is_ascii_alphanumeric();
    separated || (byte.is_ascii_uppercase() && (camel || acronym_ends))
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
