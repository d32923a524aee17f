//! The audit log's form: events, the chain that binds them, signed checkpoints, and the verifier.
//!
//! Every event carries the hash of the one before it; every so often the head is signed; and a keyed
//! record of the head, renewed in each commit, betrays a log that was cut. Where events are kept is
//! left to an implementation of [`AuditLog`](crate::store::AuditLog).

mod chain;
mod checkpoint;
mod event;
mod prune;
mod verify;

pub use chain::{Chain, OpenCalls, Sealed, ZERO_HASH};
pub use checkpoint::{Checkpoint, CheckpointError, HeadRecord, Signer, VerifyKeys};
pub use event::{EventDraft, EventKind, StoredEvent, ToolAuditEvent};
pub use prune::PruneRecord;
pub use verify::{Anchor, Pins, Report, Verifier};
