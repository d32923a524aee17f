//! The program as its users meet it: the real binary, over its real sockets and files.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test")]

mod approvals;
mod artifacts;
mod audit;
mod callers;
mod commands;
mod config_reload;
mod crash;
mod first_call;
mod leaks;
mod load;
mod operations;
mod protocol;
mod secrets;
mod sessions;
mod stdio;
mod streams;
mod support;
