//! Free text and strings. One look decides whether a text can hold a secret at all; only then
//! each of the readers goes over it.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use serde_json::Value;

use super::keys::ExtraKeys;
use super::known::Known;
use super::spans::Spans;
use super::{MASK, args, blobs, pairs, pem, shapes, spoken, urls};
use crate::json;

/// How often a string inside a string is opened; what is packed deeper is hidden.
const MAX_NEST: u8 = 4;

/// Two rounds are usual. A text that still changes after these is hidden.
const MAX_ROUNDS: usize = 8;

/// Without any of these, and without a long word, a text is left alone.
const SIGNS: &[&str] = &[
    "token",
    "secret",
    "pass",
    "pwd",
    "key",
    "auth",
    "cookie",
    "cred",
    "bearer",
    "basic ",
    "jwt",
    "dsn",
    "otp",
    "conn",
    "sess",
    "pat=",
    "pat:",
    "pat\"",
    "psk",
    "cvv",
    "cvc",
    "code",
    "state=",
    "saml",
    "assertion",
    "mnemonic",
    "phrase",
    "sig",
    "://",
    "%",
    "\\u00",
    "\0",
    "-u",
    "-p",
    "-a ",
    "-b ",
    "-w ",
    "-k ",
    "-----begin ",
    "identified",
    "@",
];

static SIGN_FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(SIGNS.iter().copied().chain(shapes::prefixes()))
        .ok()
});

/// One pass over a payload: what is looked for, and how many strings it is inside of.
#[derive(Clone, Copy)]
pub(super) struct Scan<'r> {
    pub(super) known: &'r Known,
    pub(super) extra: &'r ExtraKeys,
    nest: u8,
}

impl<'r> Scan<'r> {
    pub(super) const fn new(known: &'r Known, extra: &'r ExtraKeys) -> Self {
        Self { known, extra, nest: 0 }
    }

    /// The same pass one string further in, or `None` at the limit.
    pub(super) const fn inner(self) -> Option<Self> {
        if self.nest >= MAX_NEST {
            return None;
        }
        Some(Self { nest: self.nest + 1, ..self })
    }

    /// The text without secrets.
    pub(super) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let masked = self.known.mask(text);
        if !self.is_suspicious(&masked) {
            return masked;
        }
        match self.read(&masked) {
            Some(changed) => Cow::Owned(changed),
            None => masked,
        }
    }

    /// The name of a field without secrets; a name holds no pairs, so only the value itself counts.
    pub(super) fn name(&self, name: &str) -> Option<String> {
        let masked = self.known.mask(name);
        let mut spans = Spans::default();
        if masked.len() >= SHORTEST_TOKEN {
            shapes::find(&masked, &mut spans);
        }
        spans.apply(&masked).or(match masked {
            Cow::Owned(changed) => Some(changed),
            Cow::Borrowed(_) => None,
        })
    }

    fn is_suspicious(&self, text: &str) -> bool {
        !self.extra.is_empty()
            || SIGN_FINDER.as_ref().is_none_or(|finder| finder.is_match(text))
            || blobs::has_long_word(text)
    }

    /// Reads until nothing changes: a decoded word may be the name of what follows it, and a mask
    /// may join what stood apart. So a redacted text stays as it is when it is redacted again.
    fn read(&self, text: &str) -> Option<String> {
        match self.json(text) {
            Json::Changed(new) => return Some(new),
            Json::Clean => return None,
            Json::No => {}
        }
        let mut new: Option<String> = None;
        for _ in 0..MAX_ROUNDS {
            let shown = new.as_deref().unwrap_or(text);
            match self
                .find(shown)
                .or_else(|| urls::decode(shown, *self))
                .or_else(|| self.wide(shown))
            {
                Some(next) => new = Some(next),
                None => return new,
            }
        }
        Some(MASK.to_owned())
    }

    fn find(&self, text: &str) -> Option<String> {
        let mut spans = Spans::default();
        shapes::find(text, &mut spans);
        pem::find(text, &mut spans);
        pairs::find(text, self.extra, &mut spans);
        spoken::find(text, &mut spans);
        args::find(text, &mut spans);
        urls::find(text, &mut spans);
        blobs::find(text, *self, &mut spans);
        spans.apply(text)
    }

    fn json(&self, text: &str) -> Json {
        if !text.trim_start().starts_with(['{', '[', '"']) || has_many_values(text) {
            return Json::No;
        }
        let Ok(value) = serde_json::from_str::<Value>(text) else { return Json::No };
        let Some(inner) = self.inner() else {
            return Json::Changed(MASK.to_owned());
        };
        let new = inner.value(&value, 0).unwrap_or(value).to_string();
        // Compared with what was read, not with what was parsed: of two equal names the parser
        // keeps one, and the other must not stay in the text.
        if same_but_space(&new, text) { Json::Clean } else { Json::Changed(new) }
    }

    /// UTF-16 that was read as bytes: the text between the zero bytes is what counts.
    fn wide(&self, text: &str) -> Option<String> {
        if !text.contains('\0') {
            return None;
        }
        let narrow = text.replace('\0', "");
        let Some(inner) = self.inner() else { return Some(MASK.to_owned()) };
        match inner.text(&narrow) {
            Cow::Owned(changed) => Some(changed),
            Cow::Borrowed(_) => None,
        }
    }
}

/// No shape is shorter than this.
const SHORTEST_TOKEN: usize = 13;

enum Json {
    No,
    Clean,
    Changed(String),
}

/// Whether a text, if it is JSON, may hold more values than are parsed anywhere: it is read as text then.
fn has_many_values(text: &str) -> bool {
    let begins = text.bytes().filter(|byte| matches!(byte, b',' | b'[' | b'{'));
    text.len() > json::MAX_VALUES && begins.count() > json::MAX_VALUES
}

fn same_but_space(one: &str, other: &str) -> bool {
    let visible =
        |text: &'_ str| -> Vec<u8> { text.bytes().filter(|b| !b.is_ascii_whitespace()).collect() };
    visible(one) == visible(other)
}
