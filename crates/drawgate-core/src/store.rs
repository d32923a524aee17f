//! Where the gate keeps what must outlive it.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audit::{Checkpoint, EventDraft, StoredEvent};
use crate::model::{ArtifactRef, Capability, CapabilityGrant, Principal};
use crate::policy::{Approval, Expose};

/// What can go wrong in a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store can't be read or written now; it may recover.
    #[error("{operation}: {reason}")]
    Unavailable {
        /// What was attempted.
        operation: &'static str,
        /// What the storage said.
        reason: String,
    },
    /// What is stored can't be understood.
    #[error("{operation}: {reason}")]
    Corrupt {
        /// What was attempted.
        operation: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The artifact quota is used up.
    #[error("the artifact store is full: {used} of {quota} bytes")]
    Quota {
        /// Bytes in use.
        used: u64,
        /// Bytes allowed.
        quota: u64,
    },
}

/// An agent that may call: its name, the hash of its token, its standing capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// The principal.
    pub name: Principal,
    /// SHA-256 of the token, in hexadecimal. The token itself is shown once and kept nowhere.
    #[serde(skip_serializing, default)]
    pub token_hash: String,
    /// What it may always do.
    pub capabilities: Vec<Capability>,
    /// When it was added, in milliseconds since the epoch.
    pub created_at: u64,
    /// How its tools are shown to it.
    #[serde(default)]
    pub expose: Expose,
}

/// Grants, agents and approvals, kept durably. Writes are durable when they return.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// All agents, by name.
    async fn agents(&self) -> Result<Vec<Agent>, StoreError>;
    /// Adds or replaces an agent.
    async fn put_agent(&self, agent: &Agent) -> Result<(), StoreError>;
    /// Removes an agent; `false` if there is none.
    async fn remove_agent(&self, name: &Principal) -> Result<bool, StoreError>;

    /// All grants, by id, expired ones too.
    async fn grants(&self) -> Result<Vec<CapabilityGrant>, StoreError>;
    /// Adds or replaces a grant.
    async fn put_grant(&self, grant: &CapabilityGrant) -> Result<(), StoreError>;
    /// Removes a grant; `false` if there is none.
    async fn remove_grant(&self, id: &str) -> Result<bool, StoreError>;

    /// All approvals that are not yet forgotten, oldest first.
    async fn approvals(&self) -> Result<Vec<Approval>, StoreError>;
    /// Adds or replaces an approval.
    async fn put_approval(&self, approval: &Approval) -> Result<(), StoreError>;
    /// Removes an approval.
    async fn remove_approval(&self, id: &str) -> Result<(), StoreError>;
}

/// Small documents by kind and id: what must outlive the gateway and has no table of its own, such
/// as pins, tasks and sealed logins. Writes are durable when they return.
#[async_trait]
pub trait Documents: Send + Sync + 'static {
    /// All documents of a kind, by id.
    async fn documents(&self, kind: &'static str) -> Result<Vec<(String, Value)>, StoreError>;
    /// Adds or replaces a document.
    async fn put_document(
        &self,
        kind: &'static str,
        id: &str,
        body: &Value,
    ) -> Result<(), StoreError>;
    /// Removes a document; `false` if there is none.
    async fn remove_document(&self, kind: &'static str, id: &str) -> Result<bool, StoreError>;
}

/// The audit log: append only, chained, checkpointed.
///
/// `append` returns after the event is as durable as the log's configuration promises. Many appends
/// may share one commit. Events get their sequence in the order of their appends.
#[async_trait]
pub trait AuditLog: Send + Sync + 'static {
    /// Appends one event and returns its sequence.
    async fn append(&self, draft: EventDraft) -> Result<u64, StoreError>;
    /// Events after a sequence (0 for the beginning), oldest first.
    async fn read(&self, after: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError>;
    /// The newest sequence, 0 for an empty log.
    fn head(&self) -> u64;
    /// Signs the head, if something was appended since the last checkpoint.
    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError>;
    /// How many appends wait for their commit now.
    fn queued(&self) -> usize;
}

/// A stored artifact's description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactInfo {
    /// Where, how large, which hash, which type.
    #[serde(flatten)]
    pub reference: ArtifactRef,
    /// Who may read it.
    pub owner: Principal,
    /// The tool that made it.
    pub tool_id: String,
    /// When, in milliseconds since the epoch.
    pub created_at: u64,
}

/// Bytes by hash, bounded in size and age.
#[async_trait]
pub trait Artifacts: Send + Sync + 'static {
    /// Keeps bytes for an owner. The same bytes of the same owner are kept once.
    async fn put(&self, artifact: NewArtifact) -> Result<ArtifactRef, StoreError>;
    /// The bytes, if this owner has them; the local principal may read all.
    async fn get(
        &self,
        sha256: &str,
        reader: &Principal,
    ) -> Result<Option<(ArtifactInfo, Vec<u8>)>, StoreError>;
    /// What this reader may read, newest first.
    async fn list(&self, reader: &Principal) -> Result<Vec<ArtifactInfo>, StoreError>;
    /// Removes an artifact of all its owners; `false` if there is none.
    async fn remove(&self, sha256: &str) -> Result<bool, StoreError>;
}

/// Bytes on their way into [`Artifacts`].
#[derive(Debug, Clone)]
pub struct NewArtifact {
    /// The bytes, redacted already.
    pub bytes: Vec<u8>,
    /// Their media type.
    pub mime_type: String,
    /// Who may read them.
    pub owner: Principal,
    /// The tool that made them.
    pub tool_id: String,
    /// When, in milliseconds since the epoch.
    pub created_at: u64,
}
