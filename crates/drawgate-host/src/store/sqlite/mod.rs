//! The store in a data folder: `drawgate.db` for state, `audit.db` for the audit log, both `SQLite`, and
//! artifacts as files.

mod artifacts;
mod audit;
mod commit;
mod connection;
mod head_copies;
mod key;
mod payload;
mod presence;
mod prune;
mod queue;
mod reader;
mod recover;
mod resume;
mod search;
mod state;
mod wal;

pub use artifacts::FileArtifacts;
pub use audit::{AuditOptions, SqliteAudit};
pub use connection::Durability;
pub(super) use connection::{read_only, unavailable};
pub use reader::{Reader, SqliteReader};
pub use state::SqliteStore;

use std::sync::Arc;

use drawgate_core::store::{Storage, StoreError};

use super::StorageOptions;
use super::lock::DataDir;

/// Opens the store of a folder whose lock the caller holds.
pub(super) fn open(dir: &DataDir, options: &StorageOptions) -> Result<Storage, StoreError> {
    let log = Arc::new(SqliteAudit::open(dir, AuditOptions::of(options))?);
    let store = SqliteStore::watched(dir, options.durability, log.presence())?;
    let store = Arc::new(store);
    let (limits, clock) = (options.artifacts, Arc::clone(&options.clock));
    let artifacts = FileArtifacts::open(dir, options.durability, limits, clock)?;
    Ok(Storage {
        documents: store.clone(),
        store,
        audit: log.clone(),
        log,
        artifacts: Arc::new(artifacts),
    })
}
