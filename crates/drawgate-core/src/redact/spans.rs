//! Byte ranges of a text that will be covered by the mask.

use std::ops::Range;

use super::MASK;

/// Ranges in any order, possibly overlapping.
#[derive(Debug, Default)]
pub(super) struct Spans(Vec<Range<usize>>);

impl Spans {
    /// Notes a range; an empty one is ignored.
    pub(super) fn push(&mut self, range: Range<usize>) {
        if range.start < range.end {
            self.0.push(range);
        }
    }

    /// Notes a value whose end was told from the text around it. What a shell would run is no part of a
    /// secret: a command inside the value stays to be seen, with all that follows it.
    pub(super) fn push_value(&mut self, text: &str, range: Range<usize>) {
        let value = text.get(range.clone()).unwrap_or_default();
        let command = value.find("$(").into_iter().chain(value.find('`')).min();
        self.push(range.start..command.map_or(range.end, |at| range.start + at));
    }

    /// The text with every range replaced by one mask, or `None` if nothing changes.
    pub(super) fn apply(mut self, text: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        self.0.sort_unstable_by_key(|range| (range.start, range.end));
        let mut out = String::with_capacity(text.len());
        let mut kept = 0;
        for range in merged(&self.0, text) {
            out.push_str(text.get(kept..range.start).unwrap_or_default());
            out.push_str(MASK);
            kept = range.end;
        }
        out.push_str(text.get(kept..).unwrap_or_default());
        (out != text).then_some(out)
    }
}

/// Joins ranges that touch, and swallows masks beside them: two secrets in a row must not show
/// that they were two.
fn merged(sorted: &[Range<usize>], text: &str) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        let range = grown(range, text);
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

fn grown(range: &Range<usize>, text: &str) -> Range<usize> {
    let mut start = text.floor_char_boundary(range.start);
    let mut end = text.ceil_char_boundary(range.end);
    while text.get(..start).is_some_and(|before| before.ends_with(MASK)) {
        start -= MASK.len();
    }
    while text.get(end..).is_some_and(|after| after.starts_with(MASK)) {
        end += MASK.len();
    }
    start..end
}
