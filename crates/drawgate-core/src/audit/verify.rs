//! The streaming verifier. It reads events and checkpoints in the order of the log, keeps nothing but
//! the end of the chain and the calls under way, and names the first place that is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value};

use super::anchor::Anchor;
use super::chain::ZERO_HASH;
use super::checkpoint::{Checkpoint, HeadRecord, VerifyKeys};
use super::event::EventKind;
use super::prune::PruneRecord;
use crate::{canonical, json};

/// What the verifier holds on to, because it comes from outside the log.
#[derive(Debug, Clone, Default)]
pub struct Pins {
    /// The installation whose log this must be.
    pub install: Option<String>,
    /// Who must have signed it.
    pub keys: Option<VerifyKeys>,
    /// Events that are known, from elsewhere, to be in the log.
    pub anchors: Vec<Anchor>,
}

/// What the verifier found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How many events were read.
    pub events: u64,
    /// The first event of the log, which pruning moves.
    pub first: u64,
    /// The first place that is wrong, and why.
    pub first_bad: Option<(u64, String)>,
    /// The last record is incomplete, as after a crash; all before it is intact.
    pub torn: bool,
    /// The newest event that is intact, and its hash.
    pub head: (u64, String),
    /// How many checkpoints were checked.
    pub checkpoints: u64,
    /// Up to which event it is proved who wrote the log, and by what.
    pub proved: Option<(u64, String)>,
    /// What keeps a log without faults from being proved.
    pub unproved: Vec<String>,
    /// What is not wrong, but worth knowing.
    pub warnings: Vec<String>,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            events: 0,
            first: 1,
            first_bad: None,
            torn: false,
            head: (0, ZERO_HASH.to_owned()),
            checkpoints: 0,
            proved: None,
            unproved: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl Report {
    /// 0 intact and proved, 2 tampered with, 3 torn at its end, 4 without faults but not proved.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match (&self.first_bad, self.torn) {
            (Some(_), _) => 2,
            (None, true) => 3,
            (None, false) if !self.unproved.is_empty() => 4,
            (None, false) => 0,
        }
    }

    /// Notes something that was found beside the chain; an earlier finding stays.
    pub fn fault(&mut self, sequence: u64, reason: impl Into<String>) {
        if self.first_bad.is_none() {
            self.first_bad = Some((sequence, reason.into()));
        }
    }

    /// What was found, in one line.
    #[must_use]
    pub fn finding(&self) -> String {
        match (&self.first_bad, self.torn) {
            (Some((sequence, reason)), _) => format!("tampered: event {sequence}: {reason}"),
            (None, true) => format!("torn: the record after event {} is incomplete", self.head.0),
            (None, false) if !self.unproved.is_empty() => {
                format!("not proved: {}", self.unproved.join("; "))
            }
            (None, false) => {
                let how = self.proved.as_ref().map_or("", |(_, how)| how.as_str());
                format!("intact: events {}\u{2013}{} are {how}", self.first, self.head.0)
            }
        }
    }

    fn prove(&mut self, sequence: u64, how: String) {
        if self.proved.as_ref().is_none_or(|(proved, _)| sequence >= *proved) {
            self.proved = Some((sequence, how));
        }
    }

    /// Notes which events nothing vouches for.
    fn note_unproved(&mut self, has_key: bool) {
        let (first, head) = (self.first, self.head.0);
        let gap = match &self.proved {
            _ if self.events == 0 => "there are no events".to_owned(),
            Some((proved, _)) if *proved >= head => return,
            Some((proved, how)) if *proved >= first => format!(
                "events {first}\u{2013}{proved} are {how}; events {}\u{2013}{head} follow in the \
                 chain but no signature covers them",
                proved + 1
            ),
            _ if has_key => format!(
                "events {first}\u{2013}{head} follow one another, but no signature covers any of \
                 them: anyone could have written them"
            ),
            _ => format!(
                "events {first}\u{2013}{head} follow one another, but without a public key no \
                 signature was checked: anyone could have written them"
            ),
        };
        self.unproved.insert(0, gap);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.finding())?;
        write!(f, "\n{} events, {} checkpoints", self.events, self.checkpoints)?;
        write!(f, "\nhead {} {}", self.head.0, self.head.1)?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

/// Checks a log record by record. After the first fault it reads no further.
#[derive(Debug)]
pub struct Verifier {
    install: Option<String>,
    keys: Option<VerifyKeys>,
    /// The anchors that were not met yet, by sequence.
    anchors: BTreeMap<u64, Vec<Anchor>>,
    report: Report,
    last_checkpoint: String,
    checkpointed: u64,
    open: BTreeSet<String>,
    /// Where a start found that events were missing.
    lost: Option<Fault>,
}

type Fault = (u64, String);

impl Verifier {
    /// A verifier at the beginning of a log.
    #[must_use]
    pub fn new(pins: Pins) -> Self {
        let mut anchors: BTreeMap<u64, Vec<Anchor>> = BTreeMap::new();
        for anchor in pins.anchors {
            anchors.entry(anchor.sequence).or_default().push(anchor);
        }
        // The head of a log that was about to begin is before every event.
        anchors.remove(&0);
        Self {
            install: pins.install,
            keys: pins.keys,
            anchors,
            report: Report::default(),
            last_checkpoint: ZERO_HASH.to_owned(),
            checkpointed: 0,
            open: BTreeSet::new(),
            lost: None,
        }
    }

    /// Starts where retention cut the log. To be called before the first event.
    pub fn pruned(&mut self, record: &str) {
        if self.report.head.0 > 0 {
            // In the middle, a genuine record would excuse any gap.
            let reason = "a prune record stands after it, but belongs before the first event";
            return self.report.fault(self.report.head.0, reason);
        }
        let Some(keys) = &self.keys else {
            return self.pruned_unchecked(record);
        };
        let signed = signed_by(keys);
        let record = match PruneRecord::parse(record, keys) {
            Ok(record) => record,
            Err(error) => return self.report.fault(0, format!("prune record: {error}")),
        };
        if self.is_foreign(Some(&record.install)) {
            return self.report.fault(0, "the prune record is of another installation");
        }
        self.report.prove(record.sequence, signed);
        self.begin_after(record);
    }

    /// Without a key the record shows where the chain begins, and proves nothing.
    fn pruned_unchecked(&mut self, record: &str) {
        match PruneRecord::parse_unchecked(record) {
            Ok(record) => self.begin_after(record),
            Err(error) => self.report.fault(0, format!("prune record: {error}")),
        }
    }

    fn begin_after(&mut self, record: PruneRecord) {
        self.report
            .warnings
            .push(format!("events up to {} were removed by retention", record.sequence));
        self.checkpointed = record.sequence;
        self.last_checkpoint = record.checkpoint;
        self.report.first = record.sequence + 1;
        self.advance(record.sequence, record.head);
    }

    /// The next event's body.
    pub fn push(&mut self, body: &str) {
        if self.report.first_bad.is_none() {
            match self.check_event(body) {
                Ok((sequence, hash)) => {
                    self.report.events += 1;
                    self.advance(sequence, hash);
                }
                Err((sequence, reason)) => self.report.fault(sequence, reason),
            }
        }
    }

    /// The next checkpoint's body. It belongs directly after the event that it is about.
    pub fn checkpoint(&mut self, body: &str) {
        if self.report.first_bad.is_none() {
            match self.check_checkpoint(body) {
                Ok(()) => self.report.checkpoints += 1,
                Err((sequence, reason)) => self.report.fault(sequence, reason),
            }
        }
    }

    /// The next event's body, which a store keeps under this key. By another key than its own sequence
    /// a search would not find it, and pruning would remove it too early or too late.
    pub fn push_stored(&mut self, key: u64, body: &str) {
        self.push(body);
        let sequence = self.report.head.0;
        if !self.is_bad() && key != sequence {
            self.report.fault(sequence, format!("it is stored under the number {key}"));
        }
    }

    /// The last record is incomplete.
    pub fn torn(&mut self) {
        self.report.torn = true;
    }

    /// Whether a fault was found, so that reading on is useless.
    #[must_use]
    pub const fn is_bad(&self) -> bool {
        self.report.first_bad.is_some()
    }

    /// The hash of the newest checkpoint so far, for the next one.
    #[must_use]
    pub fn last_checkpoint(&self) -> (u64, &str) {
        (self.checkpointed, &self.last_checkpoint)
    }

    /// The end of the log, with its head record if it has one.
    #[must_use]
    pub fn finish(mut self, head: Option<&HeadRecord>) -> Report {
        if let Some(reason) = head.and_then(|record| self.head_fault(record)) {
            self.report.fault(self.report.head.0, reason);
        }
        self.check_anchors();
        if let Some((sequence, reason)) = self.lost.take() {
            self.report.fault(sequence, reason);
        }
        if !self.open.is_empty() {
            self.report.warnings.push(format!("{} calls have no outcome yet", self.open.len()));
        }
        self.report.note_unproved(self.keys.is_some());
        self.report
    }

    /// What was not met is beyond the log's end, or before its beginning.
    fn check_anchors(&mut self) {
        let (first, head) = (self.report.first, self.report.head.0);
        for anchor in std::mem::take(&mut self.anchors).into_values().flatten() {
            let Anchor { sequence, place, may_be_lost, .. } = anchor;
            if may_be_lost {
                self.report.unproved.push(format!(
                    "the log ends at event {head}, but {place} is of event {sequence}: events were removed, or lost when the machine went down"
                ));
            } else if sequence < first {
                self.report.unproved.push(format!(
                    "{place} is of event {sequence}, which retention has removed; use a later one"
                ));
            } else {
                self.report.fault(
                    sequence,
                    format!(
                        "the log ends at event {head}, but {place} is of event {sequence}: events were removed"
                    ),
                );
            }
        }
    }

    fn advance(&mut self, sequence: u64, hash: String) {
        let met = self.anchors.remove(&sequence).unwrap_or_default();
        self.report.head = (sequence, hash);
        for anchor in met {
            if let Err(reason) = self.meet(&anchor) {
                self.report.fault(sequence, reason);
            }
        }
    }

    /// Compares the event that was just read with an anchor.
    fn meet(&mut self, anchor: &Anchor) -> Result<(), String> {
        let Anchor { sequence, place, .. } = anchor;
        let own = self.keys.as_ref().map(VerifyKeys::public_hex);
        if let (Some(own), Some(key)) = (&own, &anchor.key)
            && own != key
        {
            return Err(format!(
                "{place} is signed by key {key}, but the log by key {own}: one of them was replaced"
            ));
        }
        if anchor.hash != self.report.head.1 {
            return Err(format!("it is not the event that {place} says: the log was rewritten"));
        }
        let how = match (&self.keys, &anchor.key) {
            (Some(keys), Some(_)) => signed_by(keys),
            _ => format!("those that {place} fixes"),
        };
        self.report.prove(*sequence, how);
        Ok(())
    }

    fn check_event(&mut self, body: &str) -> Result<(u64, String), Fault> {
        let expected = self.report.head.0 + 1;
        let bad = |reason: String| (expected, reason);
        let value = json::parse(body.as_bytes()).map_err(|error| bad(error.to_string()))?;
        let Value::Object(mut event) = value else { return Err(bad("not an object".to_owned())) };
        let Some(Value::String(hash)) = event.shift_remove("hash") else {
            return Err(bad("no hash".to_owned()));
        };
        match event.get("sequence").and_then(whole) {
            Some(sequence) if sequence == expected => {}
            found => return Err(bad(format!("the sequence is {}", shown(found)))),
        }
        if event.get("prev").and_then(Value::as_str) != Some(self.report.head.1.as_str()) {
            return Err(bad("it does not follow the event before it".to_owned()));
        }
        let mut canonical = Vec::with_capacity(body.len());
        canonical::write_map(&event, &mut canonical);
        if canonical::sha256_hex(&canonical) != hash {
            return Err(bad("its content does not match its hash".to_owned()));
        }
        self.check_meaning(&event).map_err(bad)?;
        Ok((expected, hash))
    }

    fn check_meaning(&mut self, event: &Map<String, Value>) -> Result<(), String> {
        let member = |key: &str| event.get(key).and_then(Value::as_str);
        let kind = member("kind").and_then(EventKind::parse);
        match (kind, member("callId")) {
            (Some(EventKind::LogOpened), _) => {
                if self.is_foreign(member("install")) {
                    return Err("it is of another installation".to_owned());
                }
                self.note_start(event);
            }
            (Some(EventKind::Decision), Some(call)) => {
                self.open.insert(call.to_owned());
            }
            (Some(EventKind::Outcome), call) => {
                let known = call.is_some_and(|call| self.open.remove(call));
                if !known && event.get("started") == Some(&Value::Bool(true)) {
                    return Err("an end without a start: the call has no decision".to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A start writes down what it found missing; the rest of the log is read all the same.
    fn note_start(&mut self, event: &Map<String, Value>) {
        let here = self.report.head.0 + 1;
        let flag = |key: &str| event.get(key) == Some(&Value::Bool(true));
        let lost = event.get("lostHead").and_then(whole);
        let reason = match lost {
            Some(lost) if flag("logMissing") => Some(format!(
                "at this start the log was missing: a signed head outside it says that there were {lost} events"
            )),
            None if flag("logMissing") => Some(
                "at this start the log was missing, though the installation had one before"
                    .to_owned(),
            ),
            Some(lost) if flag("machineRestarted") => {
                self.report.unproved.push(format!(
                    "at the start that event {here} records, the log ended at event {}, but a signed head outside it was of event {lost}: events were removed, or lost when the machine went down",
                    here - 1
                ));
                None
            }
            Some(lost) => Some(format!(
                "at this start events were missing: the log ended at event {}, but a signed head outside it is of event {lost}",
                here - 1
            )),
            None => None,
        };
        if let (Some(reason), None) = (reason, &self.lost) {
            self.lost = Some((here, reason));
        }
        if flag("headMissing") {
            self.report.unproved.push(format!(
                "at the start that event {here} records, the signed heads outside the log were gone, so events before it may have been removed"
            ));
        }
    }

    fn is_foreign(&self, install: Option<&str>) -> bool {
        self.install.as_deref().is_some_and(|pinned| install != Some(pinned))
    }

    fn check_checkpoint(&mut self, body: &str) -> Result<(), Fault> {
        let here = self.report.head.0;
        let checkpoint =
            Checkpoint::parse(body).map_err(|error| (here, format!("checkpoint: {error}")))?;
        let at = checkpoint.sequence;
        let bad = |reason: &str| (at, format!("checkpoint {at}: {reason}"));
        if let Some(keys) = &self.keys {
            keys.check(body).map_err(|error| bad(&error.to_string()))?;
        }
        if self.is_foreign(Some(&checkpoint.install)) {
            return Err(bad("it is of another installation"));
        }
        if at <= self.checkpointed {
            return Err(bad("out of order"));
        }
        if at != here || checkpoint.head != self.report.head.1 {
            return Err(bad("not on the chain"));
        }
        if checkpoint.previous != self.last_checkpoint {
            return Err(bad("it does not follow the checkpoint before it"));
        }
        self.checkpointed = at;
        self.last_checkpoint = checkpoint.hash();
        if let Some(keys) = &self.keys {
            self.report.prove(at, signed_by(keys));
        }
        Ok(())
    }

    fn head_fault(&mut self, record: &HeadRecord) -> Option<String> {
        let install = self.install.as_deref().unwrap_or_default();
        let (sequence, hash) = self.report.head.clone();
        let ours = self.keys.as_ref().and_then(|keys| keys.is_head_ours(install, record));
        match ours {
            Some(true) => {}
            Some(false) => {
                return Some("the head record was not written by this installation".to_owned());
            }
            None => self
                .report
                .warnings
                .push("the head record was not checked: it needs the signing key".to_owned()),
        }
        if record.sequence != sequence || record.head != hash {
            return Some(format!(
                "the log ends here, but its head record says {}",
                record.sequence
            ));
        }
        if record.checkpoint != self.last_checkpoint {
            return Some("the newest checkpoint is missing".to_owned());
        }
        if let (Some(true), Some(keys)) = (ours, &self.keys) {
            self.report.prove(sequence, signed_by(keys));
        }
        None
    }
}

fn signed_by(keys: &VerifyKeys) -> String {
    format!("signed by key {}", keys.public_hex())
}

/// A whole number, also when it was written as `1.0`.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| canonical::to_string(value).parse().ok())
}

fn shown(sequence: Option<u64>) -> String {
    sequence.map_or_else(|| "missing".to_owned(), |sequence| sequence.to_string())
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
