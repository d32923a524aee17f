//! The hash chain: turns drafts into events that are bound to their predecessors.

use std::collections::BTreeMap;

use super::event::{EventDraft, EventKind, RESERVED};
use crate::canonical;

/// What the first event of a log has as its predecessor's hash.
pub const ZERO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The end of a chain, where the next event is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    sequence: u64,
    head: String,
}

/// An event with its place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Its place, from 1.
    pub sequence: u64,
    /// Its canonical JSON.
    pub body: String,
}

impl Default for Chain {
    fn default() -> Self {
        Self { sequence: 0, head: ZERO_HASH.to_owned() }
    }
}

impl Chain {
    /// Continues after an event.
    #[must_use]
    pub fn after(sequence: u64, hash: impl Into<String>) -> Self {
        Self { sequence, head: hash.into() }
    }

    /// The newest sequence, 0 for an empty chain.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The newest event's hash.
    #[must_use]
    pub fn head(&self) -> &str {
        &self.head
    }

    /// Attaches an event.
    pub fn seal(&mut self, draft: &EventDraft) -> Sealed {
        let sequence = self.sequence + 1;
        let (mut body, hash_at) = self.render(draft, sequence);
        let hash = canonical::sha256_hex(&body);
        let member = ["\"hash\":\"", &hash, "\","].concat();
        body.splice(hash_at..hash_at, member.into_bytes());
        self.sequence = sequence;
        self.head = hash;
        Sealed { sequence, body: canonical::into_text(body) }
    }

    /// The canonical JSON without `hash`, and where `hash` belongs in it.
    fn render(&self, draft: &EventDraft, sequence: u64) -> (Vec<u8>, usize) {
        let number = sequence.to_string();
        let created_at = draft.at_ms().to_string();
        let kind = ["\"", draft.kind().as_str(), "\""].concat();
        let prev = ["\"", &self.head, "\""].concat();
        let mut members: Vec<(&str, &[u8])> = Vec::with_capacity(24);
        members.extend(draft.fields().filter(|(key, _)| !RESERVED.contains(key)));
        members.push(("sequence", number.as_bytes()));
        members.push(("createdAt", created_at.as_bytes()));
        members.push(("kind", kind.as_bytes()));
        members.push(("prev", prev.as_bytes()));
        // Our keys are ASCII, so that byte order is the canonical one. The sort is stable: of two
        // values for a key the later one stays last, and is kept.
        members.sort_by_key(|(key, _)| *key);
        write_members(&members)
    }
}

fn write_members(members: &[(&str, &[u8])]) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(1024);
    let mut hash_at = None;
    out.push(b'{');
    for (at, (key, value)) in members.iter().enumerate() {
        if members.get(at + 1).is_some_and(|(next, _)| next == key) {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        // `kind` always follows `hash`, so there is always a member to stand before.
        if hash_at.is_none() && *key > "hash" {
            hash_at = Some(out.len());
        }
        canonical::write_text(key, &mut out);
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
    (out, hash_at.unwrap_or(1))
}

/// The calls that have a decision but no outcome yet. Bounded by the calls that are under way.
#[derive(Debug, Clone, Default)]
pub struct OpenCalls(BTreeMap<Vec<u8>, u64>);

impl OpenCalls {
    /// Notes an event that was appended.
    pub fn note(&mut self, sequence: u64, draft: &EventDraft) {
        let Some(call) = draft.field("callId") else { return };
        match draft.kind() {
            EventKind::Decision => {
                self.0.insert(call.to_vec(), sequence);
            }
            EventKind::Outcome => {
                self.0.remove(call);
            }
            _ => {}
        }
    }

    /// The lowest sequence of a decision without an outcome.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.0.values().min().copied()
    }
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
