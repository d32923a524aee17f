//! Long words that are base64 or hex of a text: decoded, and hidden if that text holds a secret.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::extent::{byte, skip};
use super::spans::Spans;
use super::text::Scan;

/// Shorter words are not decoded.
const MIN_WORD: usize = 20;

/// After `Basic` even a short word is a login.
const MIN_BASIC: usize = 6;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD_ALPHABET: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const URL_ALPHABET: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Whether the text holds a word long enough to be decoded. Such a word covers a multiple of its
/// length, so only those places are looked at.
pub(super) fn has_long_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = MIN_WORD - 1;
    while let Some(next) = byte(bytes, at) {
        if is_base64(next) {
            let before = bytes.get(at + 1 - MIN_WORD..at).unwrap_or_default();
            let start = at - before.iter().rev().take_while(|b| is_base64(**b)).count();
            if skip(
                bytes.get(..bytes.len().min(start + MIN_WORD)).unwrap_or_default(),
                at,
                is_base64,
            ) - start
                >= MIN_WORD
            {
                return true;
            }
        }
        at += MIN_WORD;
    }
    false
}

/// Notes every word whose decoded text holds a secret.
pub(super) fn find(text: &str, scan: Scan<'_>, spans: &mut Spans) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = skip(bytes, at, |b| !is_base64(b));
        let end = skip(bytes, start, is_base64);
        let Some(word) = text.get(start..end) else { return };
        let padded = skip(bytes, end, |b| b == b'=');
        let hides = (word.len() >= MIN_WORD && holds_secret(word, scan))
            || (word.len() >= MIN_BASIC && follows_basic(bytes, start) && is_login(word));
        if hides {
            spans.push(start..padded);
        }
        at = padded.max(end + 1);
    }
}

const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

fn holds_secret(word: &str, scan: Scan<'_>) -> bool {
    let texts = [hex_text(word), base64_text(word)];
    texts.iter().flatten().any(|text| match scan.inner() {
        Some(inner) => matches!(inner.text(text), Cow::Owned(_)),
        None => true,
    })
}

fn hex_text(word: &str) -> Option<String> {
    let is_hex = word.len().is_multiple_of(2) && word.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| hex::decode(word).ok()).flatten().and_then(readable)
}

/// Enough of the word to see that it is no text, before all of it is decoded.
const PROBE: usize = 16;

fn base64_text(word: &str) -> Option<String> {
    let engine = if word.contains(['-', '_']) { &URL_ALPHABET } else { &STANDARD_ALPHABET };
    let probe = engine.decode(word.get(..PROBE)?).ok()?;
    if probe.iter().any(|b| is_control(*b)) {
        return None;
    }
    // One character alone holds no byte; a cut-off word still shows the rest.
    let whole = if word.len() % 4 == 1 { word.get(..word.len() - 1)? } else { word };
    engine.decode(whole).ok().and_then(readable)
}

fn readable(bytes: Vec<u8>) -> Option<String> {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // The last character may be cut in the middle.
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            if bytes.len() - valid > 3 {
                return None;
            }
            bytes.truncate(valid);
            String::from_utf8(bytes).ok()?
        }
    };
    (!text.is_empty() && !text.bytes().any(is_control)).then_some(text)
}

const fn is_control(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t')
}

fn follows_basic(bytes: &[u8], start: usize) -> bool {
    let before = bytes.get(start.saturating_sub(6)..start).unwrap_or_default();
    before.eq_ignore_ascii_case(b"basic ")
}

fn is_login(word: &str) -> bool {
    let decoded = STANDARD_ALPHABET.decode(word).or_else(|_| URL_ALPHABET.decode(word));
    decoded.is_ok_and(|bytes| bytes.contains(&b':') && !bytes.iter().any(|b| is_control(*b)))
}
