//! Agents at work, against a server that speaks the APIs of model providers.

mod authority;
mod budget;
mod endings;
mod limits;
mod providers;
mod restart;
mod support;
