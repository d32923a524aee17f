//! Removing old events: where a log may be cut, and the signed record that stands for what was removed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::checkpoint::{CheckpointError, Signer, VerifyKeys, number, object, text};
use super::event::EventKind;
use crate::canonical;
use crate::store::StoreError;

/// What a pruning would remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrunePlan {
    /// The oldest event of the log.
    pub first: u64,
    /// The newest event that would go.
    pub last: u64,
    /// How many events would go; none if every earlier place is within a call.
    pub events: u64,
    /// Whether less goes than was asked for, because a call keeps its events.
    pub is_held_back: bool,
}

impl PrunePlan {
    /// Plans to remove the events before a sequence from a log with the events `first` to `head`.
    pub fn new(before: u64, first: u64, head: u64, calls: &CallSpans) -> Result<Self, StoreError> {
        let refused = |reason| StoreError::Unavailable { operation: "prune the audit log", reason };
        if head == 0 {
            return Err(refused("the log has no events".to_owned()));
        }
        if before <= first || before > head {
            return Err(refused(format!(
                "`{before}` is not a place to cut: the log has the events {first} to {head}, and the newest one stays; choose a sequence from {} to {head}",
                first + 1
            )));
        }
        let last = calls.cut(before - 1).max(first - 1);
        Ok(Self { first, last, events: last + 1 - first, is_held_back: last < before - 1 })
    }
}

/// From where to where the calls of a log reach. A call lasts from its first event to its last one;
/// one that has more decisions than outcomes has not ended.
#[derive(Debug, Default)]
pub struct CallSpans(BTreeMap<String, Span>);

#[derive(Debug)]
struct Span {
    first: u64,
    last: u64,
    decisions: u64,
    outcomes: u64,
}

impl CallSpans {
    /// Notes an event of a call. Events come in the order of the log.
    pub fn note(&mut self, sequence: u64, call: String, kind: &str) {
        let span = Span { first: sequence, last: sequence, decisions: 0, outcomes: 0 };
        let span = self.0.entry(call).or_insert(span);
        span.last = sequence;
        span.decisions += u64::from(kind == EventKind::Decision.as_str());
        span.outcomes += u64::from(kind == EventKind::Outcome.as_str());
    }

    /// The newest place up to a sequence where no call is under way.
    fn cut(&self, asked: u64) -> u64 {
        let mut spans: Vec<(u64, u64)> = self.0.values().map(Span::reach).collect();
        spans.sort_unstable_by(|a, b| b.cmp(a));
        // From the newest call back: a call that the cut is moved before may reach into an older one.
        spans.into_iter().fold(
            asked,
            |cut, (first, last)| {
                if first <= cut && last > cut { first - 1 } else { cut }
            },
        )
    }
}

impl Span {
    const fn reach(&self) -> (u64, u64) {
        (self.first, if self.decisions > self.outcomes { u64::MAX } else { self.last })
    }
}

/// Says, signed, where a pruned log begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneRecord {
    /// The newest event that was removed.
    pub sequence: u64,
    /// Its hash, which the first event that is left has as its predecessor's.
    pub head: String,
    /// The hash of the newest checkpoint that was removed.
    pub checkpoint: String,
    /// The installation.
    pub install: String,
    /// When, in milliseconds since the epoch.
    pub at: u64,
}

impl PruneRecord {
    /// The signed canonical JSON.
    #[must_use]
    pub fn to_signed_json(&self, signer: &Signer) -> String {
        let mut map = Map::new();
        map.insert("at".to_owned(), self.at.into());
        map.insert("checkpoint".to_owned(), self.checkpoint.clone().into());
        map.insert("head".to_owned(), self.head.clone().into());
        map.insert("install".to_owned(), self.install.clone().into());
        map.insert("pruned".to_owned(), self.sequence.into());
        let signature = signer.sign(map.clone());
        map.insert("key".to_owned(), signer.keys().public_hex().into());
        map.insert("signature".to_owned(), signature.into());
        canonical::to_string(&Value::Object(map))
    }

    /// Reads a record and checks its signature.
    pub fn parse(body: &str, keys: &VerifyKeys) -> Result<Self, CheckpointError> {
        keys.check(body)?;
        Self::parse_unchecked(body)
    }

    /// Reads a record without checking who signed it.
    pub fn parse_unchecked(body: &str) -> Result<Self, CheckpointError> {
        let map = object(body)?;
        Ok(Self {
            // Its own name, so that a checkpoint can't be passed off as a prune record.
            sequence: number(&map, "pruned")?,
            head: text(&map, "head")?,
            checkpoint: text(&map, "checkpoint")?,
            install: text(&map, "install")?,
            at: number(&map, "at")?,
        })
    }
}
