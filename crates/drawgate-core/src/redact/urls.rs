//! Addresses: the password before the host, and text that is percent-encoded. What stands in the
//! query is found as a pair.

use std::borrow::Cow;

use super::MASK;
use super::extent::{byte, skip};
use super::spans::Spans;
use super::text::Scan;
use super::words::looks_random;

/// Notes the passwords of `scheme://user:password@host` and `user:password@host`.
pub(super) fn find(text: &str, spans: &mut Spans) {
    for (at, _) in text.match_indices("://") {
        find_in_authority(text, at + 3, spans);
    }
    for (at, _) in text.match_indices('@') {
        find_before(text, at, spans);
    }
}

/// How far a password with a slash in it is followed.
const LONGEST_LOGIN: usize = 256;

fn find_in_authority(text: &str, from: usize, spans: &mut Spans) {
    let bytes = text.as_bytes();
    let end = skip(bytes, from, |b| !ends_word(b) && !matches!(b, b'/' | b'?' | b'#'));
    let authority = bytes.get(from..end).unwrap_or_default();
    let colon = authority.iter().position(|b| *b == b':').map(|at| from + at);
    let Some(host) = authority.iter().rposition(|b| *b == b'@').map(|at| from + at) else {
        if let Some(colon) = colon {
            find_with_slash(text, colon, end, spans);
        }
        return;
    };
    match colon.filter(|colon| *colon < host) {
        Some(colon) => spans.push_value(text, colon + 1..host),
        None if text.get(from..host).is_some_and(|user| looks_random(user, 12)) => {
            spans.push_value(text, from..host);
        }
        None => {}
    }
}

/// `scheme://user:pass/word@host`: not a valid address, but people write it.
fn find_with_slash(text: &str, colon: usize, end: usize, spans: &mut Spans) {
    let bytes = text.as_bytes();
    let port = bytes.get(colon + 1..end).unwrap_or_default();
    if port.iter().all(u8::is_ascii_digit) {
        return;
    }
    let limit = bytes.get(..bytes.len().min(colon + LONGEST_LOGIN)).unwrap_or_default();
    let word_end = skip(limit, colon, |b| !ends_word(b));
    let word = bytes.get(colon..word_end).unwrap_or_default();
    if let Some(at) = word.iter().rposition(|b| *b == b'@') {
        spans.push_value(text, colon + 1..colon + at);
    }
}

/// `user:password@host` without a scheme, if the password looks generated or a driver follows.
fn find_before(text: &str, at: usize, spans: &mut Spans) {
    let bytes = text.as_bytes();
    let before = bytes.get(at.saturating_sub(LONGEST_LOGIN)..at).unwrap_or_default();
    let len =
        before.iter().rev().take_while(|b| !ends_word(**b) && !matches!(b, b'/' | b'@')).count();
    let Some(login) = text.get(at - len..at) else { return };
    let Some((user, password)) = login.split_once(':') else { return };
    let rest = text.get(at + 1..).unwrap_or_default();
    let driver = rest.starts_with("tcp(") || rest.starts_with("unix(");
    let other = matches!(user, "mailto" | "acct" | "sip" | "sips" | "xmpp" | "git" | "npm");
    if !other && (driver || looks_random(password, 12)) {
        spans.push_value(text, at - password.len()..at);
    }
}

const fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>')
}

/// Decodes each word that is percent-encoded; where a secret comes to light, the decoded word
/// without it takes its place.
pub(super) fn decode(text: &str, scan: Scan<'_>) -> Option<String> {
    if !text.contains('%') {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut changed = false;
    for word in text.split_inclusive(char::is_whitespace) {
        let new = decoded(word).and_then(|plain| redacted(&plain, scan));
        changed |= new.is_some();
        out.push_str(new.as_deref().unwrap_or(word));
    }
    changed.then_some(out)
}

fn redacted(plain: &str, scan: Scan<'_>) -> Option<String> {
    let Some(inner) = scan.inner() else { return Some(MASK.to_owned()) };
    match inner.text(plain) {
        Cow::Owned(new) => Some(new),
        Cow::Borrowed(_) => None,
    }
}

fn decoded(word: &str) -> Option<String> {
    let bytes = word.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(next) = byte(bytes, at) {
        let code = bytes.get(at + 1..at + 3).filter(|_| next == b'%');
        let code =
            code.and_then(|code| hex::decode(code).ok()).and_then(|code| code.first().copied());
        out.push(code.unwrap_or(next));
        at += if code.is_some() { 3 } else { 1 };
    }
    (out.len() < bytes.len()).then(|| String::from_utf8_lossy(&out).into_owned())
}
