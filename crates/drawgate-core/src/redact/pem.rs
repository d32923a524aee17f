//! Private keys in PEM blocks, also inside one line where the line ends are escaped.
//!
//! A key is what looks like one: the line that begins it and the lines of base64 after it. Anything
//! else that stands after such a line is no part of the key and stays to be seen.

use super::extent::{byte, skip};
use super::spans::Spans;
use super::words::looks_random;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";
const KEY: &str = "PRIVATE KEY";
/// The longest label is `ENCRYPTED PRIVATE KEY`; PGP adds `BLOCK`.
const LONGEST_LABEL: usize = 48;
/// The lines of a key have 64, 70 or 76 characters, all but the last.
const SHORTEST_LINE: usize = 32;
/// Quotes, escapes and indents between two lines.
const LONGEST_GAP: usize = 32;
/// What may stand before the base64, by its beginning.
const HEADERS: [&str; 5] = ["Proc-Type: ", "DEK-Info: ", "Version: ", "Comment: ", "Hash: "];
const LONGEST_HEADER: usize = 128;

/// Notes every private key.
pub(super) fn find(text: &str, spans: &mut Spans) {
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(|rest| rest.find(BEGIN)).map(|at| from + at) {
        from = start + BEGIN.len();
        if let Some(end) = label_end(text, from).and_then(|label| key_end(text, label)) {
            spans.push(start..end);
            from = end;
        }
    }
}

/// Where the first line of a private key ends.
fn label_end(text: &str, from: usize) -> Option<usize> {
    let rest = text.as_bytes().get(from..)?;
    let label = rest.get(..LONGEST_LABEL.min(rest.len()))?;
    let is_key = label.windows(KEY.len()).any(|part| part == KEY.as_bytes())
        && !label.starts_with(b"CERTIFICATE")
        && !label.starts_with(b"PUBLIC");
    let at = label.windows(DASHES.len()).position(|part| part == DASHES.as_bytes());
    is_key.then(|| at.map(|at| from + at + DASHES.len())).flatten()
}

/// Where a key ends whose first line ends at `label`; `None` if no line of it follows.
fn key_end(text: &str, label: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = label;
    let mut end = None;
    loop {
        let start = gap_end(bytes, at);
        let rest = text.get(start..)?;
        if rest.starts_with(END) {
            let closes = label_end(text, start + END.len());
            return end.map(|end: usize| closes.unwrap_or(end));
        }
        if let (None, Some(header)) = (end, header_len(rest)) {
            at = start + header;
            continue;
        }
        let word_end = skip(bytes, start, is_base64);
        let word = text.get(start..word_end)?;
        if word.is_empty() || !(is_line(word) || end.is_some() && is_last(text, word, word_end)) {
            return end;
        }
        end = Some(word_end);
        at = word_end;
    }
}

fn is_line(word: &str) -> bool {
    word.len() >= SHORTEST_LINE
}

/// Whether a short word is the last line of a key: it looks like one, or nothing but the end of the
/// key or of the text comes after it.
fn is_last(text: &str, word: &str, end: usize) -> bool {
    let rest = text.get(gap_end(text.as_bytes(), end)..).unwrap_or_default();
    rest.is_empty() || rest.starts_with(END) || word.ends_with('=') || looks_random(word, 8)
}

/// Skips line ends, real and escaped, and what programs put around the lines of a text.
fn gap_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(next) = byte(bytes, at) {
        let escaped = next == b'\\' && matches!(byte(bytes, at + 1), Some(b'n' | b'r' | b't'));
        let step = match next {
            _ if escaped => 2,
            b'"' | b'\'' | b',' | b'\\' | b'}' => 1,
            b'+' if byte(bytes, at + 1).is_none_or(|b| b.is_ascii_whitespace()) => 1,
            _ if next.is_ascii_whitespace() => 1,
            _ => break,
        };
        if at + step > from + LONGEST_GAP {
            break;
        }
        at += step;
    }
    at
}

/// The length of a header of a key, which holds nothing that a shell would run.
fn header_len(rest: &str) -> Option<usize> {
    HEADERS.iter().find(|header| rest.starts_with(**header))?;
    let is_value = |b: u8| b.is_ascii_alphanumeric() || b" ,.:()/@-".contains(&b);
    Some(skip(rest.as_bytes(), 0, is_value)).filter(|len| *len <= LONGEST_HEADER)
}

const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}
