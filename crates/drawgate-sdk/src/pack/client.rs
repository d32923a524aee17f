//! Brings a pack to the gateway, and back to it when the connection is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Pack;
use super::connection::{End, Registered};
use crate::gateway::{
    ANSWER_LIMIT, Attempts, Backoff, ConnectionError, Event, Gateway, MAX_MESSAGE, Observer, log_in,
};
use crate::key::Key;
use crate::proto::pack_service_client::PackServiceClient;
use crate::statement::Purpose;

/// How long calls under way may take when the pack stops.
const DEFAULT_DRAIN: Duration = Duration::from_secs(30);

/// Serves a pack's tools to a gateway.
///
/// It dials, logs in and registers the pack, runs what is called, and comes back by itself after a
/// loss. A call is never run twice, and what a call of a lost connection answers is not sent again.
/// If the gateway refuses the key or the manifest, that is an error and no reason to try again.
#[derive(Clone)]
pub struct PackClient {
    gateway: Gateway,
    key: Key,
    backoff: Backoff,
    observer: Observer,
    stop: CancellationToken,
    drain: Duration,
    refusals: Refusals,
}

/// What to do when the gateway refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusals {
    Final,
    Retried,
}

impl PackClient {
    /// A client of this gateway, with this key.
    #[must_use]
    pub fn new(gateway: Gateway, key: Key) -> Self {
        Self {
            gateway,
            key,
            backoff: Backoff::default(),
            observer: Observer::default(),
            stop: CancellationToken::new(),
            drain: DEFAULT_DRAIN,
            refusals: Refusals::Final,
        }
    }

    /// How to come back after a loss.
    #[must_use]
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Is told what becomes of the connection. It must not block.
    #[must_use]
    pub fn observe(mut self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(observer);
        self
    }

    /// Stops when this token is cancelled: calls under way are answered, then [`PackClient::serve`]
    /// ends.
    #[must_use]
    pub fn stop_on(mut self, token: CancellationToken) -> Self {
        self.stop = token;
        self
    }

    /// How long calls under way may take when the pack stops; 30 seconds by default.
    #[must_use]
    pub const fn drain(mut self, limit: Duration) -> Self {
        self.drain = limit;
        self
    }

    /// Tries again even after a refusal, as slowly as the back-off allows: for packs whose key may
    /// be authorised later.
    #[must_use]
    pub const fn retry_refusals(mut self) -> Self {
        self.refusals = Refusals::Retried;
        self
    }

    /// Serves the pack until it is told to stop, which is success, or refused.
    pub async fn serve(&self, pack: Pack) -> Result<(), ConnectionError> {
        let pack = Arc::new(pack);
        let mut attempts = Attempts::new(self.backoff);
        loop {
            let Some(error) = self.serve_once(&pack, &mut attempts).await else { return Ok(()) };
            if error.is_final() && self.refusals == Refusals::Final {
                self.observer.tell(&Event::Refused { error: &error });
                return Err(error);
            }
            let retry_in = attempts.next_delay();
            self.observer.tell(&Event::Lost { error: &error, retry_in: Some(retry_in) });
            tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                () = sleep(retry_in) => {}
            }
        }
    }

    /// One connection from beginning to end; `None` if it ended as the program wanted.
    async fn serve_once(
        &self,
        pack: &Arc<Pack>,
        attempts: &mut Attempts,
    ) -> Option<ConnectionError> {
        let registered = tokio::select! {
            () = self.stop.cancelled() => return None,
            registered = self.register(pack) => match registered {
                Ok(registered) => registered,
                Err(error) => return Some(error),
            },
        };
        let since = Instant::now();
        let end = registered.serve(&self.stop, self.drain).await;
        attempts.lasted(since.elapsed());
        match end {
            End::Stopped => None,
            End::Lost(error) => Some(error),
        }
    }

    async fn register(&self, pack: &Arc<Pack>) -> Result<Registered, ConnectionError> {
        let connection = log_in(&self.gateway, &self.key, Purpose::Pack, pack.id()).await?;
        let mut gateway = PackServiceClient::with_origin(connection.line(), self.gateway.origin())
            .max_decoding_message_size(MAX_MESSAGE);
        let stream = timeout(ANSWER_LIMIT, gateway.connect(pack.manifest()))
            .await
            .map_err(|_| ConnectionError::Timeout {
                authority: self.gateway.authority().to_owned(),
            })??
            .into_inner();
        self.observer.tell(&Event::Connected { server: connection.server() });
        let observer = self.observer.clone();
        Ok(Registered::new(Arc::clone(pack), connection, gateway, stream, observer))
    }
}

impl std::fmt::Debug for PackClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackClient")
            .field("gateway", &self.gateway)
            .field("key", &self.key)
            .field("backoff", &self.backoff)
            .finish_non_exhaustive()
    }
}
