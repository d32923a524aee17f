//! Grants, agents, approvals and small documents in `drawgate.db`, as JSON by id.

use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::model::{CapabilityGrant, Principal};
use drawgate_core::policy::Approval;
use drawgate_core::store::{Agent, Documents, Store, StoreError};
use parking_lot::Mutex;
use rusqlite::{Connection, Params};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::lock::DataDir;
use super::connection::{Durability, corrupt, integer, open_state, unavailable};

/// The state store.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    connection: Arc<Mutex<Connection>>,
}

impl SqliteStore {
    /// Opens the store in a folder.
    pub fn open(dir: &DataDir, durability: Durability) -> Result<Self, StoreError> {
        Ok(Self { connection: Arc::new(Mutex::new(open_state(dir, durability)?)) })
    }

    /// Runs work on the connection where it may block.
    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let connection = Arc::clone(&self.connection);
        tokio::task::spawn_blocking(move || work(&connection.lock()))
            .await
            .unwrap_or_else(|error| Err(unavailable(operation, &error)))
    }

    async fn change(
        &self,
        operation: &'static str,
        sql: &'static str,
        values: impl Params + Send + 'static,
    ) -> Result<usize, StoreError> {
        self.run(operation, move |connection| {
            connection
                .prepare_cached(sql)
                .and_then(|mut statement| statement.execute(values))
                .map_err(|error| unavailable(operation, &error))
        })
        .await
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

fn body(operation: &'static str, value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| corrupt(operation, &error))
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

    async fn put_agent(&self, agent: &Agent) -> Result<(), StoreError> {
        let operation = "write an agent";
        let values = (agent.name.to_string(), agent.token_hash.clone(), body(operation, agent)?);
        let sql = "INSERT OR REPLACE INTO agent (name, token_hash, body) VALUES (?1, ?2, ?3)";
        self.change(operation, sql, values).await.map(drop)
    }

    async fn remove_agent(&self, name: &Principal) -> Result<bool, StoreError> {
        let values = (name.to_string(),);
        self.change("remove an agent", "DELETE FROM agent WHERE name = ?1", values)
            .await
            .map(|n| n > 0)
    }

    async fn grants(&self) -> Result<Vec<CapabilityGrant>, StoreError> {
        self.bodies("read grants", "SELECT body FROM permit ORDER BY id").await
    }

    async fn put_grant(&self, grant: &CapabilityGrant) -> Result<(), StoreError> {
        let operation = "write a grant";
        let values = (grant.grant_id.to_string(), body(operation, grant)?);
        let sql = "INSERT OR REPLACE INTO permit (id, body) VALUES (?1, ?2)";
        self.change(operation, sql, values).await.map(drop)
    }

    async fn remove_grant(&self, id: &str) -> Result<bool, StoreError> {
        let values = (id.to_owned(),);
        self.change("remove a grant", "DELETE FROM permit WHERE id = ?1", values)
            .await
            .map(|n| n > 0)
    }

    async fn approvals(&self) -> Result<Vec<Approval>, StoreError> {
        self.bodies("read approvals", "SELECT body FROM approval ORDER BY created_at, id").await
    }

    async fn put_approval(&self, approval: &Approval) -> Result<(), StoreError> {
        let operation = "write an approval";
        let values =
            (approval.id.clone(), integer(approval.created_at), body(operation, approval)?);
        let sql = "INSERT OR REPLACE INTO approval (id, created_at, body) VALUES (?1, ?2, ?3)";
        self.change(operation, sql, values).await.map(drop)
    }

    async fn remove_approval(&self, id: &str) -> Result<(), StoreError> {
        let values = (id.to_owned(),);
        self.change("remove an approval", "DELETE FROM approval WHERE id = ?1", values)
            .await
            .map(drop)
    }
}

#[async_trait]
impl Documents for SqliteStore {
    async fn documents(&self, kind: &'static str) -> Result<Vec<(String, Value)>, StoreError> {
        let operation = "read documents";
        self.run(operation, move |connection| {
            let failed = |error: rusqlite::Error| unavailable(operation, &error);
            let sql = "SELECT id, body FROM document WHERE kind = ?1 ORDER BY id";
            let mut statement = connection.prepare_cached(sql).map_err(failed)?;
            let rows = statement
                .query_map([kind], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))
                .map_err(failed)?;
            rows.map(|row| {
                let (id, body) = row.map_err(failed)?;
                let body =
                    serde_json::from_str(&body).map_err(|error| corrupt(operation, &error))?;
                Ok((id, body))
            })
            .collect()
        })
        .await
    }

    async fn put_document(
        &self,
        kind: &'static str,
        id: &str,
        value: &Value,
    ) -> Result<(), StoreError> {
        let operation = "write a document";
        let values = (kind, id.to_owned(), body(operation, value)?);
        let sql = "INSERT OR REPLACE INTO document (kind, id, body) VALUES (?1, ?2, ?3)";
        self.change(operation, sql, values).await.map(drop)
    }

    async fn remove_document(&self, kind: &'static str, id: &str) -> Result<bool, StoreError> {
        let values = (kind, id.to_owned());
        let sql = "DELETE FROM document WHERE kind = ?1 AND id = ?2";
        self.change("remove a document", sql, values).await.map(|n| n > 0)
    }
}
