//! The login itself: challenges are given out, and proofs judged.

use std::sync::Arc;

use drawgate_sdk::proto::{ChallengeResponse, ProveRequest};
use drawgate_sdk::statement::{SERVER_NAMESPACE, server_statement};
use tokio::time::Instant;
use tonic::Status;

use super::{Authority, Connection, LoggedInPeer, hash, status};
use drawgate_runtime::peers::Peer;
use drawgate_runtime::peers::{
    DisconnectReason, KeyTerms, LoginAttempt, NONCE_SECONDS, Refusal, Refused,
};

/// Challenges for one connection.
const MAX_CHALLENGES: usize = 4;
/// Proofs on one connection that don't count.
const MAX_FAILURES: usize = 3;
/// Longest nonce of a client.
const MAX_CLIENT_NONCE: usize = 256;

impl Connection {
    /// Gives out a challenge and, if the client asks for it, the gateway's own proof.
    pub(in super::super) async fn challenge(
        &self,
        authority: &Authority,
        client_nonce: &str,
    ) -> Result<ChallengeResponse, Status> {
        if client_nonce.len() > MAX_CLIENT_NONCE
            || !client_nonce.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(Status::invalid_argument(
                "`client_nonce` must be at most 256 visible ASCII characters",
            ));
        }
        let nonce = self.authenticator.challenge(self.number);
        let is_too_much = {
            let mut state = self.state.lock();
            state.challenges += 1;
            state.open.push(nonce.clone());
            state.challenges > MAX_CHALLENGES
        };
        if is_too_much {
            return Err(self.give_up(Refusal::TooMany.into()).await);
        }
        let identity = self.authenticator.identity().map_err(|error| {
            tracing::error!(error = format!("{error:#}"), "the gateway has no identity");
            Status::unavailable("the gateway has no identity; its operator finds why in its log")
        })?;
        let server_signature = if client_nonce.is_empty() {
            String::new()
        } else {
            let statement = server_statement(&authority.0, &nonce, client_nonce);
            let signed = identity.sign(SERVER_NAMESPACE, &statement);
            signed.map_err(|_| Status::internal("the gateway can't sign"))?
        };
        Ok(ChallengeResponse {
            nonce,
            server: identity.name().to_owned(),
            expires_in_seconds: self.time_left(),
            server_signature,
        })
    }

    /// Judges a proof and, if it counts, opens the connection. Returns the session.
    pub(in super::super) async fn prove(
        self: &Arc<Self>,
        authority: &Authority,
        proof: &ProveRequest,
    ) -> Result<String, Status> {
        let terms = match self.judge(authority, proof) {
            Ok(terms) => terms,
            Err(refused) => return Err(self.fail(refused).await),
        };
        // In a task of its own: who takes the request back in the middle must not stay half inside.
        let connection = Arc::clone(self);
        let opened = tokio::spawn(async move { connection.open(&terms).await });
        opened.await.unwrap_or_else(|_| Err(Status::internal("the login broke off")))
    }

    /// Seconds that a challenge counts: no longer than the connection waits for its login.
    fn time_left(&self) -> u32 {
        let left = self.until.saturating_duration_since(Instant::now()).as_secs();
        u32::try_from(left).unwrap_or(NONCE_SECONDS).clamp(1, NONCE_SECONDS)
    }

    fn judge(&self, authority: &Authority, proof: &ProveRequest) -> Result<Arc<KeyTerms>, Refused> {
        let attempt = LoginAttempt {
            connection: self.number,
            authority: &authority.0,
            statement: &proof.statement,
            signature: &proof.signature,
        };
        let mut state = self.state.lock();
        let terms = self.authenticator.prove(&attempt, &mut state.open)?;
        if state.peer.is_some() || state.is_over {
            return Err(refused(Refusal::TooMany, &terms));
        }
        Ok(terms)
    }

    async fn open(&self, terms: &Arc<KeyTerms>) -> Result<String, Status> {
        if let Err(refusal) = self.authenticator.log_in(self.number, terms, &self.disconnection) {
            return Err(self.fail(refused(refusal, terms)).await);
        }
        let peer = Arc::new(Peer {
            purpose: terms.purpose,
            name: terms.name.clone(),
            terms: Arc::clone(terms),
            session: format!("grpc-{}", self.authenticator.unique()),
            remote: self.addresses.remote,
            cut: self.disconnection.token().clone(),
            disconnection: Arc::clone(&self.disconnection),
        });
        if let Err(error) =
            self.authenticator.record_login(terms, &peer.session, self.addresses.remote).await
        {
            tracing::error!(error = %error, "a peer can't be written down and is refused");
            self.disconnection.cut();
            return Err(Status::unavailable("the audit log can't be written; try again later"));
        }
        let session = self.authenticator.secret();
        let known = LoggedInPeer { session: hash(session.as_bytes()), peer };
        let late = {
            let mut state = self.state.lock();
            if state.is_over || state.peer.is_some() {
                Some(known)
            } else {
                state.peer.replace(known)
            }
        };
        if let Some(late) = late {
            // Gone while it was written down, or proved twice at once.
            self.authenticator.disconnect(self.number);
            self.authenticator.record_disconnect(&late.peer, DisconnectReason::Lost).await;
            self.disconnection.cut();
            return Err(Status::aborted("this connection has ended; connect again"));
        }
        self.proved.cancel();
        Ok(session)
    }

    /// Notes a proof that does not count. After a few of them the connection is cut.
    async fn fail(&self, refused: Refused) -> Status {
        let is_too_much = {
            let mut state = self.state.lock();
            state.failures += 1;
            state.failures >= MAX_FAILURES
        };
        if is_too_much {
            return self.give_up(refused).await;
        }
        self.note(&refused).await;
        status(refused.refusal)
    }
}

fn refused(refusal: Refusal, terms: &KeyTerms) -> Refused {
    Refused {
        refusal,
        purpose: Some(terms.purpose),
        name: Some(terms.name.clone()),
        fingerprint: Some(terms.fingerprint.clone()),
    }
}
