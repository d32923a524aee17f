//! The gate. Every tool call, from any caller to any kind of tool, is one value that passes through
//! [`Gateway::call`](pipeline::Gateway::call): resolve, validate, authorize, execute, spool, audit.
//!
//! This crate performs no I/O. Time, ids, storage and the tools themselves come in through traits,
//! so that every rule can be tested as a table.

#![forbid(unsafe_code)]

pub mod acts;
pub mod audit;
pub mod canonical;
pub mod clock;
pub mod deadline;
pub mod fair;
mod guard;
pub mod hooks;
pub mod json;
pub mod model;
pub mod pipeline;
pub mod policy;
pub mod redact;
pub mod registry;
pub mod secret;
pub mod source;
pub mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod words_tests;
