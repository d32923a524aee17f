//! One list in pages, and the cursors by which clients ask for the next.

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Items of one page, and their bytes: so many that a client which does not ask for the next page has
/// all that a model can use, and less than a client refuses.
const PAGE_ITEMS: usize = 1_000;
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// The longest text that a cursor can be.
const MAX_CURSOR: usize = 33;

/// One list, ready to be sent.
pub(crate) struct Listed {
    /// JSON, one by one.
    items: Vec<Bytes>,
    /// Equal for equal lists.
    pub(crate) digest: [u8; 32],
}

impl Listed {
    pub(crate) fn of(definitions: &[Value]) -> Self {
        let items: Vec<Bytes> = definitions
            .iter()
            .map(|definition| Bytes::from(serde_json::to_vec(definition).unwrap_or_default()))
            .collect();
        let mut hash = Sha256::new();
        for item in &items {
            hash.update(Sha256::digest(item));
        }
        Self { digest: hash.finalize().into(), items }
    }

    /// A page: its items, joined as in a JSON array, and where the next one begins.
    pub(crate) fn page(&self, cursor: Option<Cursor>) -> (Vec<u8>, Option<Cursor>) {
        let start = cursor.map_or(0, |cursor| self.after(cursor));
        let mut page = Vec::new();
        let mut count = 0;
        for item in self.items.iter().skip(start) {
            let is_full = count == PAGE_ITEMS || page.len() + item.len() > PAGE_BYTES;
            if count > 0 && is_full {
                break;
            }
            if count > 0 {
                page.push(b',');
            }
            page.extend_from_slice(item);
            count += 1;
        }
        let end = start + count;
        let last = end.checked_sub(1).and_then(|last| self.items.get(last));
        let next = last.filter(|_| end < self.items.len());
        (page, next.map(|last| Cursor { index: end, last: mark(last) }))
    }

    /// Where to go on: behind the item that was the last one, wherever it is now; if it is gone, where
    /// it was.
    fn after(&self, Cursor { index, last }: Cursor) -> usize {
        let is_last = |place: &usize| self.items.get(*place).is_some_and(|item| mark(item) == last);
        if index.checked_sub(1).as_ref().is_some_and(is_last) {
            return index;
        }
        let moved = (0..self.items.len()).find(is_last);
        moved.map_or(index, |place| place + 1).min(self.items.len())
    }
}

/// The end of a page, given out as an opaque text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    index: usize,
    last: u64,
}

impl Cursor {
    /// Reads one that was given out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (index, last) = text.split_once('-').filter(|_| text.len() <= MAX_CURSOR)?;
        Some(Self {
            index: usize::from_str_radix(index, 16).ok()?,
            last: u64::from_str_radix(last, 16).ok()?,
        })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:x}-{:016x}", self.index, self.last)
    }
}

/// By what an item is known again.
fn mark(item: &[u8]) -> u64 {
    let digest = Sha256::digest(item);
    digest.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The sizes of all pages, and everything that is on them.
    fn pages(list: &Listed) -> (Vec<usize>, Vec<Value>) {
        let (mut sizes, mut all, mut cursor) = (Vec::new(), Vec::new(), None);
        loop {
            let (page, next) = list.page(cursor);
            let page = format!("[{}]", String::from_utf8(page).unwrap());
            let page: Vec<Value> = serde_json::from_str(&page).unwrap();
            sizes.push(page.len());
            all.extend(page);
            match next {
                // As clients send it back.
                Some(next) => cursor = Some(Cursor::parse(&next.to_string()).unwrap()),
                None => return (sizes, all),
            }
        }
    }

    #[test]
    fn pages_are_bounded_by_count_and_bytes_and_lose_nothing() {
        let numbers = |count: usize| (0..count).map(|n| json!(n)).collect::<Vec<Value>>();
        for (count, expected) in [
            (0, vec![0]),
            (1, vec![1]),
            (PAGE_ITEMS, vec![PAGE_ITEMS]),
            (2 * PAGE_ITEMS + 1, vec![PAGE_ITEMS, PAGE_ITEMS, 1]),
        ] {
            let (sizes, all) = pages(&Listed::of(&numbers(count)));
            assert_eq!((sizes, all), (expected, numbers(count)));
        }
        let large = |n: usize| json!(format!("{n}{}", "x".repeat(PAGE_BYTES / 2 - 10)));
        let large: Vec<Value> = (0..5).map(large).collect();
        assert_eq!(pages(&Listed::of(&large)), (vec![2, 2, 1], large));
        let huge = [json!("x".repeat(PAGE_BYTES + 1)), json!(1)];
        assert_eq!(pages(&Listed::of(&huge)).0, [1, 1], "one item is always sent");
    }

    #[test]
    fn a_list_that_changes_between_pages_goes_on_behind_the_last_item() {
        let list = |numbers: std::ops::Range<usize>| {
            Listed::of(&numbers.map(|n| json!(n)).collect::<Vec<Value>>())
        };
        let (_, next) = list(0..PAGE_ITEMS + 5).page(None);
        let first_of = |list: &Listed| {
            let (page, _) = list.page(next);
            String::from_utf8(page).unwrap().split(',').next().unwrap().to_owned()
        };
        assert_eq!(first_of(&list(0..PAGE_ITEMS + 5)), "1000");
        assert_eq!(first_of(&list(7..PAGE_ITEMS + 5)), "1000", "some before are gone");
        assert_eq!(first_of(&list(0..3)), "", "all of it is gone");
        assert_eq!(first_of(&list(5_000..7_000)), "6000", "where it was");
    }

    #[test]
    fn what_was_not_given_out_is_no_cursor() {
        for text in ["", "-", "x", "1", "1-", "-1", "g-1", "1-g", "1-2-3", &"1".repeat(100)] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
        assert!(Cursor::parse(&format!("{:x}-{:x}", usize::MAX, u64::MAX)).is_some());
        let far = Cursor { index: usize::MAX, last: 1 };
        assert_eq!(Listed::of(&[json!(1)]).page(Some(far)), (Vec::new(), None));
    }
}
