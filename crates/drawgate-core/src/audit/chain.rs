//! The hash chain: turns drafts into events that are bound to their predecessors.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;

use sha2::{Digest, Sha256};

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
        // What is hashed is the event without its member `hash`, whose place is kept free for it.
        let mut hasher = Sha256::new();
        if let Some((before, from_hash)) = body.split_at_checked(hash_at) {
            hasher.update(before);
            hasher.update(from_hash.get(HASH_MEMBER.len()..).unwrap_or_default());
        }
        let hash = canonical::hex(&hasher.finalize());
        let digits = hash_at + HASH_DIGITS;
        if let Some(place) = body.get_mut(digits..digits + hash.len()) {
            place.copy_from_slice(hash.as_bytes());
        }
        self.sequence = sequence;
        self.head = hash;
        Sealed { sequence, body: canonical::into_text(body) }
    }

    /// The canonical JSON with a place for `hash`, and where that begins.
    fn render(&self, draft: &EventDraft, sequence: u64) -> (Vec<u8>, usize) {
        // The chain's own values, one after the other.
        let mut own = Vec::with_capacity(160);
        // Writing to a vector can't fail.
        drop(write!(own, "{sequence}"));
        let number_end = own.len();
        drop(write!(own, "{}", draft.at_ms()));
        let time_end = own.len();
        canonical::write_text(draft.kind().as_str(), &mut own);
        let kind_end = own.len();
        canonical::write_text(&self.head, &mut own);
        let value = |range: Range<usize>| own.get(range).unwrap_or_default();
        let mut members: Vec<Member<'_>> = Vec::with_capacity(24);
        let fields = draft.fields().filter(|(key, _)| !RESERVED.contains(key));
        members.extend(fields.map(|(key, value)| Member::new(key, value)));
        members.extend([
            Member::new("createdAt", value(number_end..time_end)),
            Member::new("kind", value(time_end..kind_end)),
            Member::new("prev", value(kind_end..own.len())),
            Member::new("sequence", value(0..number_end)),
        ]);
        // Our keys are ASCII, so that byte order is the canonical one. The sort is stable: of two
        // values for a key the later one stays last, and is kept.
        members.sort_by_key(|member| (member.first, member.key));
        write_members(&members)
    }
}

/// A member of an event.
struct Member<'a> {
    /// The first eight bytes of the key, which order most keys without a look at the rest.
    first: u64,
    key: &'a str,
    value: &'a [u8],
}

impl<'a> Member<'a> {
    fn new(key: &'a str, value: &'a [u8]) -> Self {
        let mut first = [0; 8];
        for (place, byte) in first.iter_mut().zip(key.bytes()) {
            *place = byte;
        }
        Self { first: u64::from_be_bytes(first), key, value }
    }
}

/// The member `hash` before its digits are known, with the comma that follows it.
const HASH_MEMBER: &[u8] =
    b"\"hash\":\"0000000000000000000000000000000000000000000000000000000000000000\",";
/// Where in it the digits begin.
const HASH_DIGITS: usize = b"\"hash\":\"".len();

fn write_members(members: &[Member<'_>]) -> (Vec<u8>, usize) {
    let size: usize = members.iter().map(|member| member.key.len() + member.value.len() + 4).sum();
    let mut out = Vec::with_capacity(size + HASH_MEMBER.len() + 2);
    let mut hash_at = None;
    out.push(b'{');
    for (at, Member { key, value, .. }) in members.iter().enumerate() {
        if members.get(at + 1).is_some_and(|next| next.key == *key) {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        // `kind` always follows `hash`, so there is always a member to stand before.
        if hash_at.is_none() && *key > "hash" {
            hash_at = Some(out.len());
            out.extend_from_slice(HASH_MEMBER);
        }
        canonical::write_text(key, &mut out);
        out.push(b':');
        out.extend_from_slice(value);
    }
    out.push(b'}');
    (out, hash_at.unwrap_or_default())
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
