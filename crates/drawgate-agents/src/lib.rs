//! Agents that the gateway runs itself: their [profiles](profile), the [models](model) that they talk
//! to, and their runs.
//!
//! An agent is an ordinary caller of the gate. Nothing here reaches a tool in another way.

#![forbid(unsafe_code)]

pub mod model;
pub mod profile;
#[cfg(feature = "testing")]
pub mod testing;
