//! What goes when there is no room for it or when it is too old. A removal stays on record, so that a
//! verification can tell it from a loss.

use drawgate_core::store::{ArtifactInfo, StoreError};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior};

use super::super::connection::{integer, unavailable};
use super::{REMOVE, Shared, count};

const CLEAR: &str = "make room for artifacts";
/// How many times the age limit a removal stays on record, counted from the artifact's creation: one
/// for the artifact's own life and ten after it.
const RECORD_LIVES: u64 = 11;

impl Shared {
    /// Removes what is too old, then the oldest until the new one fits.
    pub(super) fn make_room(
        &self,
        connection: &Connection,
        new: &ArtifactInfo,
    ) -> Result<(), StoreError> {
        let (size, quota) = (new.reference.size, self.limits.quota);
        if size > quota {
            return Err(StoreError::Quota { used: size, quota });
        }
        self.clear(connection, &new.reference.sha256, new.created_at, quota - size)?;
        Ok(())
    }

    /// Removes what is too old; how many went.
    pub(super) fn expire(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.clear(&self.connection.lock(), "", now_ms, u64::MAX)
    }

    /// Removes all but one artifact that are too old, then the oldest until the others have no more
    /// bytes than this.
    fn clear(
        &self,
        connection: &Connection,
        but: &str,
        now_ms: u64,
        most: u64,
    ) -> Result<usize, StoreError> {
        let failed = |error: rusqlite::Error| unavailable(CLEAR, &error);
        let horizon = self.limits.oldest(now_ms);
        let mut removed = 0;
        while let Some((sha256, used, created_at)) = oldest(connection, but).map_err(failed)? {
            if created_at >= horizon && used <= most {
                break;
            }
            self.remove(connection, &sha256)?;
            removed += 1;
        }
        let remembered = self.limits.max_age_ms.saturating_mul(RECORD_LIVES);
        connection
            .execute(
                "DELETE FROM artifact WHERE removed = 1 AND created_at < ?1",
                [integer(now_ms.saturating_sub(remembered))],
            )
            .map_err(failed)?;
        Ok(removed)
    }

    pub(super) fn remove(&self, connection: &Connection, sha256: &str) -> Result<bool, StoreError> {
        let sql = "UPDATE artifact SET removed = 1 WHERE sha256 = ?1 AND removed = 0";
        let failed = |error: rusqlite::Error| unavailable(REMOVE, &error);
        // A file that can't be removed keeps its row.
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
            .map_err(failed)?;
        let rows = transaction.execute(sql, [sha256]).map_err(failed)?;
        if rows > 0 {
            self.files.remove(sha256).map_err(|error| unavailable(REMOVE, &error))?;
        }
        transaction.commit().map_err(failed)?;
        Ok(rows > 0)
    }
}

/// The oldest kept artifact but this one, with its age, and the bytes of all but this one.
fn oldest(connection: &Connection, but: &str) -> rusqlite::Result<Option<(String, u64, u64)>> {
    let sql = "WITH kept AS (
            SELECT sha256, max(size) AS size, max(created_at) AS created_at
            FROM artifact WHERE removed = 0 AND sha256 <> ?1 GROUP BY sha256
        ) SELECT sha256, (SELECT sum(size) FROM kept), created_at FROM kept ORDER BY created_at, sha256 LIMIT 1";
    connection
        .prepare_cached(sql)?
        .query_row([but], |row| Ok((row.get(0)?, count(row, 1)?, count(row, 2)?)))
        .optional()
}
