//! What a client tells its program about the connection.

use std::sync::Arc;
use std::time::Duration;

use super::ConnectionError;

/// News of the connection to the gateway.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Logged in and registered.
    Connected {
        /// The gateway's identity, `SHA256:…`.
        server: &'a str,
    },
    /// The gateway is about to stop; the connection will end.
    Stopping,
    /// The connection was lost, or none could be made.
    Lost {
        /// Why.
        error: &'a ConnectionError,
        /// How long until the next attempt; `None` if there is none.
        retry_in: Option<Duration>,
    },
    /// The gateway will not have this key, manifest or name, so no further attempt is made.
    Refused {
        /// Why.
        error: &'a ConnectionError,
    },
}

type Listener = dyn Fn(&Event<'_>) + Send + Sync;

/// Who is told.
#[derive(Clone, Default)]
pub(crate) struct Observer(Option<Arc<Listener>>);

impl Observer {
    pub(crate) fn new(observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(observer)))
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        match event {
            Event::Connected { server } => tracing::debug!(%server, "connected to the gateway"),
            Event::Stopping => tracing::debug!("the gateway is stopping"),
            Event::Lost { error, retry_in } => tracing::debug!(%error, ?retry_in, "no connection"),
            Event::Refused { error } => tracing::debug!(%error, "refused by the gateway"),
        }
        if let Some(observer) = &self.0 {
            observer(event);
        }
    }
}
