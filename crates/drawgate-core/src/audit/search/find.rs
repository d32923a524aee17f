//! What an id belongs to: an event, a call, a caller's request or an approval.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::filter::{Head, MatchCase, needle, quoted};
use super::{EventSource, MAX_APART, Scan};
use crate::store::StoreError;

/// Most events of one page.
const MAX_EVENTS: usize = 1000;

/// An id, and where to look for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IdQuery {
    /// The id.
    pub id: String,
    /// What it must be; anything if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<IdKind>,
    /// Only events before this sequence: where the page before this one stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

impl IdQuery {
    /// Reads an id, or one that says what it is of, such as `request:7`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let of = |kind: IdKind| Some((kind, text.strip_prefix(kind.as_str())?.strip_prefix(':')?));
        match IdKind::ALL.into_iter().find_map(of) {
            Some((kind, id)) => Self { id: id.to_owned(), kind: Some(kind), before: None },
            None => Self { id: text.to_owned(), kind: None, before: None },
        }
    }
}

/// What an id may be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdKind {
    /// An event, by its sequence.
    Event,
    /// A call, by the gate's name for it.
    Call,
    /// A call, by the caller's name for it.
    Request,
    /// An approval, with the calls that it is about.
    Approval,
}

impl IdKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Event, Self::Call, Self::Request, Self::Approval];

    /// As people write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Call => "call",
            Self::Request => "request",
            Self::Approval => "approval",
        }
    }
}

/// A part of what an id belongs to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundEvents {
    /// Events by the kind of id by which they were found, oldest first.
    pub events: Vec<FoundEvent>,
    /// What to ask `before` for the next page; absent when the log has no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// An event that an id belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundEvent {
    /// What the id is of.
    pub by: IdKind,
    /// The event's place.
    pub sequence: u64,
    /// The event as the log has it.
    pub event: Value,
}

impl FoundEvent {
    fn new(by: IdKind, sequence: u64, body: &str) -> Self {
        // One that can't be read is shown as it is.
        let event = serde_json::from_str(body).unwrap_or_else(|_| body.into());
        Self { by, sequence, event }
    }
}

/// Finds one page of what an id belongs to.
pub fn find(query: &IdQuery, source: &dyn EventSource) -> Result<FoundEvents, StoreError> {
    let is_meant = |kind: IdKind| query.kind.is_none_or(|wanted| wanted == kind);
    let mut events = Vec::new();
    if query.before.is_none()
        && is_meant(IdKind::Event)
        && let Ok(sequence) = query.id.parse()
    {
        source.oldest_first(sequence..=sequence, &mut |sequence, body| {
            events.push(FoundEvent::new(IdKind::Event, sequence, body));
            ControlFlow::Break(())
        })?;
    }
    if query.kind == Some(IdKind::Event) {
        return Ok(FoundEvents { events, next: None });
    }
    let mut scan = Scan::new(None, query.before);
    let Some(needle) = needle(&format!(":{}", quoted(&query.id)), MatchCase::Exact) else {
        return Ok(FoundEvents { events, next: None });
    };
    let mut calls = BTreeSet::new();
    for range in source.ranges(None, None)? {
        let done = scan.range(source, range, |sequence, body| {
            let head = needle.is_match(body).then(|| Head::parse(body)).flatten();
            let kind = head.as_ref().and_then(|head| kind_of(head, &query.id));
            if let Some(kind) = kind.filter(|kind| is_meant(*kind)) {
                if kind == IdKind::Approval {
                    calls.extend(head.and_then(|head| Some(head.call_id?.into_owned())));
                }
                events.push(FoundEvent::new(kind, sequence, body));
            }
            Ok(events.len() >= MAX_EVENTS)
        })?;
        if done.is_break() {
            break;
        }
    }
    add_calls(&calls, &mut events, source)?;
    events.sort_by_key(|found| (found.by, found.sequence));
    events.dedup_by_key(|found| (found.by, found.sequence));
    Ok(FoundEvents { events, next: scan.next })
}

/// Adds the other events of the calls that an approval is about.
fn add_calls(
    calls: &BTreeSet<String>,
    events: &mut Vec<FoundEvent>,
    source: &dyn EventSource,
) -> Result<(), StoreError> {
    let of_approval = events.iter().filter(|found| found.by == IdKind::Approval);
    let Some(first) = of_approval.map(|found| found.sequence).min() else { return Ok(()) };
    source.oldest_first(first..=first.saturating_add(MAX_APART), &mut |sequence, body| {
        let head = body.contains("\"callId\":").then(|| Head::parse(body)).flatten();
        if head.and_then(|head| head.call_id).is_some_and(|call| calls.contains(&*call)) {
            events.push(FoundEvent::new(IdKind::Approval, sequence, body));
        }
        ControlFlow::Continue(())
    })
}

fn kind_of(head: &Head<'_>, id: &str) -> Option<IdKind> {
    let kinds = [
        (&head.call_id, IdKind::Call),
        (&head.request_id, IdKind::Request),
        (&head.approval_id, IdKind::Approval),
    ];
    kinds.into_iter().find(|(own, _)| own.as_deref() == Some(id)).map(|(_, kind)| kind)
}
