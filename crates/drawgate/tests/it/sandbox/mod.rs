//! The sandbox, attacked and used: the real binary in a lab that notices every escape.
//!
//! Each attempt runs as root and as an ordinary user; tests that are themselves run by an ordinary
//! user do that half, and say so.

mod attempt;
mod caller;
mod controls;
mod escapes;
mod files;
mod fork_server;
mod granted;
mod groups;
mod inside;
mod lab;
mod life;
mod network;
mod outcome;
mod planted;
mod reach;
mod shared;
mod table;
mod terminal;
