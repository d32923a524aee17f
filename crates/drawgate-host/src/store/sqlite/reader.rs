//! Reading and verifying the audit log beside a running gateway, or from an export.
//!
//! Every operation is one read transaction: it sees the log as it was at one moment.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;

use drawgate_core::audit::{Anchor, HeadRecord, Pins, Report, StoredEvent, Verifier, VerifyKeys};
use drawgate_core::store::StoreError;
use rusqlite::{Connection, Transaction};

use super::super::artifacts::{ArtifactCheck, ArtifactLimits};
use super::super::key;
use super::super::lock::DataDir;
use super::audit::stored;
use super::commit::{head_record, meta};
use super::connection::{integer, read_only, unavailable};

const OPERATION: &str = "read the audit log";
/// Longest line of an export that is read as one: the largest event, with room.
const MAX_LINE: u64 = 64 * 1024 * 1024;

/// What a verification covers beside the chain and its signatures.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// An event known from elsewhere.
    pub anchor: Option<Anchor>,
    /// Compare stored artifacts with the events that mention them.
    pub artifacts: bool,
    /// Milliseconds after which an artifact may be gone, as configured.
    pub artifact_max_age_ms: u64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        let artifact_max_age_ms = ArtifactLimits::default().max_age_ms;
        Self { anchor: None, artifacts: false, artifact_max_age_ms }
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

    /// Writes the log as JSON lines, checkpoints after the events that they sign.
    pub fn export(&self, out: &mut dyn Write) -> Result<(), StoreError> {
        let transaction = self.connection.unchecked_transaction().map_err(failed)?;
        let mut written = Ok(());
        if let Some(record) = meta(&transaction, "pruned").map_err(failed)? {
            written = writeln!(out, "{record}");
        }
        each_record(&transaction, |record| {
            let (Record::Event(body) | Record::Checkpoint(body)) = record;
            if written.is_ok() {
                written = writeln!(out, "{body}");
            }
            written.is_ok()
        })
        .map_err(failed)?;
        written.map_err(|error| unavailable("export the audit log", &error))
    }

    /// Verifies the whole log. What `SQLite` itself can't read counts as tampered with.
    pub fn verify(&self, options: VerifyOptions) -> Result<Report, StoreError> {
        let keys = key::verify_keys(&self.dir)?;
        let transaction = self.connection.unchecked_transaction().map_err(failed)?;
        let max_age_ms = options.artifact_max_age_ms;
        let artifacts =
            options.artifacts.then(|| ArtifactCheck::open(&self.dir, max_age_ms)).transpose()?;
        Ok(verify(&transaction, keys, options.anchor, artifacts))
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

/// Verifies an export. Without a public key the signatures are not checked.
pub fn verify_file(
    path: &Path,
    keys: Option<VerifyKeys>,
    anchor: Option<Anchor>,
) -> Result<Report, StoreError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        unavailable("read the export", &format!("`{}`: {error}", path.display()))
    };
    let mut lines = BufReader::new(File::open(path).map_err(|error| unreadable(&error))?);
    let signed = keys.is_some();
    let mut verifier = Verifier::new(Pins { install: None, keys, anchor });
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
    let mut report = verifier.finish(None);
    if !signed {
        report.warnings.push("signatures were not checked: no public key was given".to_owned());
    }
    Ok(report)
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

fn verify(
    transaction: &Transaction<'_>,
    keys: VerifyKeys,
    anchor: Option<Anchor>,
    mut artifacts: Option<ArtifactCheck>,
) -> Report {
    let read = |key: &str| meta(transaction, key).ok().flatten();
    let install = read("install");
    let head = head_record(transaction).ok().flatten();
    let named = install.is_some();
    let mut verifier = Verifier::new(Pins { install, keys: Some(keys), anchor });
    if let Some(record) = read("pruned") {
        verifier.pruned(&record);
    }
    let result = each_record(transaction, |record| {
        match record {
            Record::Event(body) => {
                verifier.push(&body);
                if let Some(check) = &mut artifacts {
                    check.event(&body);
                }
            }
            Record::Checkpoint(body) => verifier.checkpoint(&body),
        }
        !verifier.is_bad()
    });
    let mut report = finish(verifier, head.as_ref(), named);
    if let Err(error) = result {
        report.fault(report.head.0 + 1, format!("the database can't be read: {error}"));
    }
    if let Some(check) = artifacts {
        check.finish(&mut report);
    }
    report
}

fn finish(verifier: Verifier, head: Option<&HeadRecord>, named: bool) -> Report {
    let mut report = verifier.finish(head);
    if !named {
        report.fault(0, "the log does not name its installation");
    }
    if head.is_none() {
        report.fault(report.head.0, "the head record is missing");
    }
    report
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
