//! JSON-RPC with a program that speaks line by line, or over another transport of whole messages.
//!
//! A [`Link`] has one task that writes and one that reads; callers wait for their answers. What the messages
//! say is the business of its [`Receiver`]: MCP servers and plugins are two.

mod lines;
mod link;
mod messages;
mod pending;
mod pipes;
mod unreadable;
mod wire;

pub use lines::{Line, read_line, read_line_or_stop};
pub use link::{Delivery, Ending, Link, Outcome, Receiver, Reply, Waiting};
pub use messages::{MessageReader, MessageWriter, Received, SendOutcome};
pub use pipes::Lines;
pub use unreadable::{Messages, Unreadable, Whose, read};
pub use wire::{Envelope, Message, Request, cancelled, failure, sort};
