//! The program as its users meet it: the real binary, over its real sockets and files.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like the test")]

mod absent;
mod acts;
mod approvals;
mod approvals_protocol;
mod artifacts;
mod audit;
mod auth;
mod authorities;
mod beyond_tools;
mod callers;
mod catalogue;
mod commands;
mod config_faults;
mod config_found;
mod config_reload;
mod crash;
mod endurance;
mod fairness;
mod finding;
mod first_call;
mod leaks;
mod load;
mod oauth;
mod operations;
mod peers;
mod profiles;
mod promises;
mod protocol;
mod questions;
mod readme;
mod refusals;
mod runs;
mod sandbox;
mod secrets;
mod served;
mod sessions;
mod stdio;
mod streams;
mod support;
mod tampering;
mod tasks;
mod tasks_resumed;
mod toolpacks;
mod trust;
