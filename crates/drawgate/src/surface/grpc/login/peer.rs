//! The peer behind a request.

use std::net::IpAddr;
use std::sync::Arc;

use drawgate_sdk::statement::Purpose;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status};

use crate::peers::{Authorized, End, Ending, Refusal};

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
    pub(super) ending: Arc<Ending>,
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

/// The peer behind a request: proved on this connection, for this purpose, with its session.
pub fn peer<T>(request: &Request<T>, purpose: Purpose) -> Result<Arc<Peer>, Status> {
    let peer = request.extensions().get::<Arc<Peer>>();
    let peer = peer.ok_or_else(|| Status::unauthenticated(Refusal::NoSession.sentence()))?;
    check_purpose(peer, purpose)?;
    if peer.cut.is_cancelled() {
        return Err(Status::unavailable("this connection has ended; log in again"));
    }
    Ok(Arc::clone(peer))
}

/// A connection is for what it was proved for.
pub(super) fn check_purpose(peer: &Peer, purpose: Purpose) -> Result<(), Status> {
    if peer.purpose == purpose {
        return Ok(());
    }
    Err(Status::permission_denied(format!(
        "this connection was proved for {} `{}`; connect again and log in as {purpose}",
        peer.purpose, peer.name
    )))
}
