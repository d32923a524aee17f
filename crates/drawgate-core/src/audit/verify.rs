//! The streaming verifier. It reads events and checkpoints in the order of the log, keeps nothing but
//! the end of the chain and the calls under way, and names the first place that is wrong.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

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
    /// An event that is known, from elsewhere, to be in the log.
    pub anchor: Option<Anchor>,
}

/// A sequence and the hash that was seen there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// The event's place.
    pub sequence: u64,
    /// Its hash.
    pub hash: String,
}

/// What the verifier found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How many events were read.
    pub events: u64,
    /// The first place that is wrong, and why.
    pub first_bad: Option<(u64, String)>,
    /// The last record is incomplete, as after a crash; all before it is intact.
    pub torn: bool,
    /// The newest event that is intact, and its hash.
    pub head: (u64, String),
    /// How many checkpoints were checked.
    pub checkpoints: u64,
    /// What is not wrong, but worth knowing.
    pub warnings: Vec<String>,
}

impl Report {
    /// 0 intact, 2 tampered with, 3 torn at its end.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match (&self.first_bad, self.torn) {
            (Some(_), _) => 2,
            (None, true) => 3,
            (None, false) => 0,
        }
    }

    /// Notes something that was found beside the chain; an earlier finding stays.
    pub fn fault(&mut self, sequence: u64, reason: impl Into<String>) {
        if self.first_bad.is_none() {
            self.first_bad = Some((sequence, reason.into()));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.first_bad, self.torn) {
            (Some((sequence, reason)), _) => write!(f, "tampered: event {sequence}: {reason}")?,
            (None, true) => {
                write!(f, "torn: the record after event {} is incomplete", self.head.0)?;
            }
            (None, false) => f.write_str("intact")?,
        }
        write!(f, "\n{} events, {} checkpoints", self.events, self.checkpoints)?;
        write!(f, "\nhead {} {}", self.head.0, self.head.1)?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

/// Checks a log record by record. After the first fault it reads no further.
#[derive(Debug)]
pub struct Verifier {
    pins: Pins,
    report: Report,
    last_checkpoint: String,
    checkpointed: u64,
    open: BTreeSet<String>,
    anchored: bool,
}

type Fault = (u64, String);

impl Verifier {
    /// A verifier at the beginning of a log.
    #[must_use]
    pub fn new(pins: Pins) -> Self {
        let report = Report {
            events: 0,
            first_bad: None,
            torn: false,
            head: (0, ZERO_HASH.to_owned()),
            checkpoints: 0,
            warnings: Vec::new(),
        };
        let last_checkpoint = ZERO_HASH.to_owned();
        Self {
            pins,
            report,
            last_checkpoint,
            checkpointed: 0,
            open: BTreeSet::new(),
            anchored: false,
        }
    }

    /// Starts where retention cut the log. To be called before the first event.
    pub fn pruned(&mut self, record: &str) {
        let Some(keys) = &self.pins.keys else {
            return self.report.fault(0, "pruned, and no key is pinned to check the record of it");
        };
        let record = match PruneRecord::parse(record, keys) {
            Ok(record) => record,
            Err(error) => return self.report.fault(0, format!("prune record: {error}")),
        };
        if self.pins.install.as_ref().is_some_and(|install| *install != record.install) {
            return self.report.fault(0, "the prune record is of another installation");
        }
        self.report
            .warnings
            .push(format!("events up to {} were removed by retention", record.sequence));
        self.checkpointed = record.sequence;
        self.last_checkpoint = record.checkpoint;
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

    /// The last record is incomplete.
    pub fn torn(&mut self) {
        self.report.torn = true;
    }

    /// Whether a fault was found, so that reading on is useless.
    #[must_use]
    pub const fn is_bad(&self) -> bool {
        self.report.first_bad.is_some()
    }

    /// The end of the log, with its head record if it has one.
    #[must_use]
    pub fn finish(mut self, head: Option<&HeadRecord>) -> Report {
        if let Some(reason) = head.and_then(|record| self.head_fault(record)) {
            self.report.fault(self.report.head.0, reason);
        }
        if let Some(anchor) = &self.pins.anchor
            && !self.anchored
        {
            self.report
                .fault(anchor.sequence, format!("anchor {} is not in the log", anchor.sequence));
        }
        if !self.open.is_empty() {
            self.report.warnings.push(format!("{} calls have no outcome yet", self.open.len()));
        }
        self.report
    }

    fn advance(&mut self, sequence: u64, hash: String) {
        if let Some(anchor) = &self.pins.anchor
            && anchor.sequence == sequence
            && anchor.hash == hash
        {
            self.anchored = true;
        }
        self.report.head = (sequence, hash);
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
            (Some(EventKind::LogOpened), _) if self.is_foreign(member("install")) => {
                return Err("it is of another installation".to_owned());
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

    fn is_foreign(&self, install: Option<&str>) -> bool {
        self.pins.install.as_deref().is_some_and(|pinned| install != Some(pinned))
    }

    fn check_checkpoint(&mut self, body: &str) -> Result<(), Fault> {
        let here = self.report.head.0;
        let checkpoint =
            Checkpoint::parse(body).map_err(|error| (here, format!("checkpoint: {error}")))?;
        let at = checkpoint.sequence;
        let bad = |reason: &str| (at, format!("checkpoint {at}: {reason}"));
        if let Some(keys) = &self.pins.keys {
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
        Ok(())
    }

    fn head_fault(&mut self, record: &HeadRecord) -> Option<String> {
        let install = self.pins.install.as_deref().unwrap_or_default();
        let (sequence, hash) = &self.report.head;
        match self.pins.keys.as_ref().and_then(|keys| keys.is_head_ours(install, record)) {
            Some(true) => {}
            Some(false) => {
                return Some("the head record was not written by this installation".to_owned());
            }
            None => self
                .report
                .warnings
                .push("the head record was not checked: it needs the signing key".to_owned()),
        }
        if record.sequence != *sequence || record.head != *hash {
            return Some(format!(
                "the log ends here, but its head record says {}",
                record.sequence
            ));
        }
        (record.checkpoint != self.last_checkpoint)
            .then(|| "the newest checkpoint is missing".to_owned())
    }
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
