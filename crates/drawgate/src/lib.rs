//! The program around a gateway: surfaces, sockets, command line, telemetry.

#![forbid(unsafe_code)]

pub mod cli;
pub mod server;
pub mod surface;
pub mod telemetry;
