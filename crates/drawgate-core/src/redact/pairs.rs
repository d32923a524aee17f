//! Names and values in text: `a=b`, `a: b`, `"a": "b"`, `<a>b</a>`, with every kind of quote and
//! escape. Looks at each separator, reads the name before it and, if that name tells of a secret,
//! hides the value after it.

use std::ops::Range;

use super::extent::{self, Mode, byte, skip};
use super::keys::{Class, ExtraKeys};
use super::spans::Spans;
use super::value::{is_name_name, is_quantity, is_value_name};
use super::words::{is_no_secret, looks_random};

/// Notes the value of every telling name.
pub(super) fn find(text: &str, extra: &ExtraKeys, spans: &mut Spans) {
    let mut reader = Reader { text, extra, paired_until: 0, callback: is_callback(text) };
    let mut at = 0;
    while let Some(separator) = Separator::next(text.as_bytes(), at) {
        at = separator.end;
        match reader.value(separator) {
            Some(Found::Value(value)) => {
                at = at.max(value.end);
                spans.push_value(text, value);
            }
            Some(Found::Code(call)) => hide_literals(text, call, spans),
            None => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Equals,
    Arrow,
    Colon,
    Tag,
}

#[derive(Clone, Copy, Debug)]
struct Separator {
    start: usize,
    end: usize,
    kind: Kind,
}

impl Separator {
    fn next(bytes: &[u8], from: usize) -> Option<Self> {
        let mut at = from;
        loop {
            at = skip(bytes, at, |b| !matches!(b, b'=' | b':' | b'>'));
            let next = byte(bytes, at + 1);
            let before = at.checked_sub(1).and_then(|at| byte(bytes, at));
            let (kind, len) = match (byte(bytes, at)?, next) {
                (b'=', Some(b'=')) | (b':', Some(b':')) => {
                    at += 2;
                    continue;
                }
                (b'=', Some(b'>')) => (Kind::Arrow, 2),
                (b'=', _) if !matches!(before, Some(b'=' | b'!' | b'<' | b'>')) => {
                    (Kind::Equals, 1)
                }
                (b':', Some(b'=')) => (Kind::Equals, 2),
                (b':', _) => (Kind::Colon, 1),
                (b'>', _) => (Kind::Tag, 1),
                _ => {
                    at += 1;
                    continue;
                }
            };
            return Some(Self { start: at, end: at + len, kind });
        }
    }
}

/// A name before a separator.
#[derive(Clone, Copy, Debug)]
struct Name {
    start: usize,
    end: usize,
    quoted: bool,
}

/// Names are read backwards up to this many bytes, which keeps the scan linear.
const LONGEST_NAME: usize = 96;

struct Reader<'t> {
    text: &'t str,
    extra: &'t ExtraKeys,
    /// Up to here a `value` belongs to a `name` that told of a secret.
    paired_until: usize,
    /// The text is the return address of an authorization: `code` and `state` are secrets.
    callback: bool,
}

/// What stands after a telling name.
enum Found {
    /// The secret itself.
    Value(Range<usize>),
    /// A call that computes it, to the end of its line. What it does must be seen.
    Code(Range<usize>),
}

/// How far after the name of a pair its value may stand.
const PAIR_REACH: usize = 256;

impl Reader<'_> {
    fn value(&mut self, separator: Separator) -> Option<Found> {
        let name = self.name(separator)?;
        let class = self.class(name, separator);
        let paired = self.is_paired(name, separator);
        if class == Class::Plain && !paired {
            return None;
        }
        if separator.kind == Kind::Colon && self.text.get(separator.end..)?.starts_with("//") {
            return None;
        }
        let mode = self.mode(name, separator, class);
        let open = self.opened(separator);
        if matches!((class, open), (Class::Counting | Class::Weak, None | Some(b'\n')))
            || matches!((class, open), (Class::Weak, Some(b'{' | b'[')))
        {
            return None;
        }
        let range = extent::value(self.text, separator.end, mode);
        let value = self.text.get(range.clone())?;
        let hides = match class {
            Class::Counting => !is_count(value),
            Class::Weak => value.len() > LONGEST_WEAK || looks_random(value, 12),
            Class::Plain | Class::Secret | Class::Header => true,
        };
        if !hides || self.is_harmless(name, separator, mode, range.start, value) {
            return None;
        }
        let spaced = byte(self.text.as_bytes(), separator.end) == Some(b' ');
        let code = if self.is_quoted(range.start) {
            None
        } else {
            call(self.text.as_bytes(), range.start, spaced)
        };
        Some(code.map_or(Found::Value(range), Found::Code))
    }

    fn name(&self, separator: Separator) -> Option<Name> {
        let bytes = self.text.as_bytes();
        let spaces = back(bytes, separator.start, 8, |b| matches!(b, b' ' | b'\t'));
        let wrap = |b: u8| matches!(b, b'"' | b'\'' | b'`' | b'\\' | b']' | b'*' | b'+');
        let end = back(bytes, spaces, 12, wrap);
        let start = back(bytes, end, LONGEST_NAME, is_name_byte);
        let quoted = end < spaces;
        let arrow_ok = separator.kind != Kind::Arrow || quoted;
        let tag_ok =
            separator.kind != Kind::Tag || byte(bytes, start.checked_sub(1)?) == Some(b'<');
        (start < end && arrow_ok && tag_ok).then_some(Name { start, end, quoted })
    }

    fn class(&self, name: Name, separator: Separator) -> Class {
        let Some(text) = self.text.get(name.start..name.end) else { return Class::Plain };
        let class = self.extra.classify(text);
        if class != Class::Plain {
            return class;
        }
        if self.in_query(name) && self.is_query_secret(text, separator) {
            return Class::Secret;
        }
        if !["key", "string", "code", "phrase"].iter().any(|end| ends_with(text, end)) {
            return class;
        }
        let bytes = self.text.as_bytes();
        let gap = back(bytes, name.start, 1, |b| b == b' ');
        let start = back(bytes, gap, LONGEST_NAME, is_name_byte);
        self.text.get(start..name.end).map_or(class, |text| self.extra.classify(text))
    }

    fn in_query(&self, name: Name) -> bool {
        let before = name.start.checked_sub(1).and_then(|at| byte(self.text.as_bytes(), at));
        matches!(before, Some(b'?' | b'&' | b'#'))
    }

    /// Names that are secrets only in an address: signatures, and codes that look generated.
    fn is_query_secret(&self, name: &str, separator: Separator) -> bool {
        let name = name.to_ascii_lowercase();
        // Not all of it, because a value that is not hidden is read again from its next pair on.
        let limit = self.text.floor_char_boundary(separator.end + LONGEST_NAME);
        let short = self.text.get(..limit).unwrap_or_default();
        let range = extent::value(short, separator.end, Mode::Word);
        let random = || short.get(range.clone()).is_some_and(|value| looks_random(value, 10));
        match name.as_str() {
            "sig" | "signature" | "x-amz-signature" | "x-amz-credential" | "x-goog-signature" => {
                true
            }
            "code" | "state" => self.callback || random(),
            "key" | "k" | "nonce" | "sid" | "session" | "ticket" => random(),
            _ => false,
        }
    }

    /// `name: DB_PASSWORD` and then `value: …`, as in manifests and markup.
    fn is_paired(&mut self, name: Name, separator: Separator) -> bool {
        let Some(text) = self.text.get(name.start..name.end) else { return false };
        if is_name_name(text) {
            let bytes = self.text.as_bytes();
            let start = skip(bytes, separator.end, |b| matches!(b, b' ' | b'"' | b'\'' | b'\\'));
            let limit = bytes.get(..bytes.len().min(start + LONGEST_NAME)).unwrap_or_default();
            let end = skip(limit, start, is_name_byte);
            let told = self.text.get(start..end).map(|told| self.extra.classify(told));
            let secret = matches!(told, Some(Class::Secret | Class::Header));
            self.paired_until = if secret { end + PAIR_REACH } else { 0 };
            return false;
        }
        separator.start < self.paired_until && is_value_name(text)
    }

    fn mode(&self, name: Name, separator: Separator, class: Class) -> Mode {
        let bytes = self.text.as_bytes();
        let before = name.start.checked_sub(1).and_then(|at| byte(bytes, at));
        let spaced =
            matches!(byte(bytes, separator.end), None | Some(b' ' | b'\t' | b'\r' | b'\n'));
        if class == Class::Header && separator.kind == Kind::Colon {
            let quote = before.filter(|b| matches!(b, b'"' | b'\'' | b'`') && !name.quoted);
            return Mode::Header(quote);
        }
        if separator.kind == Kind::Tag {
            return Mode::Word;
        }
        if let (Some(indent), true) = (self.indent(name), spaced) {
            return Mode::Line(indent);
        }
        let opened = back(bytes, name.start, 8, |b| matches!(b, b' ' | b'"' | b'\''));
        match opened.checked_sub(1).and_then(|at| byte(bytes, at)) {
            Some(b'{' | b',') if separator.kind == Kind::Colon => Mode::Flow,
            _ => Mode::Word,
        }
    }

    /// The indent of a name that is the first thing on its line.
    fn indent(&self, name: Name) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let lead = |b: u8| matches!(b, b' ' | b'\t' | b'-' | b'"' | b'\'' | b'*' | b'#');
        let words = back(bytes, name.start, LONGEST_NAME, |b| lead(b) || b.is_ascii_alphanumeric());
        let start = back(bytes, name.start, LONGEST_NAME, lead);
        let is_start = |at: usize| at == 0 || byte(bytes, at - 1) == Some(b'\n');
        // `API Key: …` begins with a word that is part of the name; `Unexpected token: …` does not.
        let token =
            self.text.get(name.start..name.end).is_some_and(|name| ends_with(name, "token"));
        let two_words = !token
            && is_start(words)
            && self.text.get(words..name.start).is_some_and(|lead| {
                lead.trim_start_matches(['-', '*', '#', ' ']).split_ascii_whitespace().count() == 1
            });
        if !is_start(start) && !two_words {
            return None;
        }
        let start = if is_start(start) { start } else { words };
        Some(skip(bytes, start, |b| matches!(b, b' ' | b'\t')) - start)
    }

    /// The first byte of what follows the separator, on the same line or at its end.
    fn opened(&self, separator: Separator) -> Option<u8> {
        let bytes = self.text.as_bytes();
        byte(bytes, skip(bytes, separator.end, |b| matches!(b, b' ' | b'\t' | b'\r')))
    }

    /// Whether a quote stands before the value.
    fn is_quoted(&self, start: usize) -> bool {
        let before = start.checked_sub(1).and_then(|at| byte(self.text.as_bytes(), at));
        matches!(before, Some(b'"' | b'\'' | b'`'))
    }

    /// Words that are no secret, and `unexpected token: number`.
    fn is_harmless(
        &self,
        name: Name,
        separator: Separator,
        mode: Mode,
        start: usize,
        value: &str,
    ) -> bool {
        if self.is_quoted(start) {
            return value.is_empty();
        }
        if is_no_secret(value) || is_field_type(value) {
            return true;
        }
        let spoken =
            self.text.get(name.start..name.end).is_some_and(|name| ends_with(name, "token"));
        let said = separator.kind == Kind::Colon && mode == Mode::Word && spoken;
        said && value.len() <= LONGEST_WEAK && value.bytes().all(|b| b.is_ascii_lowercase())
    }
}

/// A longer value under a weak name is a secret unseen.
const LONGEST_WEAK: usize = 64;

fn is_callback(text: &str) -> bool {
    text.contains("code=") && text.contains("state=")
}

/// A longer object of counts is not parsed but hidden.
const LONGEST_COUNTS: usize = 1024;

fn is_count(value: &str) -> bool {
    let numeric =
        |b: u8| b.is_ascii_digit() || b.is_ascii_whitespace() || b"[]{}().,_".contains(&b);
    if value.bytes().all(numeric) {
        return value.len() <= 12 || value.starts_with('[');
    }
    let parsed = if value.len() > LONGEST_COUNTS { None } else { serde_json::from_str(value).ok() };
    parsed.is_some_and(|value| is_quantity(&value, 0))
}

/// `string; token: string`: the first of several fields of a type.
fn is_field_type(value: &str) -> bool {
    let first = value.split_once("; ").filter(|_| value.len() <= 2 * LONGEST_NAME);
    first.is_some_and(|(first, _)| is_no_secret(first))
}

/// How much of a call is looked at, which keeps the scan linear.
const LONGEST_CALL: usize = 512;

/// `next_token()`, `__import__('os').system('ls')`: a name, a bracket, and one that closes on the same line.
/// Where no space stands before the name, a literal or nothing must stand in the bracket: `a=b(c)d` is a value.
fn call(bytes: &[u8], start: usize, spaced: bool) -> Option<Range<usize>> {
    let near = bytes.get(..bytes.len().min(start + LONGEST_CALL)).unwrap_or_default();
    let end = skip(near, start, |b| is_name_byte(b) || matches!(b, b':' | b'&' | b'!'));
    let line = skip(near, end, |b| b != b'\n');
    let opens = end > start && byte(near, end) == Some(b'(');
    let plain = spaced || matches!(byte(near, end + 1), Some(b'"' | b'\'' | b')'));
    let closes = bytes.get(end..line).is_some_and(|call| call.contains(&b')'));
    (opens && plain && (closes || line - start == LONGEST_CALL)).then_some(start..line)
}

/// Hides the literals of a call that may be secrets: what looks generated, and the only literal of a call
/// that does nothing else. What a shell acts on, and paths, are shown.
fn hide_literals(text: &str, call: Range<usize>, spans: &mut Spans) {
    let bytes = text.as_bytes();
    let is_quote = |b: u8| matches!(b, b'"' | b'\'' | b'`');
    let mut at = call.start;
    loop {
        let open = skip(bytes, at, |b| !is_quote(b));
        let Some(quote) = byte(bytes, open).filter(|_| open < call.end) else { return };
        // A literal may be longer than what is looked at of the call.
        let close = skip(bytes, open + 1, |b| b != quote && b != b'\n');
        let literal = text.get(open + 1..close).unwrap_or_default();
        let rest = text.get(close..).unwrap_or_default().lines().next().unwrap_or_default();
        let is_only = at == call.start && rest.bytes().skip(1).all(|b| b") ,;]}".contains(&b));
        if !acts(literal) && (is_only || looks_random(literal, SHORTEST_LITERAL)) {
            spans.push_value(text, open + 1..close);
        }
        at = close + 1;
    }
}

/// Whether a literal is something that is run or opened.
fn acts(literal: &str) -> bool {
    let is_path = literal.starts_with(['/', '.', '~']) || literal.contains("://");
    let in_shell = |b: u8| b.is_ascii_whitespace() || b"|;&<>()".contains(&b);
    is_path || literal.contains("$(") || literal.contains("${") || literal.bytes().any(in_shell)
}

/// Bytes of a literal that looks generated.
const SHORTEST_LITERAL: usize = 8;

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Where the bytes that belong, read backwards from `end`, begin.
fn back(bytes: &[u8], end: usize, at_most: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let before = bytes.get(..end).unwrap_or_default();
    end - before.iter().rev().take(at_most).take_while(|b| belongs(**b)).count()
}

fn ends_with(name: &str, end: &str) -> bool {
    let start = name.len().checked_sub(end.len());
    start.and_then(|start| name.get(start..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}
