//! Asking the log: which calls and events match a question, and what an id belongs to.
//!
//! A question is answered in pages. Each reads the log from the newest event backwards, looks at a
//! bounded number of events, and says where the next page begins. What a store gives is behind
//! [`EventSource`]; what matches, and which events make up a call, is decided here for all stores.

mod calls;
mod filter;
mod find;

use std::ops::{ControlFlow, RangeInclusive};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::calls::Folding;
use self::filter::EventFilter;
pub use self::filter::QueryError;
pub use self::find::{FoundEvent, FoundEvents, IdKind, IdQuery, find};
use crate::store::StoreError;

/// Most events that one page looks at: a fraction of a second, also where a log is large.
const MAX_SCANNED: u64 = 100_000;
/// How far around a page the other events of its calls are looked for. A call whose events are further
/// apart is shown without those.
const MAX_APART: u64 = 20_000;
/// Most entries of one page.
const MAX_ENTRIES: usize = 1000;

/// A question to the log. What is absent does not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditQuery {
    /// From this time on, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Before this time, in milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Who called or acted: the principal, or the profile of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A pattern over the tool's id, `source__tool`, or its bare name; `*` stands for anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// How a call ended: the code of a failure, or `OK`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A text in what the log holds, such as arguments and reasons. Case does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the events of a call are one entry.
    #[serde(default)]
    pub view: AuditView,
    /// The newest so many.
    pub limit: usize,
    /// Only events after this sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Only what ended before this sequence: where the page before this one stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

/// What an entry of an answer is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditView {
    /// A call with all its events, or an event that belongs to none. That an act of an operator begins
    /// is left out.
    #[default]
    Calls,
    /// One event; what is asked for must be in that event.
    Events,
}

/// A part of the answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditPage {
    /// What matches, newest first.
    pub entries: Vec<AuditEntry>,
    /// What to ask `before` for the next page; absent when the log has no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// A call, or another event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// The place of its newest event.
    pub sequence: u64,
    /// Its events as the log has them, oldest first.
    pub events: Vec<Value>,
    /// The beginning of a call's arguments, as redacted JSON, if the log has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The event by which a person decided about the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Value>,
}

/// What is told of each event: its sequence and its JSON.
pub type Visit<'a> = dyn FnMut(u64, &str) -> ControlFlow<()> + 'a;

/// The events of a log as they were at one moment.
pub trait EventSource {
    /// Sequences among which are all events of a time, newest first. Ranges are not empty and do not
    /// overlap.
    fn ranges(
        &self,
        since: Option<u64>,
        until: Option<u64>,
    ) -> Result<Vec<RangeInclusive<u64>>, StoreError>;
    /// Hands over the events of a range, newest first, until it is told to stop.
    fn newest_first(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError>;
    /// Hands over the events of a range, oldest first, until it is told to stop.
    fn oldest_first(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError>;
    /// The arguments that are kept beside an event, by their hash.
    fn payload(&self, hash: &str) -> Result<Option<String>, StoreError>;
}

/// A question that can be asked.
pub struct AuditSearch {
    query: AuditQuery,
    filter: EventFilter,
}

impl AuditSearch {
    /// Checks and compiles a question.
    pub fn new(query: AuditQuery) -> Result<Self, QueryError> {
        let filter = EventFilter::new(&query)?;
        Ok(Self { query, filter })
    }

    /// Answers one page of it. It may take a moment, on the calling thread.
    pub fn run(&self, source: &dyn EventSource) -> Result<AuditPage, StoreError> {
        let Self { query, filter } = self;
        let limit = query.limit.clamp(1, MAX_ENTRIES);
        let mut folding = Folding::new(filter, query.view, source);
        let mut scan = Scan::new(query.after, query.before);
        for range in source.ranges(query.since, query.until)? {
            let done = scan.range(source, range, |sequence, body| {
                Ok(folding.visit(sequence, body)? >= limit)
            })?;
            if done.is_break() {
                break;
            }
        }
        folding.look_around(scan.lowest, query.before)?;
        Ok(AuditPage { entries: folding.finish()?, next: scan.next })
    }
}

/// The way of one page through the log.
struct Scan {
    /// Only what is after this sequence, and before that one.
    start: u64,
    end: u64,
    left: u64,
    /// The oldest event that was looked at.
    lowest: Option<u64>,
    /// Where the next page goes on.
    next: Option<u64>,
}

impl Scan {
    fn new(after: Option<u64>, before: Option<u64>) -> Self {
        let (start, end) = (after.unwrap_or(0), before.unwrap_or(u64::MAX));
        Self { start, end, left: MAX_SCANNED, lowest: None, next: None }
    }

    /// Reads a range, until the page is full or has looked at enough.
    fn range(
        &mut self,
        source: &dyn EventSource,
        range: RangeInclusive<u64>,
        mut visit: impl FnMut(u64, &str) -> Result<bool, StoreError>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let first = self.start.saturating_add(1).max(*range.start());
        let last = self.end.saturating_sub(1).min(*range.end());
        if first > last {
            return Ok(ControlFlow::Continue(()));
        }
        let mut failed = Ok(());
        source.newest_first(first..=last, &mut |sequence, body| {
            self.lowest = Some(sequence);
            self.left -= 1;
            let is_full = visit(sequence, body).unwrap_or_else(|error| {
                failed = Err(error);
                true
            });
            if is_full || self.left == 0 {
                self.next = Some(sequence);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        failed?;
        Ok(if self.next.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
