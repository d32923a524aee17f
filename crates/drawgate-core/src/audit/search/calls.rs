//! Puts the events of a call together, as a page comes by them.
//!
//! Events come newest first, so that the outcome of a call is seen before its decision, which has the
//! arguments, and before a person's decision about it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde_json::Value;

use super::filter::{EventFilter, Head};
use super::{AuditEntry, AuditView, EventSource, MAX_APART};
use crate::audit::EventKind;
use crate::canonical;
use crate::store::StoreError;

/// Characters of a call's arguments in an entry.
const SHORT: usize = 400;

/// What a page has found so far.
pub(super) struct Folding<'a> {
    filter: &'a EventFilter,
    view: AuditView,
    source: &'a dyn EventSource,
    calls: BTreeMap<String, Call>,
    /// Events that belong to no call, by sequence.
    others: BTreeMap<u64, String>,
    /// Decisions of people, by approval.
    decided: BTreeMap<String, String>,
    found: usize,
}

/// A call, as far as it is known.
#[derive(Default)]
struct Call {
    /// Its events, by sequence.
    events: BTreeMap<u64, String>,
    approval: Option<String>,
    decision: Sighting,
    has_outcome: bool,
    /// The text that is asked for is in one of its events.
    has_text: bool,
}

/// Whether a call's decision was seen.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Sighting {
    /// There may be none.
    #[default]
    Unknown,
    /// The call was begun, so that there is one.
    Expected,
    Seen,
    /// It was, and the call is not in question.
    InVain,
}

impl<'a> Folding<'a> {
    pub(super) fn new(
        filter: &'a EventFilter,
        view: AuditView,
        source: &'a dyn EventSource,
    ) -> Self {
        let (calls, others, decided) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { filter, view, source, calls, others, decided, found: 0 }
    }

    /// Looks at an event of the time in question; returns how much was found by now.
    pub(super) fn visit(&mut self, sequence: u64, body: &str) -> Result<usize, StoreError> {
        let Some(head) = self.filter.candidate(body) else { return Ok(self.found) };
        let is_asked_for = self.filter.is_in_time(&head) && self.filter.is_about(&head);
        match (self.view, head.call_id.as_deref()) {
            (AuditView::Calls, Some(call)) => {
                let begins = is_asked_for && self.has_code(&head);
                if begins && !self.calls.contains_key(call) {
                    self.calls.insert(call.to_owned(), Call::default());
                    self.found += usize::from(!self.filter.asks_for_text());
                }
                self.add(sequence, &head, body)?;
            }
            // What an act led to has an event of its own.
            (AuditView::Calls, None) if head.is(EventKind::ActStarted) => {}
            (AuditView::Calls, None) | (AuditView::Events, _) => {
                self.note_decided(&head, body);
                if is_asked_for
                    && self.filter.has_code(&head)
                    && self.filter.has_text(body, self.source)?
                {
                    self.others.insert(sequence, body.to_owned());
                    self.found += 1;
                }
            }
        }
        Ok(self.found)
    }

    /// Whether a call with this event may be in question: a code is that of an outcome.
    fn has_code(&self, head: &Head<'_>) -> bool {
        !self.filter.asks_for_code() || (head.is(EventKind::Outcome) && self.filter.has_code(head))
    }

    fn note_decided(&mut self, head: &Head<'_>, body: &str) {
        if let Some(id) =
            head.approval_id.as_deref().filter(|_| head.is(EventKind::ApprovalDecided))
        {
            self.decided.entry(id.to_owned()).or_insert_with(|| body.to_owned());
        }
    }

    /// Adds an event to its call, if that is in question.
    fn add(&mut self, sequence: u64, head: &Head<'_>, body: &str) -> Result<(), StoreError> {
        let Some(call) = head.call_id.as_deref().and_then(|id| self.calls.get_mut(id)) else {
            return Ok(());
        };
        if call.decision == Sighting::InVain {
            return Ok(());
        }
        if head.is(EventKind::Decision) {
            call.decision = Sighting::Seen;
        } else if head.started && call.decision == Sighting::Unknown {
            call.decision = Sighting::Expected;
        }
        call.has_outcome |= head.is(EventKind::Outcome);
        if call.approval.is_none() {
            call.approval = head.approval_id.as_deref().map(str::to_owned);
        }
        if !call.has_text && self.filter.has_text(body, self.source)? {
            call.has_text = true;
            self.found += usize::from(self.filter.asks_for_text());
        }
        call.events.insert(sequence, body.to_owned());
        if call.decision == Sighting::Seen && !call.has_text && call.approval.is_none() {
            // Only that it is not in question must be remembered.
            call.decision = Sighting::InVain;
            call.events.clear();
        }
        Ok(())
    }

    /// Looks for what belongs to the calls of this page on both sides of what it has read.
    pub(super) fn look_around(
        &mut self,
        lowest: Option<u64>,
        before: Option<u64>,
    ) -> Result<(), StoreError> {
        if let Some(last) = lowest.and_then(|lowest| lowest.checked_sub(1))
            && self.needs_older()
        {
            let range = last.saturating_sub(MAX_APART)..=last;
            let source = self.source;
            self.read(|visit| source.newest_first(range.clone(), visit), Self::needs_older)?;
        }
        let open = self.calls.values().filter(|call| !call.has_outcome);
        let first = open.filter_map(|call| call.events.keys().next()).min().copied();
        if let Some(first) = first {
            let range = first..=first.saturating_add(MAX_APART);
            let source = self.source;
            let needs = |folding: &Self| folding.calls.values().any(|call| !call.has_outcome);
            self.read(|visit| source.oldest_first(range.clone(), visit), needs)?;
        }
        if let Some(before) = before {
            self.drop_shown(before);
        }
        Ok(())
    }

    fn needs_older(&self) -> bool {
        let undecided = |id: &String| !self.decided.contains_key(id);
        self.calls.values().any(|call| {
            call.decision == Sighting::Expected
                || (call.has_text && call.approval.as_ref().is_some_and(undecided))
        })
    }

    fn read(
        &mut self,
        read: impl Fn(&mut super::Visit<'_>) -> Result<(), StoreError>,
        needs: impl Fn(&Self) -> bool,
    ) -> Result<(), StoreError> {
        let mut failed = Ok(());
        read(&mut |sequence, body| {
            let Some(head) = self.filter.candidate(body) else {
                return ControlFlow::Continue(());
            };
            self.note_decided(&head, body);
            failed = self.add(sequence, &head, body);
            let goes_on = failed.is_ok() && needs(self);
            if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        failed
    }

    /// Leaves out calls that the page before this one has shown: they ended in it.
    fn drop_shown(&mut self, before: u64) {
        let (filter, reach) = (self.filter, before.saturating_sub(MAX_APART));
        self.calls.retain(|_, call| {
            let (first, last) = (call.events.first_key_value(), call.events.last_key_value());
            let ended_there = last.is_some_and(|(sequence, body)| {
                *sequence >= before
                    && Head::parse(body).is_some_and(|head| filter.is_in_time(&head))
            });
            let was_seen =
                !filter.asks_for_text() || first.is_some_and(|(first, _)| *first >= reach);
            !(ended_there && was_seen)
        });
    }

    /// What was found, newest first.
    pub(super) fn finish(self) -> Result<Vec<AuditEntry>, StoreError> {
        let Self { source, calls, others, decided, .. } = self;
        let mut entries = Vec::new();
        let mut told = BTreeSet::new();
        for call in calls.into_values().filter(|call| call.has_text) {
            let approval = call.approval.as_ref().and_then(|id| decided.get(id));
            told.extend(call.approval.clone());
            let events: Vec<Value> =
                call.events.values().filter_map(|body| serde_json::from_str(body).ok()).collect();
            let Some(sequence) = call.events.keys().next_back().copied() else { continue };
            let arguments = arguments(&events, source)?;
            let approval = approval.and_then(|body| serde_json::from_str(body).ok());
            entries.push(AuditEntry { sequence, events, arguments, approval });
        }
        for (sequence, body) in others {
            let Ok(event) = serde_json::from_str::<Value>(&body) else { continue };
            let is_told = event["kind"] == EventKind::ApprovalDecided.as_str()
                && event["approvalId"].as_str().is_some_and(|id| told.contains(id));
            if !is_told {
                let events = vec![event];
                let arguments = arguments(&events, source)?;
                entries.push(AuditEntry { sequence, events, arguments, approval: None });
            }
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.sequence));
        Ok(entries)
    }
}

/// The beginning of the arguments that one of these events has, or that are kept beside it.
fn arguments(events: &[Value], source: &dyn EventSource) -> Result<Option<String>, StoreError> {
    for event in events {
        let text = match (event.get("input"), event["inputHash"].as_str()) {
            (Some(input), _) => Some(canonical::to_string(input)),
            (None, Some(hash)) if event["inputKept"] == true => source.payload(hash)?,
            (None, _) => None,
        };
        if let Some(text) = text {
            let cut = text.char_indices().nth(SHORT).and_then(|(at, _)| text.get(..at));
            return Ok(Some(cut.map(|cut| format!("{cut}…")).unwrap_or(text)));
        }
    }
    Ok(None)
}
