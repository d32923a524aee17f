//! How far a value in text reaches: a quoted string, a bracket, a word, a line, an indented block.

use std::ops::Range;

use super::MASK;

/// How an unquoted value ends. None reaches beyond what a shell would run as a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// At the end of a word, as in a log line or a form.
    Word,
    /// At a comma or bracket, as in `{a: b, c: d}`.
    Flow,
    /// At the end of the line, as in YAML; a block may follow. Holds the indent of the name.
    Line(usize),
    /// After a scheme and its credentials or a list of pairs, at the end of the line, or at the quote
    /// that opened before the name, as in a header.
    Header(Option<u8>),
}

/// The range of the value that begins at or after `from`.
pub(super) fn value(text: &str, from: usize, mode: Mode) -> Range<usize> {
    let bytes = text.as_bytes();
    let start = skip(bytes, from, |b| matches!(b, b' ' | b'\t' | b'*'));
    if let Mode::Line(indent) = mode
        && let Some(block) = block(bytes, start, indent)
    {
        return block;
    }
    if starts_with_mask(bytes, start) {
        return start..unquoted(bytes, start, mode);
    }
    match byte(bytes, start) {
        Some(b'{' | b'[') => start..bracket(bytes, start),
        Some(_) => {
            let open = skip(bytes, start, |b| matches!(b, b'b' | b'r' | b'f' | b'u' | b'\\'));
            match byte(bytes, open) {
                Some(quote @ (b'"' | b'\'' | b'`')) if open - start <= 8 => {
                    quoted(bytes, start, open, quote)
                }
                _ => start..unquoted(bytes, start, mode),
            }
        }
        None => start..start,
    }
}

pub(super) fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

pub(super) fn skip(bytes: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().position(|b| !belongs(*b)).unwrap_or(rest.len())
}

fn starts_with_mask(bytes: &[u8], at: usize) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.starts_with(MASK.as_bytes()))
}

/// Between quotes. In JSON inside JSON the quotes have backslashes before them; the closing one
/// has no more of them than the opening one. Without a closing quote the value is the rest of the
/// line; only triple quotes reach over several.
fn quoted(bytes: &[u8], start: usize, open: usize, quote: u8) -> Range<usize> {
    let escapes = bytes.get(start..open).unwrap_or_default().iter().rev();
    let escapes = escapes.take_while(|b| **b == b'\\').count();
    let triple = bytes.get(open..open + 3) == Some(&[quote; 3]);
    let first = if triple { open + 3 } else { open + 1 };
    let mut slashes = 0;
    let mut at = first;
    while let Some(next) = byte(bytes, at) {
        if next == b'\n' && !triple {
            break;
        }
        if next == b'\\' {
            slashes += 1;
        } else {
            let closes = if escapes == 0 { slashes % 2 == 0 } else { slashes <= escapes };
            let ends = !triple || bytes.get(at..at + 3) == Some(&[quote; 3]);
            if next == quote && closes && ends {
                return first..(at - slashes.min(escapes));
            }
            slashes = 0;
        }
        at += 1;
    }
    first..line_end(bytes, first)
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    skip(bytes, from, |b| !matches!(b, b'\n' | b'\r'))
}

/// How far the end of a bracket is looked for.
const LONGEST_BRACKET: usize = 4096;

/// To the bracket that closes the one at `start`; without one, to the end of the line.
fn bracket(bytes: &[u8], start: usize) -> usize {
    let near = bytes.get(..bytes.len().min(start + LONGEST_BRACKET)).unwrap_or_default();
    let (mut depth, mut in_string, mut at) = (0_usize, false, start);
    while let Some(next) = byte(near, at) {
        match next {
            b'\\' => at += 1,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    line_end(bytes, start)
}

fn unquoted(bytes: &[u8], start: usize, mode: Mode) -> usize {
    if let Mode::Header(quote) = mode {
        return header(bytes, start, quote);
    }
    let mut at = start;
    while let Some(next) = byte(bytes, at) {
        if starts_with_mask(bytes, at) {
            at += MASK.len();
            continue;
        }
        let ends = match mode {
            Mode::Word => ends_word(bytes, at, next),
            Mode::Flow => matches!(next, b',' | b'}' | b'\n' | b'\r' | b'"'),
            Mode::Line(_) | Mode::Header(_) => matches!(next, b'\n' | b'\r'),
        };
        if ends || is_command(bytes, at, next) {
            break;
        }
        at += 1;
    }
    let value = bytes.get(start..at).unwrap_or_default();
    start + value.trim_ascii_end().len()
}

/// Where a shell would stop reading a value and begin to run something.
fn is_command(bytes: &[u8], at: usize, next: u8) -> bool {
    let after = byte(bytes, at + 1);
    let spaced = |b: Option<u8>| b.is_none_or(|b| b.is_ascii_whitespace());
    let before = at.checked_sub(1).and_then(|at| byte(bytes, at));
    match next {
        b'`' => true,
        b'$' => matches!(after, Some(b'(' | b'{')),
        b'&' => after == Some(b'&') || spaced(after),
        b'|' => after == Some(b'|') || spaced(after) || spaced(before),
        b'<' | b'>' => spaced(before),
        b';' => spaced(after),
        _ => false,
    }
}

/// A scheme and its credentials, as in `Bearer …`, or pairs with commas or semicolons between them.
fn header(bytes: &[u8], start: usize, quote: Option<u8>) -> usize {
    let mut end = start;
    let mut at = start;
    for number in 0.. {
        let word_end = header_word(bytes, at, quote);
        if word_end == at {
            break;
        }
        end = word_end;
        at = skip(bytes, end, |b| matches!(b, b' ' | b'\t'));
        let list = matches!(byte(bytes, end - 1), Some(b',' | b';'));
        let pair = || {
            let name = skip(bytes, at, |b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
            name > at && byte(bytes, name) == Some(b'=')
        };
        if at == end || !(if list { pair() } else { number == 0 }) {
            break;
        }
    }
    let semicolon = byte(bytes, end.saturating_sub(1)) == Some(b';') && end > start;
    if semicolon { end - 1 } else { end }
}

/// One word of a header, with the quoted strings in it.
fn header_word(bytes: &[u8], start: usize, quote: Option<u8>) -> usize {
    let mut at = start;
    while let Some(next) = byte(bytes, at) {
        let escape = next == b'\\' && matches!(byte(bytes, at + 1), Some(b'n' | b'r' | b'"'));
        // A semicolon may stand between two pairs.
        let command = next != b';' && is_command(bytes, at, next);
        if next.is_ascii_whitespace() || Some(next) == quote || escape || command {
            break;
        }
        if next == b'"' && byte(bytes, at.saturating_sub(1)) == Some(b'=') {
            let line = line_end(bytes, at);
            let close = skip(bytes.get(..line).unwrap_or_default(), at + 1, |b| b != b'"');
            at = if close < line { close } else { at };
        }
        at += 1;
    }
    at
}

fn ends_word(bytes: &[u8], at: usize, next: u8) -> bool {
    match next {
        b'"' | b'`' | b'&' | b'<' | b'>' => true,
        b';' | b'|' if names_a_command(bytes, at + 1) => true,
        b'\\' => matches!(byte(bytes, at + 1), Some(b'"' | b'\\')),
        b',' | b';' | b')' | b']' | b'}' | b'|' | b'\'' | b'#' => ends_after(bytes, at + 1),
        _ => next.is_ascii_whitespace(),
    }
}

/// Whether what follows `;` or `|` may be run by a shell.
fn names_a_command(bytes: &[u8], at: usize) -> bool {
    byte(bytes, at).is_some_and(|b| b.is_ascii_alphabetic() || b"/.~$({".contains(&b))
}

/// Whether what follows a comma or bracket is not part of the value: nothing, or another pair.
fn ends_after(bytes: &[u8], at: usize) -> bool {
    let Some(next) = byte(bytes, at) else { return true };
    if next.is_ascii_alphanumeric() || next == b'_' {
        let limit = bytes.get(..bytes.len().min(at + LONGEST_NAME)).unwrap_or_default();
        let end = skip(limit, at, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
        return matches!(byte(bytes, end), Some(b'=' | b':'));
    }
    next.is_ascii_whitespace()
        || matches!(next, b')' | b']' | b'}' | b'"' | b'\'' | b',' | b';' | b'\\')
}

const LONGEST_NAME: usize = 64;

/// What YAML puts on the lines after the name: everything that is indented further.
fn block(bytes: &[u8], start: usize, indent: usize) -> Option<Range<usize>> {
    let mark = skip(bytes, start, |b| matches!(b, b'|' | b'>' | b'+' | b'-' | b' ' | b'\r'));
    if byte(bytes, mark) != Some(b'\n') {
        return None;
    }
    let first = mark + 1;
    let mut end = first;
    let mut at = first;
    while at < bytes.len() {
        let text = skip(bytes, at, |b| matches!(b, b' ' | b'\t'));
        let line_end = skip(bytes, text, |b| b != b'\n');
        let empty = bytes.get(text..line_end).unwrap_or_default().trim_ascii().is_empty();
        if !empty && text - at <= indent {
            break;
        }
        if !empty {
            end = line_end;
        }
        at = line_end + 1;
    }
    let inner = skip(bytes, first, |b| b.is_ascii_whitespace()).min(end);
    let value = bytes.get(inner..end).unwrap_or_default();
    Some(inner..inner + value.trim_ascii_end().len())
}
