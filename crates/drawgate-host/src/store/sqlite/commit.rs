//! The one writer of `audit.db`: seals drafts, commits them with the head record, signs checkpoints.

use std::borrow::Borrow;
use std::sync::Arc;

use drawgate_core::audit::{
    Chain, Checkpoint, EventDraft, EventKind, HeadRecord, OpenCalls, PruneRecord, SignedHead,
    Signer,
};
use drawgate_core::clock::Clock;
use drawgate_core::model::Principal;
use drawgate_core::store::StoreError;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

use super::connection::{Durability, PAGE_BYTES, corrupt, integer, unavailable};
use super::payload::PayloadRoom;
use super::presence::Presence;

/// Every commit writes the page of the newest events and that of the head record.
const PAGES_PER_COMMIT: usize = 2;

/// Owns the connection and the end of the chain.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) durability: Durability,
    pub(super) checkpoint_every: u64,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) signer: Signer,
    pub(super) install: String,
    pub(super) chain: Chain,
    pub(super) open: OpenCalls,
    /// The newest checkpoint's sequence and hash.
    pub(super) checkpointed: (u64, String),
    /// The earliest and the latest time of the events after it.
    pub(super) times: Option<(u64, u64)>,
    /// The run of the machine, if its end may take the newest events along.
    pub(super) boot: Option<String>,
    /// For arguments that are kept beside their events.
    pub(super) room: PayloadRoom,
    /// About how many pages the WAL has grown by since its thread was last told.
    pub(super) pages: usize,
    /// Whether the files are still there.
    pub(super) presence: Arc<Presence>,
    /// Why nothing is written any more.
    pub(super) failed: Option<String>,
}

impl Writer {
    /// Commits events in one transaction and returns the first one's sequence. If it fails, nothing
    /// of it is in the log and the chain ends where it did.
    pub(super) fn commit(&mut self, drafts: &[impl Borrow<EventDraft>]) -> Result<u64, StoreError> {
        self.commit_with("append to the audit log", drafts, |_| Ok(()))
    }

    /// The same, with statements that hold if and only if the events do.
    pub(super) fn commit_with(
        &mut self,
        operation: &'static str,
        drafts: &[impl Borrow<EventDraft>],
        and: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<u64, StoreError> {
        self.check_alive()?;
        let (mut chain, mut room, mut times) = (self.chain.clone(), self.room, self.times);
        let mut written = 0;
        let result = transact(&self.connection, |connection| {
            // It comes last, so that the callers' events have the sequences that they are told.
            let removal = room.make(connection, drafts)?;
            let mut insert =
                connection.prepare_cached("INSERT INTO event (seq, body) VALUES (?1, ?2)")?;
            for draft in drafts.iter().map(Borrow::borrow).chain(&removal) {
                let sealed = chain.seal(draft);
                written += sealed.body.len();
                times = Some(around(times, draft.at_ms()));
                insert.execute((integer(sealed.sequence), sealed.body))?;
                if let Some(payload) = draft.payload() {
                    written += payload.text.len();
                    room.put(connection, sealed.sequence, payload)?;
                }
            }
            and(connection)?;
            let (install, checkpoint) = (&self.install, &self.checkpointed.1);
            let (sequence, head) = (chain.sequence(), chain.head());
            put_head(connection, &self.signer.head_record(install, sequence, head, checkpoint))
        });
        result.map_err(|error| self.note_failure(operation, &error))?;
        let first = self.chain.sequence() + 1;
        for (draft, sequence) in drafts.iter().zip(first..) {
            self.open.note(sequence, draft.borrow());
        }
        self.pages += PAGES_PER_COMMIT + written / usize::from(PAGE_BYTES);
        (self.chain, self.room, self.times) = (chain, room, times);
        self.checkpoint_if_due();
        Ok(first)
    }

    /// The head as it is now, signed, for places on other machines.
    pub(super) fn signed_head(&self) -> SignedHead {
        self.sign_head(None)
    }

    /// The same, for the places beside the log.
    pub(super) fn kept_head(&self) -> SignedHead {
        self.sign_head(self.boot.clone())
    }

    fn sign_head(&self, boot: Option<String>) -> SignedHead {
        let head = SignedHead {
            sequence: self.chain.sequence(),
            hash: self.chain.head().to_owned(),
            at: self.clock.now_ms(),
            install: self.install.clone(),
            boot,
            key: String::new(),
            signature: String::new(),
        };
        head.sign(&self.signer)
    }

    /// Signs the head, if it is not signed yet.
    pub(super) fn checkpoint(&mut self) -> Result<Option<Checkpoint>, StoreError> {
        self.check_alive()?;
        if self.chain.sequence() <= self.checkpointed.0 {
            return Ok(None);
        }
        let checkpoint = self.signer.checkpoint(Checkpoint {
            sequence: self.chain.sequence(),
            head: self.chain.head().to_owned(),
            at: self.clock.now_ms(),
            install: self.install.clone(),
            oldest_open: self.open.oldest(),
            times: self.times,
            previous: self.checkpointed.1.clone(),
            key: String::new(),
            signature: String::new(),
        });
        let hash = checkpoint.hash();
        let head =
            self.signer.head_record(&self.install, self.chain.sequence(), self.chain.head(), &hash);
        transact(&self.connection, |connection| {
            connection
                .prepare_cached("INSERT INTO checkpoint (seq, body) VALUES (?1, ?2)")?
                .execute((integer(checkpoint.sequence), checkpoint.to_json()))?;
            put_head(connection, &head)
        })
        .map_err(|error| self.note_failure("sign the audit log", &error))?;
        (self.checkpointed, self.times) = ((checkpoint.sequence, hash), None);
        Ok(Some(checkpoint))
    }

    /// Removes the events up to one, and leaves a signed record of where the log now begins. The
    /// removal and the event about it are one transaction: both are in the log or neither is.
    pub(super) fn prune(&mut self, actor: &Principal, last: u64) -> Result<u64, StoreError> {
        const OPERATION: &str = "prune the audit log";
        self.check_alive()?;
        let failed = |error: rusqlite::Error| unavailable(OPERATION, &error);
        let Some(hash) = self.hash_at(last).map_err(failed)? else {
            return Err(unavailable(OPERATION, &"it was pruned by another command meanwhile"));
        };
        let record = PruneRecord {
            sequence: last,
            head: hash,
            checkpoint: self.checkpoint_before(last).map_err(failed)?,
            install: self.install.clone(),
            at: self.clock.now_ms(),
        };
        let event = EventDraft::new(EventKind::Pruned, record.at)
            .text("principal", actor.as_str())
            .number("upTo", last)
            .text("head", &record.head);
        let signed = record.to_signed_json(&self.signer);
        let mut removed = 0;
        self.commit_with(OPERATION, &[event], |connection| {
            put_meta(connection, "pruned", &signed)?;
            let last = integer(last);
            for sql in [
                "DELETE FROM checkpoint WHERE seq <= ?1",
                "DELETE FROM payload WHERE seq <= ?1",
                "DELETE FROM meta WHERE key IN ('loss', 'stateLoss') AND CAST(value AS INTEGER) <= ?1",
            ] {
                connection.execute(sql, [last])?;
            }
            removed = connection.execute("DELETE FROM event WHERE seq <= ?1", [last])?;
            Ok(())
        })?;
        self.room = PayloadRoom::measure(&self.connection, self.room.quota).map_err(failed)?;
        Ok(u64::try_from(removed).unwrap_or_default())
    }

    pub(super) fn hash_at(&self, sequence: u64) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT json_extract(body, '$.hash') FROM event WHERE seq = ?1";
        self.connection.query_row(sql, [integer(sequence)], |row| row.get(0)).optional()
    }

    fn checkpoint_before(&self, sequence: u64) -> rusqlite::Result<String> {
        let sql = "SELECT json_extract(body, '$.previous') FROM checkpoint WHERE seq > ?1 ORDER BY seq LIMIT 1";
        let next =
            self.connection.query_row(sql, [integer(sequence)], |row| row.get(0)).optional()?;
        Ok(next.unwrap_or_else(|| self.checkpointed.1.clone()))
    }

    fn checkpoint_if_due(&mut self) {
        if self.chain.sequence() - self.checkpointed.0 >= self.checkpoint_every
            && let Err(error) = self.checkpoint()
        {
            tracing::warn!(error = %error, "the audit log could not be signed; it is tried again");
        }
    }

    fn check_alive(&self) -> Result<(), StoreError> {
        self.presence.check("append to the audit log")?;
        match &self.failed {
            Some(reason) => Err(unavailable("append to the audit log", reason)),
            None => Ok(()),
        }
    }

    /// After a failed sync the system may have dropped what it could not write, and a second sync
    /// would report success. A log that promises to survive a power loss stops for good, then.
    fn note_failure(&mut self, operation: &'static str, error: &rusqlite::Error) -> StoreError {
        let transient = matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        );
        if self.durability == Durability::Power && !transient {
            let reason = format!("writing failed ({error}); check the disk, then start again");
            tracing::error!(error = %error, "the audit log is closed after a failed write");
            self.failed = Some(reason);
        }
        unavailable(operation, error)
    }
}

/// Runs statements in one transaction. `BEGIN` and `COMMIT` are kept prepared like the rest.
fn transact<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let result = work(connection)
        .and_then(|value| connection.prepare_cached("COMMIT")?.execute([]).map(|_| value));
    if result.is_err() && !connection.is_autocommit() {
        // The first error is the one to report; after some, SQLite has rolled back already.
        drop(connection.execute_batch("ROLLBACK"));
    }
    result
}

/// The span of times that also has this one in it.
fn around(times: Option<(u64, u64)>, at: u64) -> (u64, u64) {
    times.map_or((at, at), |(earliest, latest)| (earliest.min(at), latest.max(at)))
}

fn put_head(connection: &Connection, head: &HeadRecord) -> rusqlite::Result<()> {
    put_meta(connection, "head", &head.to_line())
}

pub(super) fn put_meta(connection: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    // An update in place writes one page; a replacement would write more, with every commit.
    let changed = connection
        .prepare_cached("UPDATE meta SET value = ?2 WHERE key = ?1")?
        .execute((key, value))?;
    if changed == 0 {
        connection.execute("INSERT INTO meta (key, value) VALUES (?1, ?2)", (key, value))?;
    }
    Ok(())
}

pub(super) fn meta(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    connection
        .query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0))
        .optional()
}

/// The head record, if the log has one.
pub(super) fn head_record(connection: &Connection) -> Result<Option<HeadRecord>, StoreError> {
    const OPERATION: &str = "read the audit log's head";
    let line = meta(connection, "head").map_err(|error| unavailable(OPERATION, &error))?;
    line.map(|line| HeadRecord::parse(&line).ok_or_else(|| corrupt(OPERATION, &"not readable")))
        .transpose()
}
