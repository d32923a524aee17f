//! One HTTP/2 connection: what its peer has tried, and who it turned out to be.

use std::sync::Arc;
use std::time::Duration;

use drawgate_sdk::proto::{ChallengeResponse, ProveRequest};
use drawgate_sdk::statement::{Purpose, SERVER_NAMESPACE, SESSION_METADATA, server_statement};
use http::{HeaderMap, Request};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::Peer;
use super::peer::check_purpose;
use crate::peers::{Attempt, Authorized, Door, End, Ending, NONCE_SECONDS, Refusal, Refused};
use crate::surface::grpc::Ends;
use crate::surface::guard::Guard;

/// How long a connection may take to prove itself.
const LOGIN_TIME: Duration = Duration::from_secs(20);
/// How long a peer that has logged in may take to say what for.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// Challenges for one connection.
const MAX_CHALLENGES: usize = 4;
/// Proofs on one connection that don't count.
const MAX_FAILURES: usize = 3;
/// Requests on a connection that has not proved itself.
const MAX_REQUESTS: usize = 64;
/// Longest nonce of a client.
const MAX_CLIENT_NONCE: usize = 256;
/// What everybody may ask: to log in, whether the gateway is well, and which services it has.
const OPEN: [&str; 3] = [
    "/drawgate.v1.LoginService/",
    "/grpc.health.v1.Health/",
    "/grpc.reflection.v1.ServerReflection/",
];
/// What is for one kind of peer alone, and the request by which it begins.
const SERVED: [(&str, &str, Purpose); 2] = [
    ("/drawgate.v1.PackService/", "Connect", Purpose::Pack),
    ("/drawgate.v1.FoldService/", "Converse", Purpose::Agent),
];

/// The host and port that a request was addressed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority(pub Arc<str>);

/// One HTTP/2 connection.
pub struct Connection {
    door: Arc<Door>,
    number: u64,
    ends: Ends,
    ending: Arc<Ending>,
    /// When it must have logged in.
    until: Instant,
    proved: CancellationToken,
    used: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    requests: usize,
    challenges: usize,
    failures: usize,
    /// Challenges that were not answered yet.
    open: Vec<String>,
    peer: Option<Known>,
    is_over: bool,
}

/// Who is at the other end.
struct Known {
    /// The session's hash, which takes the same time to compare whatever was sent.
    session: [u8; 32],
    peer: Arc<Peer>,
}

impl Connection {
    /// A connection between these two addresses.
    #[must_use]
    pub fn new(door: &Arc<Door>, ends: Ends) -> Arc<Self> {
        let ending = Arc::new(Ending::default());
        let connection = Arc::new(Self {
            number: door.enter(&ending, ends.remote),
            door: Arc::clone(door),
            ends,
            ending,
            until: Instant::now() + LOGIN_TIME,
            proved: CancellationToken::new(),
            used: CancellationToken::new(),
            state: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&connection).watch());
        connection
    }

    /// Cuts it if it does not get on.
    async fn watch(self: Arc<Self>) {
        let over = self.ending.token();
        tokio::select! {
            () = self.proved.cancelled() => {}
            () = over.cancelled() => return,
            () = tokio::time::sleep_until(self.until) => {
                self.ending.cut();
                return self.note(&Refusal::Timeout.into()).await;
            }
        }
        tokio::select! {
            () = self.used.cancelled() => {}
            () = over.cancelled() => {}
            () = tokio::time::sleep(IDLE_TIME) => self.ending.end(End::Idle),
        }
    }

    /// Cancelled when the connection must end: not proved in time, its key withdrawn, ended by an
    /// operator, too many attempts.
    #[must_use]
    pub fn cut(&self) -> &CancellationToken {
        self.ending.token()
    }

    /// Who proved itself here.
    #[must_use]
    pub fn peer(&self) -> Option<Arc<Peer>> {
        self.state.lock().peer.as_ref().map(|known| Arc::clone(&known.peer))
    }

    /// To be called when the connection is over; `otherwise` is why, if nobody has said so before.
    pub async fn ended(&self, otherwise: End) {
        self.proved.cancel();
        self.ending.cut();
        self.door.leave(self.number);
        let peer = {
            let mut state = self.state.lock();
            let was_over = std::mem::replace(&mut state.is_over, true);
            state.peer.take().filter(|_| !was_over)
        };
        if let Some(Known { peer, .. }) = peer {
            let end = self.ending.reason().unwrap_or(otherwise);
            self.door.note_departure(&peer.terms, &peer.session, end).await;
        }
    }

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
        let authority = guard.authority(request.uri(), request.headers(), self.ends.local);
        let authority = Authority(authority.map_err(Status::permission_denied)?.into());
        let path = request.uri().path();
        let peer = self.recognise(request.headers());
        match &peer {
            Some(peer) => self.direct(peer, path)?,
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
    fn direct(&self, peer: &Peer, path: &str) -> Result<(), Status> {
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

    /// Gives out a challenge and, if the client asks for it, the gateway's own proof.
    pub(super) async fn challenge(
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
        let nonce = self.door.challenge(self.number);
        let is_too_much = {
            let mut state = self.state.lock();
            state.challenges += 1;
            state.open.push(nonce.clone());
            state.challenges > MAX_CHALLENGES
        };
        if is_too_much {
            return Err(self.give_up(Refusal::TooMany.into()).await);
        }
        let identity = self.door.identity().map_err(|error| {
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
    pub(super) async fn prove(
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

    fn judge(
        &self,
        authority: &Authority,
        proof: &ProveRequest,
    ) -> Result<Arc<Authorized>, Refused> {
        let attempt = Attempt {
            connection: self.number,
            authority: &authority.0,
            statement: &proof.statement,
            signature: &proof.signature,
        };
        let mut state = self.state.lock();
        let terms = self.door.prove(&attempt, &mut state.open)?;
        if state.peer.is_some() || state.is_over {
            return Err(refused(Refusal::TooMany, &terms));
        }
        Ok(terms)
    }

    async fn open(&self, terms: &Arc<Authorized>) -> Result<String, Status> {
        if let Err(refusal) = self.door.join(self.number, terms, &self.ending) {
            return Err(self.fail(refused(refusal, terms)).await);
        }
        let peer = Arc::new(Peer {
            purpose: terms.purpose,
            name: terms.name.clone(),
            terms: Arc::clone(terms),
            session: format!("grpc-{}", self.door.unique()),
            cut: self.ending.token().clone(),
            ending: Arc::clone(&self.ending),
        });
        if let Err(error) = self.door.note_arrival(terms, &peer.session, self.ends.remote).await {
            tracing::error!(error = %error, "a peer can't be written down and is refused");
            self.ending.cut();
            return Err(Status::unavailable("the audit log can't be written; try again later"));
        }
        let session = self.door.secret();
        let known = Known { session: hash(session.as_bytes()), peer };
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
            self.door.leave(self.number);
            self.door.note_departure(terms, &late.peer.session, End::Lost).await;
            self.ending.cut();
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

    async fn give_up(&self, refused: Refused) -> Status {
        self.note(&refused).await;
        self.ending.cut();
        status(refused.refusal)
    }

    async fn note(&self, refused: &Refused) {
        self.door.note_refusal(refused, self.ends.remote).await;
    }

    /// The peer, if the request has its session.
    fn recognise(&self, headers: &HeaderMap) -> Option<Arc<Peer>> {
        let mut sent = headers.get_all(SESSION_METADATA).iter();
        let (Some(session), None) = (sent.next(), sent.next()) else { return None };
        let session = hash(session.as_bytes());
        let state = self.state.lock();
        let known = state.peer.as_ref().filter(|known| known.session == session)?;
        Some(Arc::clone(&known.peer))
    }
}

fn status(refusal: Refusal) -> Status {
    match refusal {
        Refusal::Crowded => Status::resource_exhausted(refusal.sentence()),
        _ => Status::unauthenticated(refusal.sentence()),
    }
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn refused(refusal: Refusal, terms: &Authorized) -> Refused {
    Refused {
        refusal,
        purpose: Some(terms.purpose),
        name: Some(terms.name.clone()),
        fingerprint: Some(terms.fingerprint.clone()),
    }
}
