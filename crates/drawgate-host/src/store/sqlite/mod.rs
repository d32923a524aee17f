//! `SQLite`, the default store: `drawgate.db` for state and `audit.db` for the audit log.

mod audit;
mod commit;
mod connection;
mod outside;
mod payload;
mod prune;
mod queue;
mod reader;
mod recover;
mod state;
mod wal;

pub use audit::{AuditOptions, SqliteAudit};
pub use connection::Durability;
pub(super) use connection::{corrupt, integer, open_state, read_only, unavailable};
pub use prune::PrunePlan;
pub use reader::{AuditReader, VerifyOptions, verify_file, verify_folder};
pub use state::SqliteStore;
