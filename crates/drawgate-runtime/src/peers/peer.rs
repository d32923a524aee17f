//! A peer that has logged in.

use std::net::IpAddr;
use std::sync::Arc;

use drawgate_sdk::statement::Purpose;
use tokio_util::sync::CancellationToken;

use super::{DisconnectReason, Disconnection, KeyTerms};

/// A pack or an agent that has logged in on its connection.
#[derive(Debug)]
pub struct Peer {
    /// What the connection is for.
    pub purpose: Purpose,
    /// The pack's id or the agent's name.
    pub name: String,
    /// The terms of its key.
    pub terms: Arc<KeyTerms>,
    /// The connection's public name, for audit and grants. It opens nothing.
    pub session: String,
    /// Where it came from.
    pub remote: IpAddr,
    /// Cancelled when the connection must end.
    pub cut: CancellationToken,
    /// How the connection ends.
    pub disconnection: Arc<Disconnection>,
}

impl Peer {
    /// Ends the connection. The first reason that is given counts.
    pub fn end(&self, reason: DisconnectReason) {
        self.disconnection.end(reason);
    }

    /// Why the connection ends or has ended, if a reason was given.
    #[must_use]
    pub fn reason(&self) -> Option<DisconnectReason> {
        self.disconnection.reason()
    }
}
