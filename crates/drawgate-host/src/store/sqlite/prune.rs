//! Where a log may be cut: never within a call.

use drawgate_core::store::StoreError;
use rusqlite::Connection;

use super::connection::{integer, unavailable};

const OPERATION: &str = "prune the audit log";

/// What a pruning would remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrunePlan {
    /// The oldest event of the log.
    pub first: u64,
    /// The newest event that would go.
    pub last: u64,
    /// How many events would go; none if every earlier place is within a call.
    pub events: u64,
    /// Whether less goes than was asked for, because a call keeps its events.
    pub is_held_back: bool,
}

/// The nearest place before a sequence where no call is under way. A call lasts from its first event
/// to its last one; one that has a decision and no outcome has not ended.
const CUT: &str = "
    WITH call AS MATERIALIZED (
        SELECT min(seq) AS first,
            CASE WHEN sum(kind = 'decision') > sum(kind = 'outcome')
                THEN 9223372036854775807 ELSE max(seq) END AS last
        FROM (SELECT seq, json_extract(body, '$.callId') AS id, json_extract(body, '$.kind') AS kind
            FROM event)
        WHERE id IS NOT NULL GROUP BY id
    ), covered AS (
        SELECT first, max(last) OVER (
            ORDER BY first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until
        FROM call
    )
    SELECT max(cut) FROM (
        SELECT ?1 AS cut WHERE NOT EXISTS (SELECT 1 FROM call WHERE first <= ?1 AND last > ?1)
        UNION ALL
        SELECT first - 1 FROM covered WHERE first <= ?1 AND (until IS NULL OR until < first)
    )";

/// Plans to remove the events before a sequence.
pub(super) fn plan(connection: &Connection, before: u64) -> Result<PrunePlan, StoreError> {
    let failed = |error: rusqlite::Error| unavailable(OPERATION, &error);
    let (first, head): (Option<i64>, Option<i64>) = connection
        .query_row("SELECT min(seq), max(seq) FROM event", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(failed)?;
    let number = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    let (Some(first), Some(head)) = (number(first), number(head)) else {
        return Err(unavailable(OPERATION, &"the log has no events"));
    };
    if before <= first || before > head {
        let reason = format!(
            "`{before}` is not a place to cut: the log has the events {first} to {head}, and the newest one stays; choose a sequence from {} to {head}",
            first + 1
        );
        return Err(unavailable(OPERATION, &reason));
    }
    let asked = before - 1;
    let cut: Option<i64> =
        connection.query_row(CUT, [integer(asked)], |row| row.get(0)).map_err(failed)?;
    let last = number(cut).unwrap_or_default().max(first - 1);
    Ok(PrunePlan { first, last, events: last + 1 - first, is_held_back: last < asked })
}
