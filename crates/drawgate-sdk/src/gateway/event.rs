//! What a client tells its program about the connection.

use std::fmt;
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

/// One line for a log.
impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { server } => write!(f, "connected to gateway {server}"),
            Self::Stopping => write!(f, "the gateway is about to stop"),
            Self::Lost { error, retry_in: Some(pause) } => {
                write!(f, "{}; next attempt in {:.1} s", told(error), pause.as_secs_f32())
            }
            Self::Lost { error, retry_in: None } | Self::Refused { error } => {
                write!(f, "{}", told(error))
            }
        }
    }
}

/// An error with what caused it.
fn told(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let text = next.to_string();
        if !told.contains(&text) {
            told.push_str(": ");
            told.push_str(&text);
        }
        cause = next.source();
    }
    told
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
