//! The audit log's form: events, the chain that binds them, signed checkpoints, and the verifier.
//!
//! Every event carries the hash of the one before it; every so often the head is signed; and a keyed
//! record of the head, renewed in each commit, betrays a log that was cut. Signed heads, kept outside
//! the log, betray a log that was set back as a whole. Where events are kept is left to an implementation of [`AuditLog`](crate::store::AuditLog).

mod anchor;
mod chain;
mod checkpoint;
mod event;
mod prune;
pub mod search;
mod verify;

pub use anchor::{Anchor, SignedHead};
pub use chain::{Chain, OpenCalls, Sealed, ZERO_HASH};
pub use checkpoint::{Checkpoint, CheckpointError, HeadRecord, Signer, VerifyKeys};
pub use event::{EventDraft, EventKind, Payload, StoredEvent, ToolAuditEvent};
pub use prune::{CallSpans, PrunePlan, PruneRecord};
pub use verify::{Pins, Report, Verifier};
