//! Where the gate keeps what must outlive it.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audit::{Checkpoint, EventDraft, StoredEvent};
use crate::model::{ArtifactRef, Capability, CapabilityGrant, GrantId, Principal};
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

/// One change of what is kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Adds or replaces an agent.
    PutAgent(Agent),
    /// Removes an agent.
    RemoveAgent(Principal),
    /// Adds or replaces a grant.
    PutGrant(CapabilityGrant),
    /// Removes a grant.
    RemoveGrant(GrantId),
    /// Adds or replaces an approval.
    PutApproval(Approval),
    /// Removes an approval, by its id.
    RemoveApproval(String),
    /// Adds or replaces a document.
    PutDocument {
        /// Its kind.
        kind: &'static str,
        /// Its id.
        id: String,
        /// What it says.
        body: Value,
    },
    /// Removes a document.
    RemoveDocument {
        /// Its kind.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// Notes an event that the audit log must get.
    Owe(Owed),
    /// Strikes that out, by the act's id: the log has it.
    Settle(String),
}

/// The outcome of an operator's act that the audit log may not have yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owed {
    /// The act.
    pub act_id: String,
    /// The sequence of the event that it began with; its outcome comes later in the log.
    pub intent: u64,
    /// How far the act is.
    pub stage: Stage,
    /// The outcome.
    pub outcome: EventDraft,
}

/// How far an act is whose outcome is owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Files may have been changed; whether they were shows in them.
    Begun,
    /// It is done.
    Done,
}

/// Grants, agents and approvals, kept durably. Writes are durable when they return.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// All agents, by name.
    async fn agents(&self) -> Result<Vec<Agent>, StoreError>;
    /// All grants, by id, expired ones too.
    async fn grants(&self) -> Result<Vec<CapabilityGrant>, StoreError>;
    /// All approvals that are not yet forgotten, oldest first.
    async fn approvals(&self) -> Result<Vec<Approval>, StoreError>;
    /// What is owed to the audit log, oldest first.
    async fn owed(&self) -> Result<Vec<Owed>, StoreError>;
    /// Makes all of these changes, or none of them and fails.
    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError>;
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
    /// Removes a document, if there is one.
    async fn remove_document(&self, kind: &'static str, id: &str) -> Result<(), StoreError>;
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
