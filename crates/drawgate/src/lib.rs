//! The program: surfaces, command line and assembly.

pub mod assemble;
pub mod cli;
pub mod config;
pub mod operations;
pub mod server;
pub mod surface;
pub mod telemetry;
pub mod time;
