//! Grants, agents, approvals and small documents in `drawgate.db`, as JSON by id.

use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::model::CapabilityGrant;
use drawgate_core::policy::{Approval, ApprovalState};
use drawgate_core::store::{Agent, Documents, Owed, Store, StoreError, Write};
use parking_lot::Mutex;
use rusqlite::{Connection, ToSql, Transaction, TransactionBehavior};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::lock::DataDir;
use super::connection::{Durability, corrupt, integer, move_wal, open_state, unavailable};
use super::presence::Presence;

/// The state store.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    connection: Arc<Mutex<Connection>>,
    presence: Arc<Presence>,
}

impl SqliteStore {
    /// Opens the store in a folder.
    pub fn open(dir: &DataDir, durability: Durability) -> Result<Self, StoreError> {
        Self::watched(dir, durability, Arc::new(Presence::new(dir)))
    }

    /// The same, as a part of a store whose files are watched.
    pub(super) fn watched(
        dir: &DataDir,
        durability: Durability,
        presence: Arc<Presence>,
    ) -> Result<Self, StoreError> {
        let connection = Arc::new(Mutex::new(open_state(dir, durability)?));
        Ok(Self { connection, presence })
    }

    /// Runs work on the connection where it may block.
    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.presence.check(operation)?;
        let connection = Arc::clone(&self.connection);
        tokio::task::spawn_blocking(move || work(&connection.lock()))
            .await
            .unwrap_or_else(|error| Err(unavailable(operation, &error)))
    }

    async fn bodies<T: DeserializeOwned + Send + 'static>(
        &self,
        operation: &'static str,
        sql: &'static str,
    ) -> Result<Vec<T>, StoreError> {
        self.run(operation, move |connection| {
            let mut statement =
                connection.prepare_cached(sql).map_err(|error| unavailable(operation, &error))?;
            let rows = statement
                .query_map([], |row| row.get::<_, String>(0))
                .map_err(|error| unavailable(operation, &error))?;
            rows.map(|row| {
                let body = row.map_err(|error| unavailable(operation, &error))?;
                serde_json::from_str(&body).map_err(|error| corrupt(operation, &error))
            })
            .collect()
        })
        .await
    }
}

fn body(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| corrupt(WRITE, &error))
}

#[async_trait]
impl Store for SqliteStore {
    async fn agents(&self) -> Result<Vec<Agent>, StoreError> {
        // `Agent` never serializes its token's hash, so the hash has a column of its own.
        self.bodies(
            "read agents",
            "SELECT json_set(body, '$.tokenHash', token_hash) FROM agent ORDER BY name",
        )
        .await
    }

    async fn grants(&self) -> Result<Vec<CapabilityGrant>, StoreError> {
        self.bodies("read grants", "SELECT body FROM permit ORDER BY id").await
    }

    async fn approvals(&self) -> Result<Vec<Approval>, StoreError> {
        self.bodies("read approvals", "SELECT body FROM approval ORDER BY created_at, id").await
    }

    async fn owed(&self) -> Result<Vec<Owed>, StoreError> {
        self.bodies("read what is owed to the audit log", "SELECT body FROM owed ORDER BY rowid")
            .await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.run(WRITE, move |connection| {
            let failed = |error: rusqlite::Error| unavailable(WRITE, &error);
            let transaction =
                Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
                    .map_err(failed)?;
            writes.iter().try_for_each(|write| apply(&transaction, write))?;
            transaction.commit().map_err(failed)
        })
        .await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.run("close the state", move_wal).await
    }
}

const WRITE: &str = "write the state";

/// Makes one change, as part of a transaction.
fn apply(connection: &Connection, write: &Write) -> Result<(), StoreError> {
    let run = |sql: &str, values: &[&dyn ToSql]| {
        let done = connection.prepare_cached(sql).and_then(|mut it| it.execute(values));
        done.map(drop).map_err(|error| unavailable(WRITE, &error))
    };
    match write {
        Write::PutAgent(agent) => run(
            "INSERT OR REPLACE INTO agent (name, token_hash, body) VALUES (?1, ?2, ?3)",
            &[&agent.name.as_str(), &agent.token_hash, &body(agent)?],
        ),
        Write::RemoveAgent(name) => run("DELETE FROM agent WHERE name = ?1", &[&name.as_str()]),
        Write::PutGrant(grant) => run(
            "INSERT OR REPLACE INTO permit (id, body) VALUES (?1, ?2)",
            &[&&*grant.grant_id, &body(grant)?],
        ),
        Write::RemoveGrant(id) => run("DELETE FROM permit WHERE id = ?1", &[&&**id]),
        Write::PutApproval(approval) => run(
            "INSERT OR REPLACE INTO approval (id, created_at, body) VALUES (?1, ?2, ?3)",
            &[&approval.id, &integer(approval.created_at), &body(approval)?],
        ),
        Write::SettleApproval { from, to } => settle(connection, *from, to),
        Write::RemoveApproval(id) => run("DELETE FROM approval WHERE id = ?1", &[id]),
        Write::PutDocument { kind, id, body: value } => run(
            "INSERT OR REPLACE INTO document (kind, id, body) VALUES (?1, ?2, ?3)",
            &[kind, id, &body(value)?],
        ),
        Write::RemoveDocument { kind, id } => {
            run("DELETE FROM document WHERE kind = ?1 AND id = ?2", &[kind, id])
        }
        Write::Owe(owed) => run(
            "INSERT OR REPLACE INTO owed (act_id, body) VALUES (?1, ?2)",
            &[&owed.act_id, &body(owed)?],
        ),
        Write::Settle(act) => run("DELETE FROM owed WHERE act_id = ?1", &[act]),
    }
}

/// Ends all grants that have an end and all approvals that could still permit a call; how many.
pub(super) fn end_timed(connection: &Connection) -> rusqlite::Result<usize> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let grants = transaction
        .execute("DELETE FROM permit WHERE json_extract(body, '$.expiresAt') IS NOT NULL", [])?;
    let sql = "UPDATE approval SET body = json_set(body, '$.state', ?1)
        WHERE json_extract(body, '$.state') IN (?2, ?3)";
    let states = [ApprovalState::Expired, ApprovalState::Pending, ApprovalState::Approved];
    let approvals = transaction.execute(sql, states.map(ApprovalState::as_str))?;
    transaction.commit()?;
    Ok(grants + approvals)
}

/// Replaces an approval that is in a state.
fn settle(connection: &Connection, from: ApprovalState, to: &Approval) -> Result<(), StoreError> {
    let sql = "UPDATE approval SET body = ?2 WHERE id = ?1 AND json_extract(body, '$.state') = ?3";
    let values = (&to.id, body(to)?, from.as_str());
    let changed = connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute(values))
        .map_err(|error| unavailable(WRITE, &error))?;
    match changed {
        0 => Err(StoreError::Conflict { what: format!("approval `{}`", to.id) }),
        _ => Ok(()),
    }
}

#[async_trait]
impl Documents for SqliteStore {
    async fn documents_under(
        &self,
        kind: &'static str,
        prefix: &str,
    ) -> Result<Vec<(String, Value)>, StoreError> {
        let operation = "read documents";
        let prefix = prefix.to_owned();
        self.run(operation, move |connection| {
            let failed = |error: rusqlite::Error| unavailable(operation, &error);
            let sql = "SELECT id, body FROM document WHERE kind = ?1 AND id >= ?2 ORDER BY id";
            let mut statement = connection.prepare_cached(sql).map_err(failed)?;
            let mut rows = statement.query([kind, prefix.as_str()]).map_err(failed)?;
            let mut found = Vec::new();
            // Rows are read one by one, in the order of the primary key: the first id without the
            // prefix is the end.
            while let Some(row) = rows.next().map_err(failed)? {
                let id: String = row.get(0).map_err(failed)?;
                if !id.starts_with(&prefix) {
                    break;
                }
                let body: String = row.get(1).map_err(failed)?;
                let body =
                    serde_json::from_str(&body).map_err(|error| corrupt(operation, &error))?;
                found.push((id, body));
            }
            Ok(found)
        })
        .await
    }

    async fn put_document(
        &self,
        kind: &'static str,
        id: &str,
        value: &Value,
    ) -> Result<(), StoreError> {
        let (id, body) = (id.to_owned(), value.clone());
        self.commit(vec![Write::PutDocument { kind, id, body }]).await
    }

    async fn remove_document(&self, kind: &'static str, id: &str) -> Result<(), StoreError> {
        self.commit(vec![Write::RemoveDocument { kind, id: id.to_owned() }]).await
    }
}
