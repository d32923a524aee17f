//! Reading and verifying the audit log beside a running gateway.
//!
//! Every operation is one read transaction: it sees the log as it was at one moment.

use std::io::Write;
use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::audit::search::{AuditPage, AuditSearch, FoundEvents, IdQuery, find};
use drawgate_core::audit::{
    Anchor, Checkpoint, HeadRecord, Pins, PrunePlan, Report, SignedHead, StoredEvent, Verifier,
    VerifyKeys,
};
use drawgate_core::store::{AuditReader, StoreError, VerifyOptions};
use parking_lot::Mutex;
use rusqlite::{Connection, Transaction};

use super::super::lock::DataDir;
use super::artifacts::ArtifactCheck;
use super::audit::{events, stored};
use super::commit::{head_record, meta};
use super::connection::{corrupt, read_only, unavailable};
use super::head_copies::{self, HeadCopy};
use super::key;
use super::payload::{self, PayloadCheck};
use super::prune;
use super::recover::{LOST_EVENTS, LOST_STATE, noted_loss};
use super::search::StoredEvents;

const OPERATION: &str = "read the audit log";

/// The audit log of a data folder, for reading. It is opened when it is first read.
pub struct SqliteReader {
    dir: DataDir,
    reader: Arc<Mutex<Option<Reader>>>,
}

impl SqliteReader {
    /// A reader of a folder's log.
    #[must_use]
    pub fn new(dir: DataDir) -> Self {
        Self { dir, reader: Arc::default() }
    }

    /// Runs work on the log where it may block.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (dir, reader) = (self.dir.clone(), Arc::clone(&self.reader));
        let read = move || {
            let mut reader = reader.lock();
            let open = match reader.take() {
                Some(open) => open,
                None => Reader::open(&dir)?,
            };
            work(reader.insert(open))
        };
        tokio::task::spawn_blocking(read)
            .await
            .unwrap_or_else(|error| Err(unavailable(OPERATION, &error)))
    }
}

#[async_trait]
impl AuditReader for SqliteReader {
    async fn read(&self, after: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.run(move |reader| events(&reader.connection, after, limit)).await
    }

    async fn tail(&self, count: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.run(move |reader| reader.tail(count)).await
    }

    async fn search(&self, search: AuditSearch) -> Result<AuditPage, StoreError> {
        self.run(move |reader| reader.at_one_moment(|events| search.run(events))).await
    }

    async fn find(&self, query: IdQuery) -> Result<FoundEvents, StoreError> {
        self.run(move |reader| reader.at_one_moment(|events| find(&query, events))).await
    }

    async fn payload(&self, hash: &str) -> Result<Option<String>, StoreError> {
        let hash = hash.to_owned();
        self.run(move |reader| reader.payload(&hash)).await
    }

    async fn loss(&self) -> Result<Option<String>, StoreError> {
        self.run(Reader::loss).await
    }

    async fn plan_prune(&self, before: u64) -> Result<PrunePlan, StoreError> {
        self.run(move |reader| prune::plan(&reader.connection, before)).await
    }

    async fn signed_head(&self, now_ms: u64) -> Result<SignedHead, StoreError> {
        self.run(move |reader| reader.signed_head(now_ms)).await
    }

    async fn verify(&self, options: VerifyOptions) -> Result<Report, StoreError> {
        if let Some(report) = missing_log(&self.dir) {
            return Ok(report);
        }
        self.run(move |reader| reader.verify(options)).await
    }

    async fn export(
        &self,
        mut out: Box<dyn Write + Send>,
        now_ms: u64,
    ) -> Result<Option<String>, StoreError> {
        self.run(move |reader| reader.export(&mut out, now_ms)).await
    }
}

/// The same, for code that may block.
pub struct Reader {
    connection: Connection,
    dir: DataDir,
}

impl Reader {
    /// Opens the log for reading; a gateway may be writing.
    pub fn open(dir: &DataDir) -> Result<Self, StoreError> {
        Ok(Self { connection: read_only(&dir.file(DataDir::AUDIT))?, dir: dir.clone() })
    }

    /// The newest events, oldest of them first.
    pub fn tail(&self, count: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let sql = "SELECT seq, body FROM event ORDER BY seq DESC LIMIT ?1";
        let mut found = self.query(sql, [i64::try_from(count).unwrap_or(i64::MAX)])?;
        found.reverse();
        Ok(found)
    }

    /// Lets work look at the events as they are now.
    fn at_one_moment<T>(
        &self,
        work: impl FnOnce(&StoredEvents<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let transaction = self.connection.unchecked_transaction().map_err(failed)?;
        work(&StoredEvents(&transaction))
    }

    /// The arguments that are kept beside an event, by their hash.
    pub fn payload(&self, hash: &str) -> Result<Option<String>, StoreError> {
        payload::get(&self.connection, hash).map_err(failed)
    }

    /// What is known to be missing from the log, without verifying it: its own note, or a signed head
    /// outside it that it does not reach. Also a state that is older than the log.
    pub fn loss(&self) -> Result<Option<String>, StoreError> {
        match self.lost_events()? {
            None => noted_loss(&self.connection, LOST_STATE),
            lost => Ok(lost),
        }
    }

    fn lost_events(&self) -> Result<Option<String>, StoreError> {
        let found = head_copies::find(&self.dir);
        let newest = found.iter().filter_map(|found| found.head.as_ref().ok());
        let newest = newest.map(|head| head.sequence).max().unwrap_or_default();
        let head = head_record(&self.connection)?.map_or(0, |head| head.sequence);
        if newest > head {
            return Ok(Some(format!(
                "events are missing from the audit log: it ends at event {head}, but its signed head outside is of event {newest}"
            )));
        }
        noted_loss(&self.connection, LOST_EVENTS)
    }

    /// The head as it is now, signed by the owner of the key. A log that is not this installation's
    /// own, or that is known to lack events, is not signed.
    pub fn signed_head(&self, now_ms: u64) -> Result<SignedHead, StoreError> {
        const OPERATION: &str = "sign the audit log's head";
        let Some(signer) = key::signer(&self.dir)? else {
            return Err(unavailable(OPERATION, &"`audit.key` can't be read"));
        };
        let loss = self.lost_events()?;
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
        let found = head_copies::find(&self.dir);
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
            let (Record::Event(stored) | Record::Checkpoint(stored)) = record;
            write(&stored.body)
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
                    times: None,
                    previous,
                    key: String::new(),
                    signature: String::new(),
                });
                write(&checkpoint.to_json());
                None
            }
        };
        let flushed = written.and_then(|()| out.flush());
        flushed.map_err(|error| unavailable("export the audit log", &error))?;
        Ok(reason)
    }

    /// Verifies the whole log. What `SQLite` itself can't read counts as tampered with.
    pub fn verify(&self, options: VerifyOptions) -> Result<Report, StoreError> {
        let keys = key::verify_keys(&self.dir)?;
        // Before the log: a gateway that writes meanwhile only moves it forward.
        let found = head_copies::find(&self.dir);
        let transaction = self.connection.unchecked_transaction().map_err(failed)?;
        let max_age_ms = options.artifact_max_age_ms;
        let mut artifacts =
            options.artifacts.then(|| ArtifactCheck::open(&self.dir, max_age_ms)).transpose()?;
        let mut payloads = options.artifacts.then(PayloadCheck::default);
        let public = keys.public_hex();
        let mut check = Check::new(&transaction, Some(keys), &found, options.anchors);
        check.run(&transaction, |record| {
            if let Record::Event(StoredEvent { body, .. }) = record {
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

/// What is wrong where there is no log although there should be one.
fn missing_log(dir: &DataDir) -> Option<Report> {
    if dir.file(DataDir::AUDIT).exists() {
        return None;
    }
    let copies = head_copies::find(dir);
    let newest = copies.iter().filter_map(|copy| Some((copy.head.as_ref().ok()?, copy.place)));
    let (head, place) = newest.max_by_key(|(head, _)| head.sequence)?;
    let (mut report, at) = (Report::default(), head.sequence);
    report.fault(at, format!("the log is missing, but {} is of event {at}", place.name()));
    Some(report)
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
        found: &[HeadCopy],
        mut anchors: Vec<Anchor>,
    ) -> Self {
        let read = |key: &str| meta(transaction, key).ok().flatten();
        let install = read("install");
        let public = keys.as_ref().map(VerifyKeys::public_hex);
        let mut outside = Vec::new();
        for HeadCopy { place, head } in found {
            let place = place.name();
            match head {
                Ok(head) if install.as_ref().is_some_and(|install| *install != head.install) => {
                    outside.push(format!("{place} is of another installation"));
                }
                Ok(head) if public.as_ref().is_some_and(|public| *public != head.key) => {
                    outside.push(format!("{place} is signed by another key, {}", head.key));
                }
                Ok(head) => {
                    let may_be_lost = head_copies::may_be_lost(head);
                    anchors.push(Anchor { may_be_lost, ..Anchor::signed(head, place) });
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
                Record::Event(stored) => verifier.push_stored(stored.sequence, &stored.body),
                Record::Checkpoint(stored) => verifier.checkpoint(&stored.body),
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
            head_copies::PLACES => {}
            _ => report.warnings.push(
                "one of the two signed heads outside the log is gone (`audit.head`, a record in `drawgate.db`); the other one was compared"
                    .to_owned(),
            ),
        }
        report
    }
}

enum Record {
    Event(StoredEvent),
    Checkpoint(StoredEvent),
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
        let key = event.sequence;
        if !each(Record::Event(event)) {
            return Ok(());
        }
        while let Some(checkpoint) = next.take_if(|checkpoint| checkpoint.sequence <= key) {
            if !each(Record::Checkpoint(checkpoint)) {
                return Ok(());
            }
            next = signed.next().transpose()?;
        }
    }
    if let Some(checkpoint) = next {
        each(Record::Checkpoint(checkpoint));
    }
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` takes")]
fn failed(error: rusqlite::Error) -> StoreError {
    unavailable(OPERATION, &error)
}
