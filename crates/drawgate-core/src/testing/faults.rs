//! A store whose operations can be made to fail or to wait.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;

use super::TestClock;
use crate::audit::{Checkpoint, EventDraft, EventKind, SignedHead, StoredEvent};
use crate::model::{ArtifactRef, CapabilityGrant, Principal};
use crate::policy::Approval;
use crate::store::memory::{MemoryOptions, MemoryStore};
use crate::store::{
    Agent, ArtifactInfo, Artifacts, AuditHealth, AuditLog, AuditReader, Documents, NewArtifact,
    Owed, Storage, Store, StoreError, Write,
};

/// What a store is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is named after its method")]
pub enum Operation {
    Agents,
    Grants,
    Approvals,
    Owed,
    Commit,
    Documents,
    Append(EventKind),
    Checkpoint,
    Prune,
    Flush,
    Close,
    PutArtifact,
    GetArtifact,
    ListArtifacts,
    RemoveArtifact,
    ExpireArtifacts,
}

type Waiting = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;
type Hook = Arc<dyn Fn(Operation) -> Waiting + Send + Sync>;

/// Decides what happens before an operation. Clones share their decision.
#[derive(Clone, Default)]
pub struct Faults {
    hook: Arc<Mutex<Option<Hook>>>,
    state_broken: Arc<AtomicBool>,
    log_broken: Arc<AtomicBool>,
}

impl Faults {
    /// Runs this before every operation, which fails if this does.
    pub fn before<F>(&self, hook: impl Fn(Operation) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        *self.hook.lock() = Some(Arc::new(move |operation| Box::pin(hook(operation))));
    }

    /// Makes the operations fail that this says so of, each with its own number, counted from 0.
    pub fn fail_if(&self, fails: impl Fn(usize, Operation) -> bool + Send + Sync + 'static) {
        let asked = Mutex::new(0);
        self.before(move |operation| {
            let mut asked = asked.lock();
            let answer = if fails(*asked, operation) { Err(broken()) } else { Ok(()) };
            *asked += 1;
            std::future::ready(answer)
        });
    }

    /// Lets everything work.
    pub fn heal(&self) {
        *self.hook.lock() = None;
    }

    /// A store with these faults in front of every part of another.
    #[must_use]
    pub fn in_front_of(&self, storage: Storage) -> Storage {
        Storage {
            store: Arc::new(self.with(storage.store)),
            documents: Arc::new(self.with(storage.documents)),
            log: Arc::new(self.with(storage.log)),
            audit: Arc::new(self.with(storage.audit)),
            artifacts: Arc::new(self.with(storage.artifacts)),
        }
    }

    fn with<T: ?Sized>(&self, inner: Arc<T>) -> Faulty<T> {
        Faulty { inner, faults: self.clone() }
    }

    async fn check(&self, operation: Operation) -> Result<(), StoreError> {
        let hook = self.hook.lock().clone();
        if let Some(hook) = hook {
            hook(operation).await?;
        }
        let broken_part = match operation {
            Operation::Append(_) => &self.log_broken,
            Operation::Agents
            | Operation::Grants
            | Operation::Approvals
            | Operation::Owed
            | Operation::Commit
            | Operation::Documents => &self.state_broken,
            Operation::Checkpoint
            | Operation::Prune
            | Operation::Flush
            | Operation::Close
            | Operation::PutArtifact
            | Operation::GetArtifact
            | Operation::ListArtifacts
            | Operation::RemoveArtifact
            | Operation::ExpireArtifacts => return Ok(()),
        };
        if broken_part.load(Ordering::SeqCst) { Err(broken()) } else { Ok(()) }
    }
}

/// A store, or a part of one, that asks [`Faults`] before it does what it is asked.
pub struct Faulty<T: ?Sized> {
    inner: Arc<T>,
    faults: Faults,
}

/// A store in memory that can be broken.
pub type TestStore = Faulty<MemoryStore>;

impl Default for TestStore {
    fn default() -> Self {
        let options = MemoryOptions::new(Arc::new(TestClock::default()));
        let store = MemoryStore::new(options).unwrap_or_else(|error| panic!("{error}"));
        Self::new(Arc::new(store))
    }
}

impl TestStore {
    /// All audit events so far.
    #[must_use]
    pub fn events(&self) -> Vec<StoredEvent> {
        self.inner.events()
    }
}

impl<T: ?Sized> Clone for Faulty<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), faults: self.faults.clone() }
    }
}

impl<T: ?Sized> Faulty<T> {
    /// A store without faults so far.
    pub fn new(inner: Arc<T>) -> Self {
        Faults::default().with(inner)
    }

    /// What decides about failures.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Makes everything but the log and the artifacts fail, or work again.
    pub fn break_state(&self, broken: bool) {
        self.faults.state_broken.store(broken, Ordering::SeqCst);
    }

    /// Makes appending to the log fail, or work again.
    pub fn break_log(&self, broken: bool) {
        self.faults.log_broken.store(broken, Ordering::SeqCst);
    }
}

#[async_trait]
impl<T: Store + ?Sized> Store for Faulty<T> {
    async fn agents(&self) -> Result<Vec<Agent>, StoreError> {
        self.faults.check(Operation::Agents).await?;
        self.inner.agents().await
    }

    async fn grants(&self) -> Result<Vec<CapabilityGrant>, StoreError> {
        self.faults.check(Operation::Grants).await?;
        self.inner.grants().await
    }

    async fn approvals(&self) -> Result<Vec<Approval>, StoreError> {
        self.faults.check(Operation::Approvals).await?;
        self.inner.approvals().await
    }

    async fn owed(&self) -> Result<Vec<Owed>, StoreError> {
        self.faults.check(Operation::Owed).await?;
        self.inner.owed().await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.faults.check(Operation::Commit).await?;
        self.inner.commit(writes).await
    }
}

#[async_trait]
impl<T: Documents + ?Sized> Documents for Faulty<T> {
    async fn documents_under(
        &self,
        kind: &'static str,
        prefix: &str,
    ) -> Result<Vec<(String, Value)>, StoreError> {
        self.faults.check(Operation::Documents).await?;
        self.inner.documents_under(kind, prefix).await
    }

    async fn put_document(
        &self,
        kind: &'static str,
        id: &str,
        body: &Value,
    ) -> Result<(), StoreError> {
        self.faults.check(Operation::Commit).await?;
        self.inner.put_document(kind, id, body).await
    }

    async fn remove_document(&self, kind: &'static str, id: &str) -> Result<(), StoreError> {
        self.faults.check(Operation::Commit).await?;
        self.inner.remove_document(kind, id).await
    }
}

#[async_trait]
impl<T: AuditLog + ?Sized> AuditLog for Faulty<T> {
    async fn append(&self, draft: EventDraft) -> Result<u64, StoreError> {
        self.faults.check(Operation::Append(draft.kind())).await?;
        self.inner.append(draft).await
    }

    fn head(&self) -> u64 {
        self.inner.head()
    }

    fn signed_head(&self) -> SignedHead {
        self.inner.signed_head()
    }

    async fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        self.faults.check(Operation::Checkpoint).await?;
        self.inner.checkpoint().await
    }

    fn queued(&self) -> usize {
        self.inner.queued()
    }

    fn health(&self) -> AuditHealth {
        self.inner.health()
    }

    async fn prune(&self, actor: &Principal, before: u64) -> Result<u64, StoreError> {
        self.faults.check(Operation::Prune).await?;
        self.inner.prune(actor, before).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.faults.check(Operation::Flush).await?;
        self.inner.flush().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.faults.check(Operation::Close).await?;
        self.inner.close().await
    }

    fn reader(&self) -> Arc<dyn AuditReader> {
        self.inner.reader()
    }
}

#[async_trait]
impl<T: Artifacts + ?Sized> Artifacts for Faulty<T> {
    async fn put(&self, artifact: NewArtifact) -> Result<ArtifactRef, StoreError> {
        self.faults.check(Operation::PutArtifact).await?;
        self.inner.put(artifact).await
    }

    async fn get(
        &self,
        sha256: &str,
        reader: &Principal,
    ) -> Result<Option<(ArtifactInfo, Vec<u8>)>, StoreError> {
        self.faults.check(Operation::GetArtifact).await?;
        self.inner.get(sha256, reader).await
    }

    async fn list(&self, reader: &Principal) -> Result<Vec<ArtifactInfo>, StoreError> {
        self.faults.check(Operation::ListArtifacts).await?;
        self.inner.list(reader).await
    }

    async fn remove(&self, sha256: &str) -> Result<bool, StoreError> {
        self.faults.check(Operation::RemoveArtifact).await?;
        self.inner.remove(sha256).await
    }

    async fn expire(&self, now_ms: u64) -> Result<usize, StoreError> {
        self.faults.check(Operation::ExpireArtifacts).await?;
        self.inner.expire(now_ms).await
    }
}

/// The failure of a broken store.
#[must_use]
pub fn broken() -> StoreError {
    StoreError::Unavailable { operation: "test", reason: "broken".to_owned() }
}
