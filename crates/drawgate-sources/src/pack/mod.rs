//! Packs: programs that dial in and offer tools over gRPC.
//!
//! A pack registers itself, so there is nothing to configure here. The surface proves who it is and
//! owns the connection; this folder reads its manifest, carries calls over its [`PackConnection`] and
//! turns its answers into results.

mod answer;
mod connection;
mod ending;
mod manifest;
mod outgoing;
mod pending;
mod source;

pub use connection::PackConnection;
pub use ending::{Dropped, Ending};
pub use manifest::{Features, MAX_CALLS, PackTerms, ReadManifest, read_manifest};
pub use outgoing::Outgoing;
pub use source::PackSource;

use crate::kind::SourceKind;

/// Kind `pack`.
pub const KIND: SourceKind = SourceKind::new("pack");
