//! The audit log in memory.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::super::{AuditHealth, StoreError, VerifyOptions};
use super::MemoryOptions;
use crate::audit::search::{EventSource, Visit};
use crate::audit::{
    CallSpans, Chain, Checkpoint, EventDraft, EventKind, OpenCalls, Payload, Pins, PrunePlan,
    PruneRecord, Report, SignedHead, Signer, StoredEvent, Verifier, ZERO_HASH,
};
use crate::model::Principal;

/// The share of the events that is pruned when the log is full.
const PRUNED_SHARE: usize = 4;
/// When there is no room for arguments, a tenth more is freed, so that not every call has to make room.
const SLACK: u64 = 10;

/// Events with what is kept beside them, and the key that signs them.
pub(super) struct Log {
    options: MemoryOptions,
    signer: Signer,
    install: String,
    chain: Chain,
    open: OpenCalls,
    events: VecDeque<Event>,
    /// Bytes of all events.
    bytes: usize,
    checkpoints: VecDeque<Checkpoint>,
    /// The newest checkpoint's sequence and hash.
    checkpointed: (u64, String),
    /// The signed record of what was pruned.
    pruned: Option<String>,
    /// Arguments that are kept beside their events, by hash, with the newest of their events.
    payloads: BTreeMap<String, (u64, Arc<str>)>,
    payload_bytes: u64,
    is_closed: bool,
    /// Whether the last event was refused.
    is_refusing: bool,
}

struct Event {
    stored: StoredEvent,
    kind: EventKind,
    hash: String,
    call: Option<String>,
}

impl Log {
    pub(super) fn new(options: MemoryOptions) -> Result<Self, StoreError> {
        let (mut secret, mut install) = ([0; 32], [0; 16]);
        getrandom::fill(&mut secret)
            .and_then(|()| getrandom::fill(&mut install))
            .map_err(|error| unavailable("make the audit key", error.to_string()))?;
        Ok(Self {
            options,
            signer: Signer::new(&secret),
            install: hex::encode(install),
            chain: Chain::default(),
            open: OpenCalls::default(),
            events: VecDeque::new(),
            bytes: 0,
            checkpoints: VecDeque::new(),
            checkpointed: (0, ZERO_HASH.to_owned()),
            pruned: None,
            payloads: BTreeMap::new(),
            payload_bytes: 0,
            is_closed: false,
            is_refusing: false,
        })
    }

    pub(super) const fn head(&self) -> u64 {
        self.chain.sequence()
    }

    pub(super) const fn health(&self) -> AuditHealth {
        if self.is_refusing { AuditHealth::Failed } else { AuditHealth::Ok }
    }

    pub(super) fn append(&mut self, draft: &EventDraft) -> Result<u64, StoreError> {
        let admitted = self.admit();
        self.is_refusing = admitted.is_err();
        admitted?;
        let removed = draft.payload().and_then(|payload| self.make_payload_room(payload));
        let sequence = self.push(draft);
        if let Some(payload) = draft.payload() {
            self.keep_payload(sequence, payload);
        }
        if let Some(up_to) = removed {
            let removal = EventDraft::new(EventKind::PayloadsRemoved, draft.at_ms());
            self.push(&removal.number("upTo", up_to));
        }
        if self.head() - self.checkpointed.0 >= self.options.checkpoint_every {
            self.checkpoint();
        }
        Ok(sequence)
    }

    /// Makes room for an event, if that is needed and possible.
    fn admit(&mut self) -> Result<(), StoreError> {
        const OPERATION: &str = "append to the audit log";
        if self.is_closed {
            return Err(unavailable(OPERATION, "the log is closed"));
        }
        if self.bytes >= self.options.log_bytes
            && let Some(cut) = self.events.get(self.events.len() / PRUNED_SHARE)
            && cut.stored.sequence > self.first()
        {
            self.prune(&Principal::local(), cut.stored.sequence)?;
        }
        if self.bytes >= self.options.log_bytes.saturating_mul(2) {
            return Err(unavailable(
                OPERATION,
                "the log is full, and calls under way keep its events",
            ));
        }
        Ok(())
    }

    fn push(&mut self, draft: &EventDraft) -> u64 {
        let sealed = self.chain.seal(draft);
        self.open.note(sealed.sequence, draft);
        self.bytes += sealed.body.len();
        self.events.push_back(Event {
            stored: StoredEvent { sequence: sealed.sequence, body: sealed.body },
            kind: draft.kind(),
            hash: self.chain.head().to_owned(),
            call: draft.text_of("callId"),
        });
        sealed.sequence
    }

    /// Removes the oldest arguments until these fit; returns the newest event that lost some.
    fn make_payload_room(&mut self, payload: &Payload) -> Option<u64> {
        let (coming, quota) = (payload.text.len() as u64, self.options.payload_quota);
        if self.payload_bytes.saturating_add(coming) <= quota {
            return None;
        }
        let most = (quota - quota / SLACK).saturating_sub(coming);
        let mut by_age: Vec<(u64, u64)> =
            self.payloads.values().map(|(at, text)| (*at, text.len() as u64)).collect();
        by_age.sort_unstable();
        let mut left = self.payload_bytes;
        let removed = by_age.into_iter().take_while(|(_, size)| {
            let is_needed = left > most;
            left = left.saturating_sub(*size);
            is_needed
        });
        let last = removed.last().map(|(at, _)| at)?;
        self.drop_payloads(last);
        Some(last)
    }

    fn keep_payload(&mut self, sequence: u64, payload: &Payload) {
        let kept = (sequence, Arc::clone(&payload.text));
        if self.payloads.insert(payload.hash.clone(), kept).is_none() {
            self.payload_bytes += payload.text.len() as u64;
        }
    }

    /// Removes the arguments of events up to a sequence.
    fn drop_payloads(&mut self, last: u64) {
        self.payloads.retain(|_, (sequence, _)| *sequence > last);
        self.payload_bytes = self.payloads.values().map(|(_, text)| text.len() as u64).sum();
    }

    pub(super) fn checkpoint(&mut self) -> Option<Checkpoint> {
        if self.head() <= self.checkpointed.0 {
            return None;
        }
        let checkpoint = self.signer.checkpoint(Checkpoint {
            sequence: self.head(),
            head: self.chain.head().to_owned(),
            at: self.options.clock.now_ms(),
            install: self.install.clone(),
            oldest_open: self.open.oldest(),
            times: None,
            previous: self.checkpointed.1.clone(),
            key: String::new(),
            signature: String::new(),
        });
        self.checkpointed = (checkpoint.sequence, checkpoint.hash());
        self.checkpoints.push_back(checkpoint.clone());
        Some(checkpoint)
    }

    pub(super) fn signed_head(&self, now_ms: u64) -> SignedHead {
        let head = SignedHead {
            sequence: self.head(),
            hash: self.chain.head().to_owned(),
            at: now_ms,
            install: self.install.clone(),
            boot: None,
            key: String::new(),
            signature: String::new(),
        };
        head.sign(&self.signer)
    }

    pub(super) fn close(&mut self) -> Result<(), StoreError> {
        self.append(&EventDraft::new(EventKind::LogClosed, self.options.clock.now_ms()))?;
        self.checkpoint();
        self.is_closed = true;
        Ok(())
    }

    pub(super) fn plan_prune(&self, before: u64) -> Result<PrunePlan, StoreError> {
        let mut calls = CallSpans::default();
        for event in &self.events {
            if let Some(call) = &event.call {
                calls.note(event.stored.sequence, call.clone(), event.kind.as_str());
            }
        }
        PrunePlan::new(before, self.first(), self.head(), &calls)
    }

    pub(super) fn prune(&mut self, actor: &Principal, before: u64) -> Result<u64, StoreError> {
        let plan = self.plan_prune(before)?;
        let Some(last) = self.at(plan.last).filter(|_| plan.events > 0) else { return Ok(0) };
        let signed = self.checkpoints.iter().find(|checkpoint| checkpoint.sequence > plan.last);
        let record = PruneRecord {
            sequence: plan.last,
            head: last.hash.clone(),
            checkpoint: signed
                .map_or_else(|| self.checkpointed.1.clone(), |next| next.previous.clone()),
            install: self.install.clone(),
            at: self.options.clock.now_ms(),
        };
        let event = EventDraft::new(EventKind::Pruned, record.at)
            .text("principal", actor.as_str())
            .number("upTo", plan.last)
            .text("head", &record.head);
        self.pruned = Some(record.to_signed_json(&self.signer));
        self.push(&event);
        while let Some(gone) = self.events.pop_front_if(|event| event.stored.sequence <= plan.last)
        {
            self.bytes -= gone.stored.body.len();
        }
        self.checkpoints.retain(|checkpoint| checkpoint.sequence > plan.last);
        self.drop_payloads(plan.last);
        self.checkpoint();
        Ok(plan.events)
    }

    pub(super) fn read(&self, after: u64, limit: usize) -> Vec<StoredEvent> {
        let skip = usize::try_from((after + 1).saturating_sub(self.first())).unwrap_or(usize::MAX);
        self.events.iter().skip(skip).take(limit).map(|event| event.stored.clone()).collect()
    }

    pub(super) fn payload_of(&self, hash: &str) -> Option<String> {
        self.payloads.get(hash).map(|(_, text)| text.to_string())
    }

    /// Artifacts and arguments are not compared: what could change them could change the key as well.
    pub(super) fn verify(&self, options: VerifyOptions) -> Report {
        let keys = self.signer.keys();
        let mut verifier = Verifier::new(Pins {
            install: Some(self.install.clone()),
            keys: Some(keys.clone()),
            anchors: options.anchors,
        });
        if let Some(record) = &self.pruned {
            verifier.pruned(record);
        }
        self.each_record(|record| match record {
            Record::Event(body) => verifier.push(body),
            Record::Checkpoint(body) => verifier.checkpoint(body),
        });
        let (install, head, hash) = (&self.install, self.chain.head(), &self.checkpointed.1);
        let head = self.signer.head_record(install, self.head(), head, hash);
        let mut report = verifier.finish(Some(&head).filter(|head| head.sequence > 0));
        let public = keys.public_hex();
        if let Some(key) = options.key.filter(|key| *key != public) {
            report.fault(0, format!("the log is signed by key {public}, not by {key}"));
        }
        report
    }

    /// The log as JSON lines, signed up to its head.
    pub(super) fn export(&mut self) -> String {
        self.checkpoint();
        let mut text = String::with_capacity(self.bytes);
        let mut write = |line: &str| {
            // Writing to a string can't fail.
            let _written = writeln!(text, "{line}");
        };
        if let Some(record) = &self.pruned {
            write(record);
        }
        self.each_record(|(Record::Event(body) | Record::Checkpoint(body))| write(body));
        text
    }

    /// Hands over events, each followed by the checkpoint about it.
    fn each_record(&self, mut each: impl FnMut(Record<'_>)) {
        let mut checkpoints = self.checkpoints.iter().peekable();
        for event in &self.events {
            each(Record::Event(&event.stored.body));
            while let Some(checkpoint) =
                checkpoints.next_if(|checkpoint| checkpoint.sequence <= event.stored.sequence)
            {
                each(Record::Checkpoint(&checkpoint.to_json()));
            }
        }
    }

    /// The sequence of the oldest event.
    fn first(&self) -> u64 {
        self.events.front().map_or(1, |event| event.stored.sequence)
    }

    fn at(&self, sequence: u64) -> Option<&Event> {
        let index = usize::try_from(sequence.checked_sub(self.first())?).ok()?;
        self.events.get(index)
    }
}

impl Log {
    fn visit(&self, range: &RangeInclusive<u64>, visit: &mut Visit<'_>, order: Order) {
        let first = range.start().saturating_sub(self.first());
        let last = range.end().checked_sub(self.first());
        let index = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
        let end = last.map_or(0, |last| index(last).saturating_add(1)).min(self.events.len());
        let events = self.events.range(index(first).min(end)..end);
        let mut each = |event: &Event| visit(event.stored.sequence, &event.stored.body);
        // Whether it was told to stop makes no difference here.
        let _ = match order {
            Order::Oldest => events.clone().try_for_each(&mut each),
            Order::Newest => events.rev().try_for_each(&mut each),
        };
    }
}

/// Which events come first.
#[derive(Clone, Copy)]
enum Order {
    Oldest,
    Newest,
}

impl EventSource for Log {
    fn ranges(
        &self,
        _since: Option<u64>,
        _until: Option<u64>,
    ) -> Result<Vec<RangeInclusive<u64>>, StoreError> {
        Ok(vec![self.first()..=self.head()])
    }

    fn newest_first(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        self.visit(&range, visit, Order::Newest);
        Ok(())
    }

    fn oldest_first(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        self.visit(&range, visit, Order::Oldest);
        Ok(())
    }

    fn payload(&self, hash: &str) -> Result<Option<String>, StoreError> {
        Ok(self.payload_of(hash))
    }
}

enum Record<'a> {
    Event(&'a str),
    Checkpoint(&'a str),
}

fn unavailable(operation: &'static str, reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { operation, reason: reason.into() }
}
