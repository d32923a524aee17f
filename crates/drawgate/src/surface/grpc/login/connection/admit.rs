//! Which requests of a connection go on: by who sent them, and where they want to go.

use std::sync::Arc;

use drawgate_sdk::statement::{Purpose, SESSION_METADATA};
use http::{HeaderMap, Request};
use tonic::Status;

use super::super::peer::check_purpose;
use super::{Authority, Connection, hash, status};
use crate::surface::guard::Guard;
use drawgate_runtime::peers::Peer;
use drawgate_runtime::peers::Refusal;

/// Requests on a connection that has not proved itself.
const MAX_REQUESTS: usize = 64;
/// What everybody may ask: to log in, whether the gateway is well, and which services it has.
const OPEN: [&str; 4] = [
    "/drawgate.v1.LoginService/",
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1.ServerReflection/",
    "/grpc.reflection.v1alpha.ServerReflection/",
];
/// What is for one kind of peer alone, and the request by which it begins.
const SERVED: [(&str, &str, Purpose); 2] = [
    ("/drawgate.v1.PackService/", "Connect", Purpose::Pack),
    ("/drawgate.v1.FoldService/", "Converse", Purpose::Agent),
];

impl Connection {
    /// Counts a request, whatever it is: who has not logged in gets a few.
    pub async fn count(&self) -> Result<(), Status> {
        let is_too_much = {
            let mut state = self.state.lock();
            state.requests = state.requests.saturating_add(1);
            state.peer.is_none() && state.requests > MAX_REQUESTS
        };
        if is_too_much {
            return Err(self.give_up(Refusal::TooMany.into()).await);
        }
        Ok(())
    }

    /// Looks at a request before anything of its body is read, and attaches who it is from. Without
    /// a proof and its session only [`OPEN`] is reached, and with it only what it was proved for.
    pub async fn admit<B>(
        self: &Arc<Self>,
        guard: &Guard,
        request: &mut Request<B>,
    ) -> Result<(), Status> {
        let authority = guard.authority(request.uri(), request.headers(), self.addresses.local);
        let authority = Authority(authority.map_err(Status::permission_denied)?.into());
        let path = request.uri().path();
        let peer = self.find_peer(request.headers());
        match &peer {
            Some(peer) => self.check_route(peer, path)?,
            None if OPEN.iter().any(|prefix| path.starts_with(prefix)) => {}
            None => {
                self.note(&Refusal::NoSession.into()).await;
                return Err(status(Refusal::NoSession));
            }
        }
        let extensions = request.extensions_mut();
        extensions.insert(Arc::clone(self));
        extensions.insert(authority);
        if let Some(peer) = peer {
            extensions.insert(peer);
        }
        Ok(())
    }

    /// Whether a peer may go where it wants to, and whether it begins its work there.
    fn check_route(&self, peer: &Peer, path: &str) -> Result<(), Status> {
        for (service, beginning, purpose) in SERVED {
            if let Some(method) = path.strip_prefix(service) {
                check_purpose(peer, purpose)?;
                if method == beginning {
                    self.used.cancel();
                }
            }
        }
        Ok(())
    }

    /// The peer, if the request has its session.
    fn find_peer(&self, headers: &HeaderMap) -> Option<Arc<Peer>> {
        let mut sent = headers.get_all(SESSION_METADATA).iter();
        let (Some(session), None) = (sent.next(), sent.next()) else { return None };
        let session = hash(session.as_bytes());
        let state = self.state.lock();
        let known = state.peer.as_ref().filter(|known| known.session == session)?;
        Some(Arc::clone(&known.peer))
    }
}
