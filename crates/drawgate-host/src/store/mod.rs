//! The data folder: grants, agents and approvals, the audit log, artifacts.
//!
//! State and audit are two `SQLite` files, so that neither waits for the other. One process writes, and
//! holds the folder's lock while it does; any number may read beside it.

pub mod artifacts;
pub mod fallback;
mod key;
pub mod lock;
pub mod sqlite;

pub use artifacts::{ArtifactLimits, FileArtifacts};
pub use fallback::{AuditHealth, OnAuditFailure, ResilientAudit};
pub use lock::{DataDir, DataDirError, DataDirLock};
pub use sqlite::{
    AuditOptions, AuditReader, Durability, PrunePlan, SqliteAudit, SqliteStore, VerifyOptions,
    verify_file, verify_folder,
};
