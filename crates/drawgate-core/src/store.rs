//! Where the gate keeps what must outlive it: the traits that a store implements.
//!
//! A store has four parts, bundled in [`Storage`]: [`Store`] and [`Documents`] for state, [`AuditLog`]
//! for the log, [`Artifacts`] for outputs that are too large to return. [`memory`] has all four and
//! keeps nothing; durable ones are in `drawgate_host::store`. All of them pass
//! `testing::store_suite`, which says in tests what the traits say in words.

pub mod memory;

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::audit::search::{AuditPage, AuditSearch, FoundEvents, IdQuery};
use crate::audit::{Anchor, Checkpoint, EventDraft, PrunePlan, Report, SignedHead, StoredEvent};
use crate::model::{ArtifactRef, Capability, CapabilityGrant, GrantId, Principal};
use crate::policy::{Approval, ApprovalState, Expose};

/// The parts of an open store.
#[derive(Clone)]
pub struct Storage {
    /// Agents, grants, approvals.
    pub store: Arc<dyn Store>,
    /// Small documents.
    pub documents: Arc<dyn Documents>,
    /// The audit log itself: an event that it took is as durable as it promises.
    pub log: Arc<dyn AuditLog>,
    /// The audit log that calls write to. While the log can't be written, it may keep events in memory.
    pub audit: Arc<dyn AuditLog>,
    /// Outputs that are too large to return.
    pub artifacts: Arc<dyn Artifacts>,
}

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
    /// What a write was to replace is not what the writer expected; nothing was changed.
    #[error("{what} was changed meanwhile")]
    Conflict {
        /// What was to be replaced.
        what: String,
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
    /// Replaces an approval, if the stored one is in a state; a [`Conflict`](StoreError::Conflict)
    /// otherwise, also where there is none. So one of several gateways on a store decides.
    SettleApproval {
        /// The state that the stored one must be in.
        from: ApprovalState,
        /// The approval from then on.
        to: Approval,
    },
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

/// Grants, agents and approvals, kept durably. Writes are durable when they return, and whoever reads
/// after that sees them.
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
    /// Makes all of these changes in their order, or none of them and fails.
    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError>;
    /// Moves what was written to where it stays, at the end of a process that has nothing more to write.
    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Small documents by kind and id: what must outlive the gateway and has no table of its own, such
/// as pins, tasks and sealed logins. Writes are durable when they return.
#[async_trait]
pub trait Documents: Send + Sync + 'static {
    /// All documents of a kind, by id.
    async fn documents(&self, kind: &'static str) -> Result<Vec<(String, Value)>, StoreError> {
        self.documents_under(kind, "").await
    }
    /// All documents of a kind whose id begins with a prefix, by id.
    async fn documents_under(
        &self,
        kind: &'static str,
        prefix: &str,
    ) -> Result<Vec<(String, Value)>, StoreError>;
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
    /// Appends one event and returns its sequence. If it fails, nothing of it is in the log.
    async fn append(&self, draft: EventDraft) -> Result<u64, StoreError>;
    /// The same for an event that its owner keeps, to do something else with it if that fails.
    async fn append_shared(&self, draft: Arc<EventDraft>) -> Result<u64, StoreError> {
        self.append(Arc::unwrap_or_clone(draft)).await
    }
    /// The newest sequence, 0 for an empty log.
    fn head(&self) -> u64;
    /// The head as it is now, signed, to be kept elsewhere.
    fn signed_head(&self) -> SignedHead;
    /// Signs the head, if something was appended since the last checkpoint.
    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError>;
    /// How many appends wait for their commit now.
    fn queued(&self) -> usize;
    /// Whether events are written now.
    fn health(&self) -> AuditHealth;
    /// Removes events before a sequence, which a signed record then stands for; returns how many.
    /// A call keeps all its events: the cut moves back to where no call is under way.
    async fn prune(&self, actor: &Principal, before: u64) -> Result<u64, StoreError>;
    /// Tries once to write what is kept in memory only; fails if something still is.
    async fn flush(&self) -> Result<(), StoreError>;
    /// Writes that the log ends in order, signs it, and lets nothing more in.
    async fn close(&self) -> Result<(), StoreError>;
    /// The reading side.
    fn reader(&self) -> Arc<dyn AuditReader>;

    /// Events after a sequence (0 for the beginning), oldest first.
    async fn read(&self, after: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        self.reader().read(after, limit).await
    }
}

/// Whether an audit log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditHealth {
    /// Events are written.
    Ok,
    /// Events are kept in memory.
    Degraded {
        /// How many.
        kept: usize,
        /// Since when, in milliseconds since the epoch.
        since: u64,
    },
    /// The last event could not be written.
    Failed,
}

/// Reads an audit log, also while another process writes it. Each method sees the log as it was at one
/// moment.
#[async_trait]
pub trait AuditReader: Send + Sync + 'static {
    /// Events after a sequence (0 for the beginning), oldest first.
    async fn read(&self, after: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError>;
    /// The newest events, oldest of them first.
    async fn tail(&self, count: usize) -> Result<Vec<StoredEvent>, StoreError>;
    /// One page of the answer to a question.
    async fn search(&self, search: AuditSearch) -> Result<AuditPage, StoreError>;
    /// One page of the events that an id belongs to.
    async fn find(&self, query: IdQuery) -> Result<FoundEvents, StoreError>;
    /// The arguments that are kept beside an event, by their hash.
    async fn payload(&self, hash: &str) -> Result<Option<String>, StoreError>;
    /// What is known to be missing from the log, without verifying it.
    async fn loss(&self) -> Result<Option<String>, StoreError>;
    /// What pruning before a sequence would remove.
    async fn plan_prune(&self, before: u64) -> Result<PrunePlan, StoreError>;
    /// The head as it is now, signed by the owner of the key. A log that is not this installation's
    /// own, or that is known to lack events, is not signed.
    async fn signed_head(&self, now_ms: u64) -> Result<SignedHead, StoreError>;
    /// Verifies the whole log. What can't be read counts as tampered with.
    async fn verify(&self, options: VerifyOptions) -> Result<Report, StoreError>;
    /// Writes the log as JSON lines: the prune record, events, and checkpoints after the events that
    /// they sign. The last one signs the head: where the log has none there, the owner of the key
    /// signs it now, if the log is intact. Returns why the head is not signed, if it is not.
    async fn export(
        &self,
        out: Box<dyn io::Write + Send>,
        now_ms: u64,
    ) -> Result<Option<String>, StoreError>;
}

/// What a verification covers beside the chain and its signatures.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// Events known from elsewhere.
    pub anchors: Vec<Anchor>,
    /// The public key that the log must be signed with, in hexadecimal, if it is known from elsewhere.
    pub key: Option<String>,
    /// Compare stored artifacts and kept arguments with the events that mention them.
    pub artifacts: bool,
    /// Milliseconds after which an artifact may be gone, as configured.
    pub artifact_max_age_ms: u64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        let artifact_max_age_ms = ArtifactLimits::default().max_age_ms;
        Self { anchors: Vec::new(), key: None, artifacts: false, artifact_max_age_ms }
    }
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

/// How much and how long artifacts are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArtifactLimits {
    /// Bytes of all artifacts.
    pub quota: u64,
    /// Milliseconds after which an artifact goes.
    pub max_age_ms: u64,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self { quota: 1 << 30, max_age_ms: 30 * 24 * 60 * 60 * 1000 }
    }
}

impl ArtifactLimits {
    /// Artifacts that were created before this time are too old.
    #[must_use]
    pub const fn oldest(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.max_age_ms)
    }
}

/// Bytes by hash, bounded in size and age: the oldest make room for new ones, and what is too old is
/// not served, whether or not it was removed already.
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
    /// Removes what is too old at this time, though nothing new needs its room; how many went.
    async fn expire(&self, now_ms: u64) -> Result<usize, StoreError>;
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
