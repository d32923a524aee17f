//! Storage in memory: for tests, and for embedders that keep nothing. It keeps the whole contract of
//! the three traits but durability; nothing in it is bounded but the artifacts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;

use crate::audit::{Chain, Checkpoint, EventDraft, OpenCalls, Signer, StoredEvent, ZERO_HASH};
use crate::canonical;
use crate::model::{ArtifactRef, CapabilityGrant, Principal};
use crate::policy::Approval;
use crate::store::{
    Agent, ArtifactInfo, Artifacts, AuditLog, Documents, NewArtifact, Owed, Store, StoreError,
    Write,
};

/// How many bytes of artifacts are kept.
const QUOTA: u64 = 64 * 1024 * 1024;

/// State, audit log and artifacts in memory. Clones share their content.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    log: Arc<Mutex<Log>>,
    artifacts: Arc<Mutex<BTreeMap<String, Kept>>>,
    state_broken: Arc<AtomicBool>,
    log_broken: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    agents: BTreeMap<Principal, Agent>,
    grants: BTreeMap<String, CapabilityGrant>,
    approvals: BTreeMap<String, Approval>,
    documents: BTreeMap<(&'static str, String), Value>,
    owed: Vec<Owed>,
}

#[derive(Debug)]
struct Log {
    chain: Chain,
    open: OpenCalls,
    events: Vec<StoredEvent>,
    /// Arguments that are kept beside their events, by hash.
    payloads: BTreeMap<String, Arc<str>>,
    checkpoints: Vec<Checkpoint>,
    signer: Signer,
    last_at: u64,
}

#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    owners: Vec<ArtifactInfo>,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            chain: Chain::default(),
            open: OpenCalls::default(),
            events: Vec::new(),
            payloads: BTreeMap::new(),
            checkpoints: Vec::new(),
            signer: Signer::new(&[7; 32]),
            last_at: 0,
        }
    }
}

impl MemoryStore {
    /// The name that checkpoints give this installation.
    pub const INSTALL: &str = "memory";

    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes everything but the log and the artifacts fail, or work again.
    pub fn break_state(&self, broken: bool) {
        self.state_broken.store(broken, Ordering::SeqCst);
    }

    /// Makes appending to the log fail, or work again.
    pub fn break_log(&self, broken: bool) {
        self.log_broken.store(broken, Ordering::SeqCst);
    }

    /// Arguments that are kept beside their event, by their hash.
    #[must_use]
    pub fn payload(&self, hash: &str) -> Option<Arc<str>> {
        self.log.lock().payloads.get(hash).cloned()
    }

    /// All audit events so far.
    #[must_use]
    pub fn events(&self) -> Vec<StoredEvent> {
        self.log.lock().events.clone()
    }
}

impl State {
    fn apply(&mut self, write: Write) {
        match write {
            Write::PutAgent(agent) => drop(self.agents.insert(agent.name.clone(), agent)),
            Write::RemoveAgent(name) => drop(self.agents.remove(&name)),
            Write::PutGrant(grant) => drop(self.grants.insert(grant.grant_id.to_string(), grant)),
            Write::RemoveGrant(id) => drop(self.grants.remove(&*id)),
            Write::PutApproval(approval) => {
                self.approvals.insert(approval.id.clone(), approval);
            }
            Write::RemoveApproval(id) => drop(self.approvals.remove(&id)),
            Write::PutDocument { kind, id, body } => {
                self.documents.insert((kind, id), body);
            }
            Write::RemoveDocument { kind, id } => drop(self.documents.remove(&(kind, id))),
            Write::Owe(owed) => self.owed.push(owed),
            Write::Settle(act) => self.owed.retain(|owed| owed.act_id != act),
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn agents(&self) -> Result<Vec<Agent>, StoreError> {
        working(&self.state_broken)?;
        Ok(self.state.lock().agents.values().cloned().collect())
    }

    async fn grants(&self) -> Result<Vec<CapabilityGrant>, StoreError> {
        working(&self.state_broken)?;
        Ok(self.state.lock().grants.values().cloned().collect())
    }

    async fn approvals(&self) -> Result<Vec<Approval>, StoreError> {
        working(&self.state_broken)?;
        let mut all: Vec<Approval> = self.state.lock().approvals.values().cloned().collect();
        all.sort_by_key(|approval| approval.created_at);
        Ok(all)
    }

    async fn owed(&self) -> Result<Vec<Owed>, StoreError> {
        working(&self.state_broken)?;
        Ok(self.state.lock().owed.clone())
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        working(&self.state_broken)?;
        let mut state = self.state.lock();
        for write in writes {
            state.apply(write);
        }
        Ok(())
    }
}

#[async_trait]
impl Documents for MemoryStore {
    async fn documents(&self, kind: &'static str) -> Result<Vec<(String, Value)>, StoreError> {
        working(&self.state_broken)?;
        let state = self.state.lock();
        let all = state.documents.iter().filter(|((of, _), _)| *of == kind);
        Ok(all.map(|((_, id), body)| (id.clone(), body.clone())).collect())
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
        working(&self.log_broken)?;
        let mut log = self.log.lock();
        let sealed = log.chain.seal(&draft);
        log.open.note(sealed.sequence, &draft);
        log.last_at = draft.at_ms();
        if let Some(payload) = draft.payload() {
            log.payloads.insert(payload.hash.clone(), Arc::clone(&payload.text));
        }
        log.events.push(StoredEvent { sequence: sealed.sequence, body: sealed.body });
        Ok(sealed.sequence)
    }

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<StoredEvent>, StoreError> {
        let skip = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(self.log.lock().events.iter().skip(skip).take(limit).cloned().collect())
    }

    fn head(&self) -> u64 {
        self.log.lock().chain.sequence()
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        let mut log = self.log.lock();
        let newest = log.checkpoints.last();
        if log.chain.sequence() <= newest.map_or(0, |checkpoint| checkpoint.sequence) {
            return Ok(None);
        }
        let checkpoint = log.signer.checkpoint(Checkpoint {
            sequence: log.chain.sequence(),
            head: log.chain.head().to_owned(),
            at: log.last_at,
            install: Self::INSTALL.to_owned(),
            oldest_open: log.open.oldest(),
            previous: newest.map_or_else(|| ZERO_HASH.to_owned(), Checkpoint::hash),
            key: String::new(),
            signature: String::new(),
        });
        log.checkpoints.push(checkpoint.clone());
        Ok(Some(checkpoint))
    }

    fn queued(&self) -> usize {
        0
    }
}

#[async_trait]
impl Artifacts for MemoryStore {
    async fn put(&self, artifact: NewArtifact) -> Result<ArtifactRef, StoreError> {
        let sha256 = canonical::sha256_hex(&artifact.bytes);
        let size = u64::try_from(artifact.bytes.len()).unwrap_or(u64::MAX);
        let mut all = self.artifacts.lock();
        let used =
            all.values().fold(0, |sum: u64, kept| sum.saturating_add(kept.bytes.len() as u64));
        if !all.contains_key(&sha256) && used.saturating_add(size) > QUOTA {
            return Err(StoreError::Quota { used, quota: QUOTA });
        }
        let info = ArtifactInfo {
            reference: ArtifactRef::new(sha256.clone(), size, artifact.mime_type),
            owner: artifact.owner,
            tool_id: artifact.tool_id,
            created_at: artifact.created_at,
        };
        let kept = all.entry(sha256).or_insert(Kept { bytes: artifact.bytes, owners: Vec::new() });
        kept.owners.retain(|other| other.owner != info.owner);
        kept.owners.push(info.clone());
        Ok(info.reference)
    }

    async fn get(
        &self,
        sha256: &str,
        reader: &Principal,
    ) -> Result<Option<(ArtifactInfo, Vec<u8>)>, StoreError> {
        let all = self.artifacts.lock();
        let Some(kept) = all.get(sha256) else { return Ok(None) };
        let info = kept.owners.iter().find(|info| may_read(reader, info));
        Ok(info.map(|info| (info.clone(), kept.bytes.clone())))
    }

    async fn list(&self, reader: &Principal) -> Result<Vec<ArtifactInfo>, StoreError> {
        let all = self.artifacts.lock();
        let owned =
            all.values().flat_map(|kept| &kept.owners).filter(|info| may_read(reader, info));
        let mut found: Vec<ArtifactInfo> = owned.cloned().collect();
        found.sort_by_key(|info| std::cmp::Reverse(info.created_at));
        Ok(found)
    }

    async fn remove(&self, sha256: &str) -> Result<bool, StoreError> {
        Ok(self.artifacts.lock().remove(sha256).is_some())
    }
}

fn working(broken: &AtomicBool) -> Result<(), StoreError> {
    if broken.load(Ordering::SeqCst) {
        return Err(StoreError::Unavailable { operation: "test", reason: "broken".to_owned() });
    }
    Ok(())
}

fn may_read(reader: &Principal, info: &ArtifactInfo) -> bool {
    info.owner == *reader || *reader == Principal::local()
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
