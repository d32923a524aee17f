//! Reading and verifying the audit log beside a running gateway, or from an export.
//!
//! Every operation is one read transaction: it sees the log as it was at one moment.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;

use drawgate_core::audit::{
    Anchor, Checkpoint, HeadRecord, Pins, Report, SignedHead, StoredEvent, Verifier, VerifyKeys,
};
use drawgate_core::store::StoreError;
use rusqlite::{Connection, Transaction};

use super::super::artifacts::{ArtifactCheck, ArtifactLimits};
use super::super::key;
use super::super::lock::DataDir;
use super::audit::stored;
use super::commit::{head_record, meta};
use super::connection::{corrupt, integer, read_only, unavailable};
use super::outside::{self, Found};
use super::payload::{self, PayloadCheck};
use super::prune::{self, PrunePlan};
use super::recover::noted_loss;

const OPERATION: &str = "read the audit log";
/// Longest line of an export that is read as one: the largest event, with room.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// What a verification covers beside the chain and its signatures.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// Events known from elsewhere.
    pub anchors: Vec<Anchor>,
    /// The public key that the log must be signed with, in hexadecimal, if it is known from elsewhere.
    pub key: Option<String>,
    /// Compare stored artifacts and kept arguments with the events that mention them.
    pub artifacts: bool,
    /// Milliseconds after which an artifact may be gone, as configured.
    pub artifact_max_age_ms: u64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        let artifact_max_age_ms = ArtifactLimits::default().max_age_ms;
        Self { anchors: Vec::new(), key: None, artifacts: false, artifact_max_age_ms }
    }
}

/// A reader of a data folder's audit log.
pub struct AuditReader {
    connection: Connection,
    dir: DataDir,
}

impl AuditReader {
    /// Opens the log for reading; a gateway may be writing.
    pub fn open(dir: &DataDir) -> Result<Self, StoreError> {
        Ok(Self { connection: read_only(&dir.file("audit.db"))?, dir: dir.clone() })
    }

    /// The newest events, oldest of them first.
    pub fn tail(&self, count: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let sql = "SELECT seq, body FROM event ORDER BY seq DESC LIMIT ?1";
        let mut found = self.query(sql, [i64::try_from(count).unwrap_or(i64::MAX)])?;
        found.reverse();
        Ok(found)
    }

    /// The events of a sequence, a caller's request id or a call id.
    pub fn show(&self, id: &str) -> Result<Vec<StoredEvent>, StoreError> {
        if let Ok(sequence) = id.parse::<i64>() {
            let found = self.query("SELECT seq, body FROM event WHERE seq = ?1", [sequence])?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let sql = "SELECT seq, body FROM event
            WHERE json_extract(body, '$.callId') = ?1 OR json_extract(body, '$.requestId') = ?1 ORDER BY seq";
        self.query(sql, [id])
    }

    /// Hands over the events after a sequence, oldest first, one by one.
    pub fn events(
        &self,
        after: u64,
        limit: usize,
        mut each: impl FnMut(StoredEvent) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let sql = "SELECT seq, body FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        for event in statement.query_map([integer(after), limit], stored).map_err(failed)? {
            each(event.map_err(failed)?)?;
        }
        Ok(())
    }

    /// The arguments that are kept beside an event, by their hash.
    pub fn payload(&self, hash: &str) -> Result<Option<String>, StoreError> {
        payload::get(&self.connection, hash).map_err(failed)
    }

    /// What pruning before a sequence would remove.
    pub fn plan(&self, before: u64) -> Result<PrunePlan, StoreError> {
        prune::plan(&self.connection, before)
    }

    /// What is known to be missing from the log, without verifying it: its own note, or a signed head
    /// outside it that it does not reach.
    pub fn loss(&self) -> Result<Option<String>, StoreError> {
        let found = outside::find(&self.dir);
        let newest = found.iter().filter_map(|found| found.head.as_ref().ok());
        let newest = newest.map(|head| head.sequence).max().unwrap_or_default();
        let head = head_record(&self.connection)?.map_or(0, |head| head.sequence);
        if newest > head {
            return Ok(Some(format!(
                "events are missing from the audit log: it ends at event {head}, but its signed head outside is of event {newest}"
            )));
        }
        noted_loss(&self.connection)
    }

    /// The head as it is now, signed by the owner of the key. A log that is not this installation's
    /// own, or that is known to lack events, is not signed.
    pub fn signed_head(&self, now_ms: u64) -> Result<SignedHead, StoreError> {
        const OPERATION: &str = "sign the audit log's head";
        let Some(signer) = key::signer(&self.dir)? else {
            return Err(unavailable(OPERATION, &"`audit.key` can't be read"));
        };
        let loss = self.loss()?;
        let transaction = self.connection.unchecked_transaction().map_err(failed)?;
        let install = meta(&transaction, "install").map_err(failed)?.unwrap_or_default();
        let head = head_record(&transaction)?;
        let ours = head.filter(|head| signer.keys().is_head_ours(&install, head) == Some(true));
        match (ours, loss) {
            (Some(head), None) => {
                let HeadRecord { sequence, head: hash, .. } = head;
                let (key, signature) = (String::new(), String::new());
                let head =
                    SignedHead { sequence, hash, at: now_ms, install, boot: None, key, signature };
                Ok(head.sign(&signer))
            }
            (_, Some(loss)) => Err(corrupt(OPERATION, &format!("{loss}; verify the audit log"))),
            (None, None) => Err(corrupt(
                OPERATION,
                &"the head record was not written by this installation; verify the audit log",
            )),
        }
    }

    /// Writes the log as JSON lines: the prune record, events, and checkpoints after the events that
    /// they sign. The last one signs the head: where the log has none there, the owner of the key
    /// signs it now, if the log is intact. Returns why the head is not signed, if it is not.
    pub fn export(&self, out: &mut dyn Write, now_ms: u64) -> Result<Option<String>, StoreError> {
        // An export is also for those who can't read the keys, or have lost them.
        let signer = key::signer(&self.dir).ok().flatten();
        let keys = key::verify_keys(&self.dir).ok();
        let found = outside::find(&self.dir);
        let transaction = self.connection.unchecked_transaction().map_err(failed)?;
        let mut written = Ok(());
        let mut write = |line: &str| {
            if written.is_ok() {
                written = writeln!(out, "{line}");
            }
            written.is_ok()
        };
        let mut check = Check::new(&transaction, keys, &found, Vec::new());
        if let Some(record) = &check.pruned {
            write(record);
        }
        check.run(&transaction, |record| {
            let (Record::Event(body) | Record::Checkpoint(body)) = record;
            write(body)
        });
        let (covered, previous) = check.verifier.last_checkpoint();
        let (covered, previous) = (covered, previous.to_owned());
        let install = check.install.clone();
        let report = check.finish();
        let reason = match signer {
            _ if report.exit_code() != 0 => Some(report.finding()),
            _ if covered == report.head.0 => None,
            None => Some("`audit.key` can't be read".to_owned()),
            Some(signer) => {
                let (sequence, head) = report.head;
                let checkpoint = signer.checkpoint(Checkpoint {
                    sequence,
                    head,
                    at: now_ms,
                    install: install.unwrap_or_default(),
                    oldest_open: None,
                    previous,
                    key: String::new(),
                    signature: String::new(),
                });
                write(&checkpoint.to_json());
                None
            }
        };
        written.map_err(|error| unavailable("export the audit log", &error))?;
        Ok(reason)
    }

    /// Verifies the whole log. What `SQLite` itself can't read counts as tampered with.
    pub fn verify(&self, options: VerifyOptions) -> Result<Report, StoreError> {
        let keys = key::verify_keys(&self.dir)?;
        // Before the log: a gateway that writes meanwhile only moves it forward.
        let found = outside::find(&self.dir);
        let transaction = self.connection.unchecked_transaction().map_err(failed)?;
        let max_age_ms = options.artifact_max_age_ms;
        let mut artifacts =
            options.artifacts.then(|| ArtifactCheck::open(&self.dir, max_age_ms)).transpose()?;
        let mut payloads = options.artifacts.then(PayloadCheck::default);
        let public = keys.public_hex();
        let mut check = Check::new(&transaction, Some(keys), &found, options.anchors);
        check.run(&transaction, |record| {
            if let Record::Event(body) = record {
                if let Some(check) = &mut artifacts {
                    check.event(body);
                }
                if let Some(check) = &mut payloads {
                    check.event(&transaction, body);
                }
            }
            true
        });
        let mut report = check.finish();
        if let Some(check) = artifacts {
            check.finish(&mut report);
        }
        if let Some(check) = payloads {
            check.finish(&mut report);
        }
        if let Some(signer) = key::signer(&self.dir)?
            && let Err(error) = key::check_public(&self.dir, &signer)
        {
            report.fault(0, error.to_string());
        }
        if let Some(key) = options.key.filter(|key| *key != public) {
            report.fault(0, format!("the log is signed by key {public}, not by {key}"));
        }
        Ok(report)
    }

    fn query(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let mut statement = self.connection.prepare(sql).map_err(failed)?;
        let rows = statement.query_map(values, stored).map_err(failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(failed)
    }
}

/// Verifies the log of a data folder, also when there is none although there should be.
pub fn verify_folder(dir: &DataDir, options: VerifyOptions) -> Result<Report, StoreError> {
    if dir.file("audit.db").exists() {
        return AuditReader::open(dir)?.verify(options);
    }
    let found = outside::find(dir);
    let newest = found.iter().filter_map(|found| Some((found.head.as_ref().ok()?, found.place)));
    let newest = newest.max_by_key(|(head, _)| head.sequence);
    let mut report = Report::default();
    match newest {
        Some((head, place)) => {
            let at = head.sequence;
            report.fault(at, format!("the log is missing, but {place} is of event {at}"));
        }
        None => return AuditReader::open(dir)?.verify(options),
    }
    Ok(report)
}

/// Verifies an export. Without a public key or an anchor nothing is proved.
pub fn verify_file(
    path: &Path,
    keys: Option<VerifyKeys>,
    anchors: Vec<Anchor>,
) -> Result<Report, StoreError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        unavailable("read the export", &format!("`{}`: {error}", path.display()))
    };
    let mut lines = BufReader::new(File::open(path).map_err(|error| unreadable(&error))?);
    let mut verifier = Verifier::new(Pins { install: None, keys, anchors });
    let mut line = Vec::new();
    while !verifier.is_bad() {
        line.clear();
        std::io::Read::take(&mut lines, MAX_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| unreadable(&error))?;
        match (line.as_slice(), line.strip_suffix(b"\n")) {
            ([], _) => break,
            (_, Some(whole)) => push_line(&mut verifier, &String::from_utf8_lossy(whole)),
            (part, None) => {
                push_last(&mut verifier, &String::from_utf8_lossy(part));
                break;
            }
        }
    }
    Ok(verifier.finish(None))
}

fn push_line(verifier: &mut Verifier, line: &str) {
    // Checkpoints and prune records end in their signature; an event has none, and begins differently.
    if line.starts_with("{\"at\":") && line.contains("\"pruned\":") {
        verifier.pruned(line);
    } else if line.starts_with("{\"at\":") {
        verifier.checkpoint(line);
    } else {
        verifier.push(line);
    }
}

/// A last line without its end is a torn write, unless it is whole.
fn push_last(verifier: &mut Verifier, line: &str) {
    match drawgate_core::json::parse(line.as_bytes()) {
        Ok(_) => push_line(verifier, line),
        Err(_) => verifier.torn(),
    }
}

/// A verification of the database in progress.
struct Check {
    verifier: Verifier,
    install: Option<String>,
    head: Option<HeadRecord>,
    pruned: Option<String>,
    /// Faults of the records outside the log.
    outside: Vec<String>,
    places: usize,
    unreadable: Option<String>,
}

impl Check {
    fn new(
        transaction: &Transaction<'_>,
        keys: Option<VerifyKeys>,
        found: &[Found],
        mut anchors: Vec<Anchor>,
    ) -> Self {
        let read = |key: &str| meta(transaction, key).ok().flatten();
        let install = read("install");
        let public = keys.as_ref().map(VerifyKeys::public_hex);
        let mut outside = Vec::new();
        for Found { place, head } in found {
            match head {
                Ok(head) if install.as_ref().is_some_and(|install| *install != head.install) => {
                    outside.push(format!("{place} is of another installation"));
                }
                Ok(head) if public.as_ref().is_some_and(|public| *public != head.key) => {
                    outside.push(format!("{place} is signed by another key, {}", head.key));
                }
                Ok(head) => {
                    let may_be_lost = outside::may_be_lost(head);
                    anchors.push(Anchor { may_be_lost, ..Anchor::signed(head, *place) });
                }
                Err(error) => outside.push(format!("{place} was changed: {error}")),
            }
        }
        let pruned = read("pruned");
        let mut verifier = Verifier::new(Pins { install: install.clone(), keys, anchors });
        if let Some(record) = &pruned {
            verifier.pruned(record);
        }
        let head = head_record(transaction).ok().flatten();
        Self { verifier, install, head, pruned, outside, places: found.len(), unreadable: None }
    }

    /// Reads the log to its end, or until it is told to stop.
    fn run(&mut self, transaction: &Transaction<'_>, mut each: impl FnMut(&Record) -> bool) {
        let verifier = &mut self.verifier;
        let result = each_record(transaction, |record| {
            match &record {
                Record::Event(body) => verifier.push(body),
                Record::Checkpoint(body) => verifier.checkpoint(body),
            }
            each(&record)
        });
        self.unreadable = result.err().map(|error| error.to_string());
    }

    fn finish(self) -> Report {
        let mut report = self.verifier.finish(self.head.as_ref());
        if let Some(error) = self.unreadable {
            report.fault(report.head.0 + 1, format!("the database can't be read: {error}"));
        }
        if self.install.is_none() {
            report.fault(0, "the log does not name its installation");
        }
        if self.head.is_none() {
            report.fault(report.head.0, "the head record is missing");
        }
        for reason in self.outside {
            report.fault(report.head.0, reason);
        }
        match self.places {
            0 => report.unproved.push(
                "the signed heads outside the log are gone (`audit.head` and a record in `drawgate.db`), so events may have been removed from its end"
                    .to_owned(),
            ),
            outside::PLACES => {}
            _ => report.warnings.push(
                "one of the two signed heads outside the log is gone (`audit.head`, a record in `drawgate.db`); the other one was compared"
                    .to_owned(),
            ),
        }
        report
    }
}

enum Record {
    Event(String),
    Checkpoint(String),
}

/// Hands over events, each followed by the checkpoints about it, until told to stop.
fn each_record(
    transaction: &Transaction<'_>,
    mut each: impl FnMut(Record) -> bool,
) -> rusqlite::Result<()> {
    let mut events = transaction.prepare("SELECT seq, body FROM event ORDER BY seq")?;
    let mut checkpoints = transaction.prepare("SELECT seq, body FROM checkpoint ORDER BY seq")?;
    let mut signed = checkpoints.query_map([], stored)?;
    let mut next = signed.next().transpose()?;
    for event in events.query_map([], stored)? {
        let event = event?;
        if !each(Record::Event(event.body)) {
            return Ok(());
        }
        while let Some(checkpoint) =
            next.take_if(|checkpoint| checkpoint.sequence <= event.sequence)
        {
            if !each(Record::Checkpoint(checkpoint.body)) {
                return Ok(());
            }
            next = signed.next().transpose()?;
        }
    }
    if let Some(checkpoint) = next {
        each(Record::Checkpoint(checkpoint.body));
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` takes")]
fn failed(error: rusqlite::Error) -> StoreError {
    unavailable(OPERATION, &error)
}
