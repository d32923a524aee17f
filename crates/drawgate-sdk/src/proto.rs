//! The contract itself: messages and services of `proto/drawgate.proto`, as generated.
//!
//! Everything else in this crate is built on it; programs seldom need it.

#[expect(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated; the documentation is in the .proto"
)]
#[rustfmt::skip]
#[path = "generated/drawgate.v1.rs"]
mod generated;

pub use generated::*;

/// The contract as a `FileDescriptorSet`, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/drawgate.bin");
