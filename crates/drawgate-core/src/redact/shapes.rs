//! Tokens that can be told by their shape alone: a fixed prefix and a run of characters. A
//! hand-written scanner, because an alternation of open-ended patterns is quadratic on bad input.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::spans::Spans;

/// What may follow the prefix of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Alnum,
    UpperDigit,
    Hex,
    /// Letters, digits, `_` and `-`.
    Word,
    /// The same and `.`.
    Dotted,
    /// Base64 of a JSON header, then more parts after dots.
    Jwt,
    /// Parts of a path, as in the address of a webhook.
    Path,
}

/// Whether the prefix may stand in the middle of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Any,
    Edge,
}

struct Shape {
    prefix: &'static str,
    left: Left,
    run: Run,
    at_least: usize,
}

const fn shape(prefix: &'static str, left: Left, run: Run, at_least: usize) -> Shape {
    Shape { prefix, left, run, at_least }
}

use Left::{Any, Edge};
use Run::{Alnum, Dotted, Hex, Jwt, Path, UpperDigit, Word};

const SHAPES: &[Shape] = &[
    shape("ghp_", Any, Alnum, 30),
    shape("gho_", Any, Alnum, 30),
    shape("ghu_", Any, Alnum, 30),
    shape("ghs_", Any, Word, 30),
    shape("ghr_", Any, Alnum, 30),
    shape("github_pat_", Any, Word, 30),
    shape("glpat-", Any, Dotted, 20),
    shape("gldt-", Any, Word, 20),
    shape("glrt-", Any, Dotted, 20),
    shape("glptt-", Any, Word, 20),
    shape("glcbt-", Any, Word, 20),
    shape("glsoat-", Any, Word, 20),
    shape("xoxa-", Any, Word, 10),
    shape("xoxb-", Any, Word, 10),
    shape("xoxc-", Any, Word, 10),
    shape("xoxd-", Any, Word, 10),
    shape("xoxe-", Any, Word, 10),
    shape("xoxe.", Any, Dotted, 10),
    shape("xoxo-", Any, Word, 10),
    shape("xoxp-", Any, Word, 10),
    shape("xoxr-", Any, Word, 10),
    shape("xoxs-", Any, Word, 10),
    shape("xapp-", Any, Word, 10),
    shape("AKIA", Any, UpperDigit, 16),
    shape("ASIA", Edge, UpperDigit, 16),
    shape("AIza", Any, Word, 30),
    shape("ya29.", Any, Dotted, 20),
    shape("GOCSPX-", Any, Word, 20),
    shape("1//0", Edge, Word, 30),
    shape("sk-ant-", Any, Word, 16),
    shape("sk-proj-", Any, Word, 16),
    shape("sk-svcacct-", Any, Word, 16),
    shape("sk-admin-", Any, Word, 16),
    shape("sk-or-v1-", Any, Word, 16),
    shape("sk-", Edge, Alnum, 20),
    shape("sk_live_", Any, Alnum, 16),
    shape("sk_test_", Any, Alnum, 16),
    shape("rk_live_", Any, Alnum, 16),
    shape("rk_test_", Any, Alnum, 16),
    shape("whsec_", Any, Alnum, 20),
    shape("npm_", Any, Alnum, 30),
    shape("pypi-", Edge, Word, 40),
    shape("hf_", Edge, Alnum, 30),
    shape("SG.", Edge, Dotted, 40),
    shape("SK", Edge, Hex, 32),
    shape("dg_", Any, Alnum, 32),
    shape("dop_v1_", Any, Hex, 40),
    shape("doo_v1_", Any, Hex, 40),
    shape("dapi", Edge, Hex, 32),
    shape("shpat_", Any, Hex, 32),
    shape("shpss_", Any, Hex, 32),
    shape("shpca_", Any, Hex, 32),
    shape("hvs.", Edge, Word, 24),
    shape("hvb.", Edge, Word, 24),
    shape("lin_api_", Any, Alnum, 30),
    shape("ntn_", Edge, Alnum, 30),
    shape("ATATT3", Any, Word, 30),
    shape("PMAK-", Any, Word, 30),
    shape("glsa_", Any, Word, 30),
    shape("sntrys_", Any, Word, 30),
    shape("gsk_", Edge, Alnum, 40),
    shape("xai-", Edge, Alnum, 40),
    shape("r8_", Edge, Alnum, 30),
    shape("pplx-", Edge, Alnum, 40),
    shape("sbp_", Edge, Hex, 40),
    shape("pscale_tkn_", Any, Word, 20),
    shape("AGE-SECRET-KEY-1", Any, Alnum, 30),
    shape("hooks.slack.com/services/", Any, Path, 20),
    shape("discord.com/api/webhooks/", Any, Path, 20),
    shape("eyJ", Any, Jwt, 10),
];

static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::DFA))
        .build(prefixes())
        .ok()
});

/// The prefixes of every shape, for the check that precedes all others.
pub(super) fn prefixes() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|shape| shape.prefix)
}

/// Notes every token in the text.
pub(super) fn find(text: &str, spans: &mut Spans) {
    let Some(finder) = FINDER.as_ref() else { return spans.push(0..text.len()) };
    let bytes = text.as_bytes();
    let mut from = 0;
    // The end of the last header that led to nothing, so that `eyJeyJeyJ…` is read once.
    let mut dead_until = 0;
    while let Some(hit) = finder.find(aho_corasick::Input::new(bytes).range(from..)) {
        from = hit.start() + 1;
        let Some(shape) = SHAPES.get(hit.pattern().as_usize()) else { continue };
        if shape.left == Edge && alnum_before(bytes, hit.start()) {
            continue;
        }
        let end = match shape.run {
            Jwt if hit.start() < dead_until => None,
            Jwt => jwt_end(bytes, hit.start(), &mut dead_until),
            Alnum | UpperDigit | Hex | Word | Dotted | Path => run_end(bytes, hit.end(), shape),
        };
        if let Some(end) = end {
            spans.push(hit.start()..end);
            if shape.run == UpperDigit {
                near_access_key(bytes, hit.start()..end, spans);
            }
            from = end;
        }
    }
}

fn alnum_before(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric)
}

fn run_end(bytes: &[u8], from: usize, shape: &Shape) -> Option<usize> {
    let first = end_of(bytes, from, |byte| belongs(shape.run, byte));
    let (end, more) = wrapped_end(bytes, first, shape.run);
    (first - from + more >= shape.at_least).then_some(end)
}

/// Where a token ends that a line end has cut at `end`, and how many characters stand on the lines
/// after that. A line belongs to it that holds nothing but such characters and looks generated.
fn wrapped_end(bytes: &[u8], mut end: usize, run: Run) -> (usize, usize) {
    let mut more = 0;
    while let Some(start) = next_line(bytes, end) {
        let stop = end_of(bytes, start, |byte| belongs(run, byte));
        let word = bytes.get(start..stop).unwrap_or_default();
        let after = end_of(bytes, stop, |byte| matches!(byte, b' ' | b'\t'));
        let is_alone =
            matches!(bytes.get(after), None | Some(b'\n' | b'\r' | b'\\' | b'"' | b'\'' | b'`'));
        if !is_alone || !is_generated(word) {
            break;
        }
        more += stop - start;
        end = stop;
    }
    (end, more)
}

/// The first byte of the next line, after its indent, if the line ends at `end`. The line end may be
/// an escaped one.
fn next_line(bytes: &[u8], end: usize) -> Option<usize> {
    let rest = bytes.get(end..)?;
    let breaks = [&b"\r\n"[..], b"\n", b"\\r\\n", b"\\n"];
    let found = breaks.iter().find(|found| rest.starts_with(found))?;
    Some(end_of(bytes, end + found.len(), |byte| matches!(byte, b' ' | b'\t')))
}

/// Letters and digits, in a mixture that no word has.
fn is_generated(word: &[u8]) -> bool {
    let (upper, lower) =
        (word.iter().any(u8::is_ascii_uppercase), word.iter().any(u8::is_ascii_lowercase));
    let digit = word.iter().any(u8::is_ascii_digit);
    digit && ((upper || lower) && word.len() >= 8 || upper && lower && word.len() >= 4)
}

fn end_of(bytes: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    from + rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len())
}

const fn belongs(run: Run, byte: u8) -> bool {
    match run {
        Alnum => byte.is_ascii_alphanumeric(),
        UpperDigit => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        Hex => byte.is_ascii_hexdigit(),
        Word | Jwt => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
        Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
        Path => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/'),
    }
}

/// Two or more parts after the header; the last may be empty, as in an unsigned token.
fn jwt_end(bytes: &[u8], start: usize, dead_until: &mut usize) -> Option<usize> {
    let header = end_of(bytes, start, |byte| belongs(Jwt, byte));
    if bytes.get(header) != Some(&b'.') {
        *dead_until = header;
        return None;
    }
    let payload = end_of(bytes, header + 1, |byte| belongs(Jwt, byte));
    if payload - header < 10 || header - start < 10 {
        *dead_until = header;
        return None;
    }
    let end = end_of(bytes, payload, |byte| belongs(Dotted, byte));
    Some(wrapped_end(bytes, end, Dotted).0)
}

/// How far from an access key id its secret half is looked for.
const NEAR: usize = 160;

/// The secret half of an AWS key has no prefix: 40 characters of base64 close to the id.
fn near_access_key(bytes: &[u8], id: Range<usize>, spans: &mut Spans) {
    let is_base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    let start = id.start.saturating_sub(NEAR);
    let end = (id.end + NEAR).min(bytes.len());
    let mut at = start;
    while at < end {
        let run = end_of(bytes.get(..end).unwrap_or_default(), at, |byte| is_base64(&byte));
        let word = bytes.get(at..run).unwrap_or_default();
        if word.len() == 40
            && word.iter().any(u8::is_ascii_lowercase)
            && word.iter().any(u8::is_ascii_uppercase)
        {
            spans.push(at..run);
        }
        at = run + 1;
    }
}

#[cfg(test)]
#[path = "shapes_tests.rs"]
mod tests;
