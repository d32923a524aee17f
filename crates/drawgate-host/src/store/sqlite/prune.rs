//! What a pruning of `audit.db` would remove.

use drawgate_core::audit::{CallSpans, PrunePlan};
use drawgate_core::store::StoreError;
use rusqlite::Connection;

use super::connection::unavailable;

/// Plans to remove the events before a sequence.
pub(super) fn plan(connection: &Connection, before: u64) -> Result<PrunePlan, StoreError> {
    let (first, head, calls) =
        read(connection).map_err(|error| unavailable("prune the audit log", &error))?;
    PrunePlan::new(before, first, head, &calls)
}

/// The oldest and the newest event, and the calls between them.
fn read(connection: &Connection) -> rusqlite::Result<(u64, u64, CallSpans)> {
    let number = |value: Option<i64>| u64::try_from(value.unwrap_or_default()).unwrap_or_default();
    let ends = "SELECT min(seq), max(seq) FROM event";
    let (first, head) =
        connection.query_row(ends, [], |row| Ok((number(row.get(0)?), number(row.get(1)?))))?;
    let mut calls = CallSpans::default();
    let sql = "SELECT seq, json_extract(body, '$.callId'), json_extract(body, '$.kind') FROM event
        WHERE json_extract(body, '$.callId') IS NOT NULL ORDER BY seq";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let kind: String = row.get(2)?;
        calls.note(number(row.get(0)?), row.get(1)?, &kind);
    }
    Ok((first, head, calls))
}
