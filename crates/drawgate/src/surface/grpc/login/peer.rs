//! The peer behind a request.

use std::sync::Arc;

use drawgate_runtime::peers::{Peer, Refusal};
use drawgate_sdk::statement::Purpose;
use tonic::{Request, Status};

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
