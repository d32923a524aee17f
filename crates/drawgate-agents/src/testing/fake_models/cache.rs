//! What the server has cached of requests, by the marks that the API of Anthropic has for it.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde_json::Value;

use crate::model::estimate::{tokens, value_chars};

/// The mark of a block up to which a request is cached.
const MARK: &str = "cache_control";

/// The beginnings of requests that are cached.
#[derive(Default)]
pub(super) struct Cache(Mutex<BTreeSet<String>>);

/// Tokens of a request that the cache has to do with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cached {
    pub(super) read: u64,
    pub(super) written: u64,
}

impl Cache {
    /// Reads the longest beginning that is known, and keeps those that are marked.
    pub(super) fn take(&self, body: &Value) -> Cached {
        let marked = marked(body);
        let mut known = self.0.lock();
        let of_known = marked.iter().filter(|(beginning, _)| known.contains(beginning));
        let read = of_known.map(|(_, tokens)| *tokens).max().unwrap_or_default();
        let longest = marked.iter().map(|(_, tokens)| *tokens).max().unwrap_or_default();
        known.extend(marked.into_iter().map(|(beginning, _)| beginning));
        Cached { read, written: longest.saturating_sub(read) }
    }
}

/// The beginnings of a request that end with a mark, and their tokens.
fn marked(body: &Value) -> Vec<(String, u64)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_messages =
        list(&body["messages"]).into_iter().flat_map(|message| list(&message["content"]));
    let blocks = list(&body["tools"]).into_iter().chain(list(&body["system"])).chain(of_messages);
    let (mut beginning, mut chars, mut found) = (String::new(), 0_u64, Vec::new());
    for mut block in blocks {
        let mark = block.as_object_mut().and_then(|members| members.remove(MARK));
        beginning.push_str(&block.to_string());
        chars = chars.saturating_add(value_chars(&block));
        if mark.is_some() {
            found.push((beginning.clone(), tokens(chars)));
        }
    }
    found
}
