//! Outgoing HTTP: one pooled client for the whole program.
//!
//! Redirects are never followed, sizes are bounded, and an error says whether the request may have
//! reached its server. What requests and answers mean is the caller's business.

mod body;
mod client;
mod upgrade;

use std::error::Error as _;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use body::{Chunks, read_body};
use bytes::Bytes;
use http::{Request, Response, uri::Scheme};
use http_body_util::Full;
pub use hyper::body::Incoming;
use tokio::time::timeout_at;
pub use upgrade::{Upgrade, UpgradedStream};

/// How long a connection may take, name resolution and TLS included in practice.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept: shorter than the five seconds after which common servers
/// close theirs, so that a request is rarely written into a closing connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A connection on which nothing moves is probed after this time, and given up after
/// [`PROBES`] probes without an answer: streams that are open for hours would not notice otherwise.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBES: u32 = 3;

/// Idle connections kept for each server.
const IDLE_PER_HOST: usize = 256;

/// The body of a request.
pub type Body = Full<Bytes>;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// No connection came about; nothing was sent.
    #[error("no connection to `{authority}`: {reason}")]
    Connect {
        /// Host and port.
        authority: String,
        /// What the network said.
        reason: String,
    },
    /// The address can't be used; nothing was sent.
    #[error("`{0}` is not an address for HTTP; use `http://` or `https://`")]
    Address(String),
    /// This machine has no certificates to check servers by; nothing was sent.
    #[error("TLS can't be used: {0}")]
    Tls(String),
    /// The connection was lost after the request may have been sent.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The deadline passed.
    #[error("no answer before the deadline")]
    Deadline,
    /// The answer is larger than allowed.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
}

impl EgressError {
    /// Whether it is certain that the server saw nothing.
    #[must_use]
    pub const fn nothing_was_sent(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Address(_) | Self::Tls(_) => true,
            Self::Lost(_) | Self::Deadline | Self::TooLarge(_) => false,
        }
    }
}

/// The client. Cheap to call from many tasks at once.
pub struct Egress {
    plain: client::Plain,
    // Reading the machine's certificates takes milliseconds, and many gateways never need them.
    secure: OnceLock<Result<client::Secure, String>>,
}

impl Egress {
    /// A client without connections.
    #[must_use]
    pub fn new() -> Self {
        Self { plain: client::plain(), secure: OnceLock::new() }
    }

    /// Sends a request and waits for the head of the answer.
    pub async fn request(
        &self,
        request: Request<Body>,
        deadline: Instant,
    ) -> Result<Response<Incoming>, EgressError> {
        let uri = request.uri().clone();
        let response = if uri.scheme() == Some(&Scheme::HTTP) {
            self.plain.request(request)
        } else if uri.scheme() == Some(&Scheme::HTTPS) {
            let secure = self.secure.get_or_init(client::secure).as_ref();
            secure.map_err(|reason| EgressError::Tls(reason.clone()))?.request(request)
        } else {
            return Err(EgressError::Address(uri.to_string()));
        };
        match timeout_at(deadline.into(), response).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_connect() => Err(EgressError::Connect {
                authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
                reason: root_cause(&error),
            }),
            Ok(Err(error)) => Err(EgressError::Lost(root_cause(&error))),
            Err(_) => Err(EgressError::Deadline),
        }
    }
}

impl Default for Egress {
    fn default() -> Self {
        Self::new()
    }
}

/// The innermost error: the outer ones only say that something within them failed.
fn root_cause(error: &hyper_util::client::legacy::Error) -> String {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
