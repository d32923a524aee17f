//! The program: surfaces, command line and assembly.

#![forbid(unsafe_code)]

pub mod assemble;
pub mod cli;
pub mod config;
pub mod operations;
pub mod peers;
pub mod server;
pub mod surface;
pub mod telemetry;
pub mod time;
pub mod toolpacks;
