//! The one writer of `audit.db`: seals drafts, commits them with the head record, signs checkpoints.

use std::sync::Arc;

use drawgate_core::audit::{
    Chain, Checkpoint, EventDraft, EventKind, HeadRecord, OpenCalls, PruneRecord, Signer,
};
use drawgate_core::clock::Clock;
use drawgate_core::store::StoreError;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

use super::connection::{Durability, corrupt, integer, unavailable};

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
    /// Why nothing is written any more.
    pub(super) failed: Option<String>,
}

impl Writer {
    /// Commits events in one transaction and returns the first one's sequence. If it fails, nothing
    /// of it is in the log and the chain ends where it did.
    pub(super) fn commit(&mut self, drafts: &[EventDraft]) -> Result<u64, StoreError> {
        self.check_alive()?;
        let mut chain = self.chain.clone();
        let head = |chain: &Chain, writer: &Self| {
            writer.signer.head_record(
                &writer.install,
                chain.sequence(),
                chain.head(),
                &writer.checkpointed.1,
            )
        };
        let result = transact(&self.connection, |connection| {
            let mut insert =
                connection.prepare_cached("INSERT INTO event (seq, body) VALUES (?1, ?2)")?;
            for draft in drafts {
                let sealed = chain.seal(draft);
                insert.execute((integer(sealed.sequence), sealed.body))?;
            }
            put_head(connection, &head(&chain, self))
        });
        result.map_err(|error| self.note_failure("append to the audit log", &error))?;
        let first = self.chain.sequence() + 1;
        for (draft, sequence) in drafts.iter().zip(first..) {
            self.open.note(sequence, draft);
        }
        self.chain = chain;
        self.checkpoint_if_due();
        Ok(first)
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
        self.checkpointed = (checkpoint.sequence, hash);
        Ok(Some(checkpoint))
    }

    /// Removes the events before a sequence, as far as no call under way began there, and leaves a
    /// signed record of where the log now begins. Returns how many events were removed.
    pub(super) fn prune(&mut self, before: u64) -> Result<u64, StoreError> {
        const OPERATION: &str = "prune the audit log";
        self.check_alive()?;
        let bound = self.open.oldest().unwrap_or(u64::MAX).min(self.chain.sequence());
        let last = before.min(bound).saturating_sub(1);
        let Some(hash) = self.hash_at(last).map_err(|error| unavailable(OPERATION, &error))? else {
            return Ok(0);
        };
        let record = PruneRecord {
            sequence: last,
            head: hash,
            checkpoint: self
                .checkpoint_before(last)
                .map_err(|error| unavailable(OPERATION, &error))?,
            install: self.install.clone(),
            at: self.clock.now_ms(),
        };
        let event = EventDraft::new(EventKind::Pruned, record.at)
            .number("upTo", last)
            .text("head", &record.head);
        self.commit(&[event])?;
        let signed = record.to_signed_json(&self.signer);
        let removed = transact(&self.connection, |connection| {
            put_meta(connection, "pruned", &signed)?;
            connection.execute("DELETE FROM checkpoint WHERE seq <= ?1", [integer(last)])?;
            connection.execute("DELETE FROM event WHERE seq <= ?1", [integer(last)])
        })
        .map_err(|error| self.note_failure(OPERATION, &error))?;
        Ok(u64::try_from(removed).unwrap_or_default())
    }

    fn hash_at(&self, sequence: u64) -> rusqlite::Result<Option<String>> {
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
