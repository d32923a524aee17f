//! The events of `audit.db` as a search reads them.

use std::ops::{ControlFlow, RangeInclusive};

use drawgate_core::audit::Checkpoint;
use drawgate_core::audit::search::{EventSource, Visit};
use drawgate_core::store::StoreError;
use rusqlite::{Connection, Transaction};

use super::connection::{integer, unavailable};
use super::payload;

/// The events as one transaction sees them.
pub(super) struct StoredEvents<'a>(pub(super) &'a Transaction<'a>);

impl EventSource for StoredEvents<'_> {
    fn ranges(
        &self,
        since: Option<u64>,
        until: Option<u64>,
    ) -> Result<Vec<RangeInclusive<u64>>, StoreError> {
        ranges(self.0, since, until).map_err(failed)
    }

    fn newest_first(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let sql = "SELECT seq, body FROM event WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq DESC";
        each(self.0, sql, &range, visit).map_err(failed)
    }

    fn oldest_first(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let sql = "SELECT seq, body FROM event WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq";
        each(self.0, sql, &range, visit).map_err(failed)
    }

    fn payload(&self, hash: &str) -> Result<Option<String>, StoreError> {
        payload::get(self.0, hash).map_err(failed)
    }
}

fn each(
    connection: &Connection,
    sql: &str,
    range: &RangeInclusive<u64>,
    visit: &mut Visit<'_>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([integer(*range.start()), integer(*range.end())])?;
    while let Some(row) = rows.next()? {
        let sequence: i64 = row.get(0)?;
        let body = row.get_ref(1)?.as_str()?;
        if let ControlFlow::Break(()) = visit(u64::try_from(sequence).unwrap_or_default(), body) {
            break;
        }
    }
    Ok(())
}

/// The events between two checkpoints are left out if the later one says that they are of other times.
/// Those after the last one are always read, and so are those of checkpoints that say nothing.
fn ranges(
    connection: &Connection,
    since: Option<u64>,
    until: Option<u64>,
) -> rusqlite::Result<Vec<RangeInclusive<u64>>> {
    let number = |value: Option<i64>| u64::try_from(value.unwrap_or_default()).unwrap_or_default();
    // Asked for together, they would be looked for in the whole table.
    let ends = "SELECT (SELECT min(seq) FROM event), (SELECT max(seq) FROM event)";
    let (first, last) =
        connection.query_row(ends, [], |row| Ok((number(row.get(0)?), number(row.get(1)?))))?;
    if last == 0 {
        return Ok(Vec::new());
    }
    if since.is_none() && until.is_none() {
        return Ok(vec![first..=last]);
    }
    let is_asked_for = |(earliest, latest): (u64, u64)| {
        since.is_none_or(|since| since <= latest) && until.is_none_or(|until| earliest < until)
    };
    let mut found: Vec<RangeInclusive<u64>> = Vec::new();
    let mut add = |range: RangeInclusive<u64>| match found.last_mut() {
        Some(before) if *before.end() + 1 == *range.start() => {
            *before = *before.start()..=*range.end();
        }
        _ if range.is_empty() => {}
        _ => found.push(range),
    };
    let mut next = first;
    let mut statement =
        connection.prepare_cached("SELECT seq, body FROM checkpoint ORDER BY seq")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (sequence, body) = (number(row.get(0)?), row.get_ref(1)?.as_str()?);
        let times = Checkpoint::parse(body).ok().and_then(|checkpoint| checkpoint.times);
        if times.is_none_or(is_asked_for) {
            add(next..=sequence);
        }
        next = next.max(sequence + 1);
    }
    add(next..=last);
    found.reverse();
    Ok(found)
}

#[expect(clippy::needless_pass_by_value, reason = "the form that `map_err` takes")]
fn failed(error: rusqlite::Error) -> StoreError {
    unavailable("search the audit log", &error)
}
