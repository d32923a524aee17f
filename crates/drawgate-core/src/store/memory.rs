//! A store in memory: for a gateway without a data folder, embedded in a program, and for tests.
//!
//! It keeps the whole contract of the traits but durability. Everything in it is bounded: the oldest
//! events, arguments and artifacts go first. Its audit log begins empty, is signed with a key of its
//! own, and ends with the process; export it to keep it.

mod artifacts;
mod log;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;

use self::artifacts::Kept;
use self::log::Log;
use super::{
    Agent, ArtifactInfo, ArtifactLimits, Artifacts, AuditHealth, AuditLog, AuditReader, Documents,
    NewArtifact, Owed, Storage, Store, StoreError, VerifyOptions, Write,
};
use crate::audit::search::{AuditPage, AuditSearch, FoundEvents, IdQuery, find};
use crate::audit::{Checkpoint, EventDraft, PrunePlan, Report, SignedHead, StoredEvent};
use crate::clock::Clock;
use crate::model::{ArtifactRef, CapabilityGrant, Principal};
use crate::policy::{Approval, ApprovalState};

/// Most agents, grants, approvals, documents and owed outcomes in all. Their owners keep far fewer;
/// this is for a program that has none of these bounds.
const MAX_RECORDS: usize = 100_000;

/// How much a store in memory keeps.
#[derive(Clone)]
pub struct MemoryOptions {
    /// Bytes of audit events. Beyond it the oldest are pruned, beyond twice as many events are refused.
    pub log_bytes: usize,
    /// Bytes of large arguments that are kept beside their events.
    pub payload_quota: u64,
    /// So many events after a checkpoint the log signs the next one.
    pub checkpoint_every: u64,
    /// How much and how long artifacts are kept.
    pub artifacts: ArtifactLimits,
    /// The time of the log's own events, and of what is too old.
    pub clock: Arc<dyn Clock>,
}

impl MemoryOptions {
    /// 64 MiB of events, as many of arguments and of artifacts.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let artifacts = ArtifactLimits { quota: 64 << 20, ..ArtifactLimits::default() };
        Self {
            log_bytes: 64 << 20,
            payload_quota: 64 << 20,
            checkpoint_every: 1000,
            artifacts,
            clock,
        }
    }
}

/// State, audit log and artifacts in memory. Clones share their content.
#[derive(Clone)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    log: Arc<Mutex<Log>>,
    artifacts: Arc<Mutex<Kept>>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    agents: BTreeMap<Principal, Agent>,
    grants: BTreeMap<String, CapabilityGrant>,
    approvals: BTreeMap<String, Approval>,
    documents: BTreeMap<(&'static str, String), Value>,
    owed: Vec<Owed>,
}

impl MemoryStore {
    /// An empty store with a new signing key.
    pub fn new(options: MemoryOptions) -> Result<Self, StoreError> {
        Ok(Self {
            state: Arc::default(),
            artifacts: Arc::new(Mutex::new(Kept::new(options.artifacts))),
            clock: Arc::clone(&options.clock),
            log: Arc::new(Mutex::new(Log::new(options)?)),
        })
    }

    /// All audit events that are kept.
    #[must_use]
    pub fn events(&self) -> Vec<StoredEvent> {
        self.log.lock().read(0, usize::MAX)
    }

    /// All parts, which share this store.
    #[must_use]
    pub fn storage(self) -> Storage {
        let all = Arc::new(self);
        Storage {
            store: all.clone(),
            documents: all.clone(),
            log: all.clone(),
            audit: all.clone(),
            artifacts: all,
        }
    }
}

impl State {
    fn len(&self) -> usize {
        self.agents.len()
            + self.grants.len()
            + self.approvals.len()
            + self.documents.len()
            + self.owed.len()
    }

    /// Whether these writes can all be made.
    fn check(&self, writes: &[Write]) -> Result<(), StoreError> {
        let mut added = 0;
        let mut changed: BTreeMap<&str, Option<ApprovalState>> = BTreeMap::new();
        for write in writes {
            match write {
                Write::PutApproval(approval) => {
                    added += 1;
                    changed.insert(&approval.id, Some(approval.state));
                }
                Write::RemoveApproval(id) => drop(changed.insert(id, None)),
                Write::SettleApproval { from, to } => {
                    let stored = || self.approvals.get(&to.id).map(|approval| approval.state);
                    if changed.get(&*to.id).copied().unwrap_or_else(stored) != Some(*from) {
                        return Err(StoreError::Conflict { what: format!("approval `{}`", to.id) });
                    }
                    changed.insert(&to.id, Some(to.state));
                }
                Write::PutAgent(_)
                | Write::PutGrant(_)
                | Write::PutDocument { .. }
                | Write::Owe(_) => added += 1,
                Write::RemoveAgent(_)
                | Write::RemoveGrant(_)
                | Write::RemoveDocument { .. }
                | Write::Settle(_) => {}
            }
        }
        if added > 0 && self.len() + added > MAX_RECORDS {
            let reason = format!("{MAX_RECORDS} records are kept in memory already");
            return Err(StoreError::Unavailable { operation: "write the state", reason });
        }
        Ok(())
    }

    fn apply(&mut self, write: Write) {
        match write {
            Write::PutAgent(agent) => drop(self.agents.insert(agent.name.clone(), agent)),
            Write::RemoveAgent(name) => drop(self.agents.remove(&name)),
            Write::PutGrant(grant) => drop(self.grants.insert(grant.grant_id.to_string(), grant)),
            Write::RemoveGrant(id) => drop(self.grants.remove(&*id)),
            Write::PutApproval(approval) | Write::SettleApproval { to: approval, .. } => {
                self.approvals.insert(approval.id.clone(), approval);
            }
            Write::RemoveApproval(id) => drop(self.approvals.remove(&id)),
            Write::PutDocument { kind, id, body } => {
                self.documents.insert((kind, id), body);
            }
            Write::RemoveDocument { kind, id } => drop(self.documents.remove(&(kind, id))),
            Write::Owe(owed) => {
                self.owed.retain(|other| other.act_id != owed.act_id);
                self.owed.push(owed);
            }
            Write::Settle(act) => self.owed.retain(|owed| owed.act_id != act),
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn agents(&self) -> Result<Vec<Agent>, StoreError> {
        Ok(self.state.lock().agents.values().cloned().collect())
    }

    async fn grants(&self) -> Result<Vec<CapabilityGrant>, StoreError> {
        Ok(self.state.lock().grants.values().cloned().collect())
    }

    async fn approvals(&self) -> Result<Vec<Approval>, StoreError> {
        let mut all: Vec<Approval> = self.state.lock().approvals.values().cloned().collect();
        all.sort_by_key(|approval| approval.created_at);
        Ok(all)
    }

    async fn owed(&self) -> Result<Vec<Owed>, StoreError> {
        Ok(self.state.lock().owed.clone())
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        state.check(&writes)?;
        for write in writes {
            state.apply(write);
        }
        Ok(())
    }
}

#[async_trait]
impl Documents for MemoryStore {
    async fn documents_under(
        &self,
        kind: &'static str,
        prefix: &str,
    ) -> Result<Vec<(String, Value)>, StoreError> {
        let state = self.state.lock();
        let from = state.documents.range((kind, prefix.to_owned())..);
        let under = from.take_while(|((of, id), _)| *of == kind && id.starts_with(prefix));
        Ok(under.map(|((_, id), body)| (id.clone(), body.clone())).collect())
    }

    async fn put_document(
        &self,
        kind: &'static str,
        id: &str,
        body: &Value,
    ) -> Result<(), StoreError> {
        let (id, body) = (id.to_owned(), body.clone());
        self.commit(vec![Write::PutDocument { kind, id, body }]).await
    }

    async fn remove_document(&self, kind: &'static str, id: &str) -> Result<(), StoreError> {
        self.commit(vec![Write::RemoveDocument { kind, id: id.to_owned() }]).await
    }
}

#[async_trait]
impl AuditLog for MemoryStore {
    async fn append(&self, draft: EventDraft) -> Result<u64, StoreError> {
        self.log.lock().append(&draft)
    }

    fn head(&self) -> u64 {
        self.log.lock().head()
    }

    fn signed_head(&self) -> SignedHead {
        self.log.lock().signed_head(self.clock.now_ms())
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        Ok(self.log.lock().checkpoint())
    }

    fn queued(&self) -> usize {
        0
    }

    fn health(&self) -> AuditHealth {
        self.log.lock().health()
    }

    async fn prune(&self, actor: &Principal, before: u64) -> Result<u64, StoreError> {
        self.log.lock().prune(actor, before)
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.log.lock().close()
    }

    fn reader(&self) -> Arc<dyn AuditReader> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl AuditReader for MemoryStore {
    async fn read(&self, after: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        Ok(self.log.lock().read(after, limit))
    }

    async fn tail(&self, count: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let log = self.log.lock();
        let after = log.head().saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(log.read(after, count))
    }

    async fn search(&self, search: AuditSearch) -> Result<AuditPage, StoreError> {
        search.run(&*self.log.lock())
    }

    async fn find(&self, query: IdQuery) -> Result<FoundEvents, StoreError> {
        find(&query, &*self.log.lock())
    }

    async fn payload(&self, hash: &str) -> Result<Option<String>, StoreError> {
        Ok(self.log.lock().payload_of(hash))
    }

    async fn loss(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    async fn plan_prune(&self, before: u64) -> Result<PrunePlan, StoreError> {
        self.log.lock().plan_prune(before)
    }

    async fn signed_head(&self, now_ms: u64) -> Result<SignedHead, StoreError> {
        Ok(self.log.lock().signed_head(now_ms))
    }

    async fn verify(&self, options: VerifyOptions) -> Result<Report, StoreError> {
        Ok(self.log.lock().verify(options))
    }

    async fn export(
        &self,
        mut out: Box<dyn io::Write + Send>,
        _now_ms: u64,
    ) -> Result<Option<String>, StoreError> {
        let text = self.log.lock().export();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
            let reason = error.to_string();
            StoreError::Unavailable { operation: "export the audit log", reason }
        })?;
        Ok(None)
    }
}

#[async_trait]
impl Artifacts for MemoryStore {
    async fn put(&self, artifact: NewArtifact) -> Result<ArtifactRef, StoreError> {
        self.artifacts.lock().put(artifact)
    }

    async fn get(
        &self,
        sha256: &str,
        reader: &Principal,
    ) -> Result<Option<(ArtifactInfo, Vec<u8>)>, StoreError> {
        Ok(self.artifacts.lock().get(sha256, reader, self.clock.now_ms()))
    }

    async fn list(&self, reader: &Principal) -> Result<Vec<ArtifactInfo>, StoreError> {
        Ok(self.artifacts.lock().list(reader, self.clock.now_ms()))
    }

    async fn remove(&self, sha256: &str) -> Result<bool, StoreError> {
        Ok(self.artifacts.lock().remove(sha256))
    }

    async fn expire(&self, now_ms: u64) -> Result<usize, StoreError> {
        Ok(self.artifacts.lock().expire(now_ms))
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
