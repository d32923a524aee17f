//! One HTTP/2 connection: what its peer has tried, and who it turned out to be.

mod admit;
mod prove;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::surface::grpc::ConnectionAddresses;
use drawgate_runtime::peers::Peer;
use drawgate_runtime::peers::{
    DisconnectReason, Disconnection, PeerAuthenticator, Refusal, Refused,
};

/// How long a connection may take to prove itself.
const LOGIN_TIME: Duration = Duration::from_secs(20);
/// How long a peer that has logged in may take to say what for.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// The host and port that a request was addressed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority(pub Arc<str>);

/// One HTTP/2 connection.
pub struct Connection {
    authenticator: Arc<PeerAuthenticator>,
    number: u64,
    addresses: ConnectionAddresses,
    disconnection: Arc<Disconnection>,
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
    peer: Option<LoggedInPeer>,
    is_over: bool,
}

/// Who is at the other end.
struct LoggedInPeer {
    /// The session's hash, which takes the same time to compare whatever was sent.
    session: [u8; 32],
    peer: Arc<Peer>,
}

impl Connection {
    /// A connection between these two addresses.
    #[must_use]
    pub fn new(
        authenticator: &Arc<PeerAuthenticator>,
        addresses: ConnectionAddresses,
    ) -> Arc<Self> {
        let disconnection = Arc::new(Disconnection::default());
        let connection = Arc::new(Self {
            number: authenticator.connect(&disconnection, addresses.remote),
            authenticator: Arc::clone(authenticator),
            addresses,
            disconnection,
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
        let over = self.disconnection.token();
        tokio::select! {
            // The end of a connection stands for both.
            biased;
            () = over.cancelled() => {
                if self.disconnection.was_evicted() {
                    self.note(&Refusal::NoRoom.into()).await;
                }
                return;
            }
            () = self.proved.cancelled() => {}
            () = tokio::time::sleep_until(self.until) => {
                self.disconnection.cut();
                return self.note(&Refusal::Timeout.into()).await;
            }
        }
        tokio::select! {
            () = self.used.cancelled() => {}
            () = over.cancelled() => {}
            () = tokio::time::sleep(IDLE_TIME) => self.disconnection.end(DisconnectReason::Idle),
        }
    }

    /// Cancelled when the connection must end: not proved in time, its key withdrawn, ended by an
    /// operator, too many attempts.
    #[must_use]
    pub fn cut(&self) -> &CancellationToken {
        self.disconnection.token()
    }

    /// Who proved itself here.
    #[must_use]
    pub fn peer(&self) -> Option<Arc<Peer>> {
        self.state.lock().peer.as_ref().map(|known| Arc::clone(&known.peer))
    }

    /// To be called when the connection is over; `otherwise` is why, if nobody has said so before.
    pub async fn ended(&self, otherwise: DisconnectReason) {
        self.proved.cancel();
        self.disconnection.cut();
        self.authenticator.disconnect(self.number);
        let peer = {
            let mut state = self.state.lock();
            let was_over = std::mem::replace(&mut state.is_over, true);
            state.peer.take().filter(|_| !was_over)
        };
        if let Some(LoggedInPeer { peer, .. }) = peer {
            let end = self.disconnection.reason().unwrap_or(otherwise);
            self.authenticator.record_disconnect(&peer, end).await;
        }
    }

    async fn give_up(&self, refused: Refused) -> Status {
        self.note(&refused).await;
        self.disconnection.cut();
        status(refused.refusal)
    }

    async fn note(&self, refused: &Refused) {
        self.authenticator.record_refusal(refused, self.addresses.remote).await;
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
