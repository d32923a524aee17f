//! The SDK against a gateway that the tests play, and its contract.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test")]

mod agents;
mod contract;
mod fake;
mod packs;
mod tls;
