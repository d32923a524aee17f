//! Where a gateway keeps what must outlive it: grants, agents and approvals, the audit log, artifacts.
//!
//! [`open`] opens the store that a [`StorageChoice`] names and hands out the traits of
//! [`drawgate_core::store`]; what is behind them is known in this folder alone. In a data folder, state
//! and audit are two `SQLite` files, so that neither waits for the other. One process writes, and holds
//! the folder's lock while it does; any number may read beside it.
//!
//! A further store has a module of its own here, beside `sqlite`, a variant of [`StorageChoice`] and an
//! arm in [`open`] and [`open_reader`]. It owes what the traits say, and passes
//! `drawgate_core::testing::store_suite`. The forms of events, checkpoints, heads and prune records, and
//! the rules about them, are in [`drawgate_core::audit`]; the store keeps them.

pub mod backup;
mod export;
pub mod fallback;
pub mod lock;
pub mod sqlite;

pub use export::verify_file;
pub use fallback::OnAuditFailure;
pub use lock::{DataDir, DataDirError, DataDirLock};
pub use sqlite::Durability;

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::clock::Clock;
use drawgate_core::store::memory::{MemoryOptions, MemoryStore};
use drawgate_core::store::{ArtifactLimits, AuditReader, Storage, StoreError};

use fallback::ResilientAudit;
use sqlite::SqliteReader;

/// Which store a gateway has.
#[derive(Debug, Clone)]
pub enum StorageChoice {
    /// In memory: it ends with the process.
    Memory,
    /// In a data folder, whose lock the opener holds.
    Folder(DataDir),
}

/// How a store is kept.
#[derive(Clone)]
pub struct StorageOptions {
    /// What a finished write survives.
    pub durability: Durability,
    /// So many events after a checkpoint the log signs the next one.
    pub checkpoint_every: u64,
    /// How long the signed head that is kept outside the log may lag behind it.
    pub head_pause: Duration,
    /// Bytes of large arguments that are kept beside their events.
    pub payload_quota: u64,
    /// What an event meets when the log can't be written.
    pub on_audit_failure: OnAuditFailure,
    /// How much and how long artifacts are kept.
    pub artifacts: ArtifactLimits,
    /// The program's version, for the log.
    pub version: String,
    /// The time of the log's own events.
    pub clock: Arc<dyn Clock>,
}

/// Opens a store for its one writer.
pub fn open(choice: &StorageChoice, options: &StorageOptions) -> Result<Storage, StoreError> {
    let mut storage = match choice {
        StorageChoice::Memory => in_memory(options)?,
        StorageChoice::Folder(dir) => sqlite::open(dir, options)?,
    };
    let (log, clock) = (Arc::clone(&storage.log), Arc::clone(&options.clock));
    storage.audit = Arc::new(ResilientAudit::new(log, options.on_audit_failure, clock));
    Ok(storage)
}

/// Opens the audit log of a store for reading; a gateway may be writing it.
pub fn open_reader(choice: &StorageChoice) -> Result<Arc<dyn AuditReader>, StoreError> {
    match choice {
        StorageChoice::Memory => Err(StoreError::Unavailable {
            operation: "read the audit log",
            reason: "it is in the memory of another process".to_owned(),
        }),
        StorageChoice::Folder(dir) => Ok(Arc::new(SqliteReader::new(dir.clone()))),
    }
}

fn in_memory(options: &StorageOptions) -> Result<Storage, StoreError> {
    let clock = Arc::clone(&options.clock);
    let bounds = MemoryOptions::new(clock);
    let store = MemoryStore::new(MemoryOptions {
        payload_quota: options.payload_quota.min(bounds.payload_quota),
        checkpoint_every: options.checkpoint_every,
        artifacts: ArtifactLimits {
            quota: options.artifacts.quota.min(bounds.artifacts.quota),
            ..options.artifacts
        },
        ..bounds
    })?;
    Ok(store.storage())
}
