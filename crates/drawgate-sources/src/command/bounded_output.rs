//! What is kept of a program's output: the beginning and the end, however much there is.

use std::collections::VecDeque;

/// Bytes that are kept at each end.
const HALF: usize = 4 * 1024 * 1024;

/// A bounded record of a stream.
#[derive(Debug, Default)]
pub(super) struct BoundedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl BoundedOutput {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = HALF.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(HALF);
        self.drop_front(excess);
    }

    /// The text, with a note where something is missing. There, `margin` bytes on both sides are left
    /// out too: enough that no part of a secret is left that lay across the gap and so can't be found.
    pub(super) fn into_text(mut self, margin: usize) -> String {
        if self.dropped == 0 {
            self.head.extend(self.tail);
            return String::from_utf8(self.head)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        }
        let before = self.head.len();
        self.head.truncate(before.saturating_sub(margin));
        self.dropped += (before - self.head.len()) as u64;
        self.drop_front(margin.min(self.tail.len()));
        let (head, tail) = (String::from_utf8_lossy(&self.head), self.tail.make_contiguous());
        let tail = String::from_utf8_lossy(tail);
        format!("{head}\n[{} bytes left out here]\n{tail}", self.dropped)
    }

    fn drop_front(&mut self, count: usize) {
        self.dropped += self.tail.drain(..count).len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_kept_and_memory_is_bounded() {
        let mut kept = BoundedOutput::default();
        kept.push(b"begin ");
        for _ in 0..40 {
            kept.push(&vec![b'x'; 1 << 20]);
            assert!(kept.head.len() <= HALF && kept.tail.len() <= HALF);
        }
        kept.push(b" end");
        let text = kept.into_text(0);
        assert!(text.starts_with("begin x") && text.ends_with("x end"));
        let left_out = 40 * (1 << 20) + 10 - 2 * HALF;
        assert!(text.contains(&format!("\n[{left_out} bytes left out here]\n")));
    }

    #[test]
    fn no_part_of_a_secret_is_left_at_the_gap() {
        for shift in 0..12 {
            let mut kept = BoundedOutput::default();
            kept.push(&vec![b'x'; HALF - shift]);
            kept.push(b"hunter2-pass");
            kept.push(&vec![b'x'; HALF - 12 + shift]);
            kept.push(b"y");
            let text = kept.into_text("hunter2-pass".len());
            assert!(!text.contains("hunter") && !text.contains("pass"), "{shift}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut kept = BoundedOutput::default();
        kept.push(b"a\xffb");
        assert_eq!(kept.into_text(0), "a\u{fffd}b");
    }
}
