//! Arguments that are too large for their events: kept in the same database, by hash, bounded in
//! bytes. The oldest go first, and an event says up to where; pruning takes those of its events along.

use std::borrow::Borrow;

use drawgate_core::audit::{EventDraft, EventKind, Payload, Report};
use drawgate_core::{canonical, json};
use rusqlite::{Connection, OptionalExtension as _};
use serde_json::Value;

use super::connection::integer;

/// When there is no room, a tenth more is freed, so that not every call has to make room.
const SLACK: u64 = 10;

/// How much is kept and how much may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct PayloadRoom {
    pub(super) used: u64,
    pub(super) quota: u64,
}

impl PayloadRoom {
    pub(super) fn measure(connection: &Connection, quota: u64) -> rusqlite::Result<Self> {
        let used: i64 =
            connection
                .query_row("SELECT coalesce(sum(size), 0) FROM payload", [], |row| row.get(0))?;
        Ok(Self { used: u64::try_from(used).unwrap_or_default(), quota })
    }

    /// Removes the oldest until the payloads of these events fit; returns the event that says so.
    pub(super) fn make(
        &mut self,
        connection: &Connection,
        drafts: &[impl Borrow<EventDraft>],
    ) -> rusqlite::Result<Option<EventDraft>> {
        let payloads = drafts.iter().filter_map(|draft| draft.borrow().payload());
        let coming: u64 = payloads.map(|payload| payload.text.len() as u64).sum();
        let Some(newest) = drafts.last().filter(|_| coming > 0) else { return Ok(None) };
        if self.used.saturating_add(coming) <= self.quota {
            return Ok(None);
        }
        let most = (self.quota - self.quota / SLACK).saturating_sub(coming);
        let mut removed = None;
        let mut statement = connection.prepare("SELECT seq, size FROM payload ORDER BY seq")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()?.filter(|_| self.used > most) {
            let (sequence, size): (i64, i64) = (row.get(0)?, row.get(1)?);
            self.used = self.used.saturating_sub(u64::try_from(size).unwrap_or_default());
            removed = Some(sequence);
        }
        drop(rows);
        let Some(last) = removed else { return Ok(None) };
        connection.execute("DELETE FROM payload WHERE seq <= ?1", [last])?;
        let draft = EventDraft::new(EventKind::PayloadsRemoved, newest.borrow().at_ms())
            .number("upTo", u64::try_from(last).unwrap_or_default());
        Ok(Some(draft))
    }

    /// Keeps a payload. The same bytes are kept once, for the newest of their events.
    pub(super) fn put(
        &mut self,
        connection: &Connection,
        sequence: u64,
        payload: &Payload,
    ) -> rusqlite::Result<()> {
        let known = connection
            .prepare_cached("UPDATE payload SET seq = ?2 WHERE sha256 = ?1")?
            .execute((&payload.hash, integer(sequence)))?;
        if known == 0 {
            let size = payload.text.len() as u64;
            connection
                .prepare_cached(
                    "INSERT INTO payload (sha256, seq, size, body) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute((&payload.hash, integer(sequence), integer(size), &*payload.text))?;
            self.used += size;
        }
        Ok(())
    }
}

/// The arguments that are kept by a hash.
pub(super) fn get(connection: &Connection, hash: &str) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT body FROM payload WHERE sha256 = ?1")?
        .query_row([hash], |row| row.get(0))
        .optional()
}

/// Compares kept arguments with the events that they belong to.
#[derive(Default)]
pub(super) struct PayloadCheck {
    checked: u64,
    fault: Option<(u64, String)>,
    /// Events whose arguments are gone, and that no later event explains so far.
    missing: Vec<u64>,
    removed: u64,
}

/// Most missing payloads that wait for the event that explains them.
const MAX_MISSING: usize = 100_000;

impl PayloadCheck {
    /// Looks at one event.
    pub(super) fn event(&mut self, connection: &Connection, body: &str) {
        let Ok(Value::Object(event)) = json::parse(body.as_bytes()) else { return };
        let number = |key: &str| event.get(key).and_then(Value::as_u64).unwrap_or_default();
        let sequence = number("sequence");
        if event.get("kind").and_then(Value::as_str) == Some(EventKind::PayloadsRemoved.as_str()) {
            self.removed = self.removed.max(number("upTo"));
            let removed = self.removed;
            self.missing.retain(|missing| *missing > removed);
        }
        if event.get("inputKept") != Some(&Value::Bool(true)) || self.fault.is_some() {
            return;
        }
        self.checked += 1;
        let hash = event.get("inputHash").and_then(Value::as_str).unwrap_or_default();
        match get(connection, hash) {
            Ok(Some(text)) if canonical::sha256_hex(text.as_bytes()) == hash => {}
            Ok(Some(_)) => self.fault = Some((sequence, "its kept arguments were changed".into())),
            Ok(None) if self.missing.len() < MAX_MISSING => self.missing.push(sequence),
            Ok(None) => {}
            Err(error) => {
                self.fault = Some((sequence, format!("its arguments can't be read: {error}")));
            }
        }
    }

    /// Adds what was found to the report.
    pub(super) fn finish(self, report: &mut Report) {
        if let Some((sequence, reason)) = self.fault {
            report.fault(sequence, reason);
        }
        if let Some(sequence) = self.missing.first() {
            report.fault(
                *sequence,
                "its kept arguments are missing, and were not removed to make room",
            );
        }
        report
            .warnings
            .push(format!("the kept arguments of {} events were compared", self.checked));
    }
}
