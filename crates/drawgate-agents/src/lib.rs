//! Agents that the gateway runs itself: their [profiles](profile), the [models](model) that they talk
//! to, their [runs], and the [tools](source) that only they have.
//!
//! An agent is an ordinary caller of the gate. Nothing here reaches a tool in another way.

#![forbid(unsafe_code)]

pub mod model;
pub mod plugin;
pub mod plugins;
pub mod profile;
pub mod runs;
pub mod source;
pub mod tasks;
#[cfg(feature = "testing")]
pub mod testing;
