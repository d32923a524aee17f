//! The native half of the npm package `@drawgate/gateway`: a gateway inside a Node.js process.
//!
//! JavaScript sees one private class whose methods take and return JSON text; `npm/index.cjs` makes the
//! public class of it. What goes on without JavaScript runs on threads of its own, and reaches the event
//! loop through the [`mailbox`].

#![allow(unsafe_code, reason = "the code that `napi` generates calls Node's C functions")]

mod caller;
mod calls;
pub mod class;
mod events;
mod fault;
mod gateway;
mod grant;
mod invocation;
mod mailbox;
mod methods;
mod options;
mod registered;
mod source;
mod threads;
