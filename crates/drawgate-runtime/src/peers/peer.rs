//! A peer that has logged in.

use std::net::IpAddr;
use std::sync::Arc;

use drawgate_sdk::statement::Purpose;
use tokio_util::sync::CancellationToken;

use super::{Authorized, End, Ending};

/// A pack or an agent that has proved itself on its connection.
#[derive(Debug)]
pub struct Peer {
    /// What the connection is for.
    pub purpose: Purpose,
    /// The pack's id or the agent's name.
    pub name: String,
    /// What its key stands for.
    pub terms: Arc<Authorized>,
    /// The connection's public name, for audit and grants. It opens nothing.
    pub session: String,
    /// Where it came from.
    pub remote: IpAddr,
    /// Cancelled when the connection must end.
    pub cut: CancellationToken,
    /// How the connection ends.
    pub ending: Arc<Ending>,
}

impl Peer {
    /// Ends the connection. The first reason that is told counts.
    pub fn end(&self, reason: End) {
        self.ending.end(reason);
    }

    /// Why the connection ends or has ended, if somebody said so.
    #[must_use]
    pub fn reason(&self) -> Option<End> {
        self.ending.reason()
    }
}
