//! Packs: programs that dial in and offer tools over gRPC.
//!
//! A pack registers itself, so there is nothing to configure here. The surface proves who it is and
//! owns the connection; this folder reads its manifest, carries calls over its [`Line`] and
//! turns its answers into results.

mod answer;
mod line;
mod manifest;
mod pending;
mod source;

pub use line::{Dropped, Ending, Line, Outgoing};
pub use manifest::{Features, MAX_CALLS, PackTerms, ReadManifest, read_manifest};
pub use source::PackSource;

/// The row in the table of kinds.
pub struct Kind;

impl crate::SourceKind for Kind {
    fn name(&self) -> &'static str {
        "pack"
    }
}
