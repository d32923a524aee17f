//! Agents at work, against a server that speaks the APIs of model providers.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed test may panic")]

mod authority;
mod bad_input;
mod budget;
mod delegation_table;
mod endings;
mod library;
mod limits;
mod plugin_processes;
mod plugins;
mod providers;
mod restart;
mod reviewer;
mod support;
mod tasks;
mod tasks_restart;
mod tools;
mod turns;
