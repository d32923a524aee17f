//! Why a request failed, without what it held: no query, no header, no user name.

use std::error::Error;
use std::iter::successors;

use super::address::AddressError;

/// What lies beneath an error, from the outside in.
pub(super) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(error.source(), |cause| (*cause).source())
}

/// Why a host may not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It was not allowed.
    #[error("it is not among the hosts that may be reached here")]
    Host,
    /// It was allowed, at other ports.
    #[error("its port is not among those that may be reached here")]
    Port,
    /// Clouds tell secrets to whoever asks there.
    #[error("it is a name inside a private network, or of nobody on the internet")]
    Inside,
    /// It is on this machine or in a private network. The same words whether something listens there
    /// or not.
    #[error("its address is one of this machine or of a private network")]
    Private,
}

/// Why a redirect was not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Detour {
    /// There were too many.
    #[error("there were more than {} redirects", super::MAX_REDIRECTS)]
    Endless,
    /// From `https` to `http`.
    #[error("a redirect leads from `https` to `http`")]
    Downgrade,
    /// What was sent would be sent to somebody else.
    #[error("a redirect would send the request's body to another server")]
    Body,
}

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
    /// No connection came about in time; nothing was sent.
    #[error("no connection to `{0}` in time")]
    Slow(String),
    /// The address can't be used; nothing was sent.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The host may not be reached; nothing was sent.
    #[error("`{host}` was refused: {reason}")]
    Refused {
        /// The host, with its port where that matters.
        host: String,
        /// Why.
        reason: Refusal,
    },
    /// This machine has no certificates to check servers by, or the server did not prove who it is;
    /// nothing was sent.
    #[error("no safe connection: {0}")]
    Tls(String),
    /// The connection was lost after the request may have been sent.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The answer ended too early.
    #[error("the answer is incomplete: the connection ended before it did")]
    Truncated,
    /// The answer breaks the rules of HTTP or exceeds its limits.
    #[error("the answer is not one of HTTP: {0}")]
    Protocol(String),
    /// The deadline passed.
    #[error("no answer before the deadline")]
    Deadline,
    /// The answer is larger than allowed.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The answer is packed in a way that is not unpacked.
    #[error("the answer can't be unpacked: {0}")]
    Encoding(String),
    /// A redirect was not followed.
    #[error(transparent)]
    Detour(#[from] Detour),
    /// A redirect led to an address that failed.
    #[error("a redirect failed: {0}")]
    Redirected(Box<EgressError>),
}

impl EgressError {
    /// Whether it is certain that the server saw nothing.
    #[must_use]
    pub const fn nothing_was_sent(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Slow(_)
            | Self::Address(_)
            | Self::Refused { .. }
            | Self::Tls(_) => true,
            Self::Lost(_)
            | Self::Truncated
            | Self::Protocol(_)
            | Self::Deadline
            | Self::TooLarge(_)
            | Self::Encoding(_)
            | Self::Detour(_)
            | Self::Redirected(_) => false,
        }
    }

    /// Its class, in one word that stays the same.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "connect",
            Self::Address(AddressError::Scheme(_)) => "scheme",
            Self::Address(AddressError::Malformed(_)) => "url",
            Self::Address(AddressError::Userinfo) => "userinfo",
            Self::Address(AddressError::Port) | Self::Refused { reason: Refusal::Port, .. } => {
                "port"
            }
            Self::Refused { reason: Refusal::Host | Refusal::Inside, .. } => "host",
            Self::Refused { reason: Refusal::Private, .. } => "private_address",
            Self::Tls(_) => "tls",
            Self::Lost(_) => "lost",
            Self::Truncated => "truncated",
            Self::Protocol(_) => "protocol",
            Self::Deadline | Self::Slow(_) => "timeout",
            Self::TooLarge(_) => "too_large",
            Self::Encoding(_) => "encoding",
            Self::Detour(Detour::Endless) => "redirects",
            Self::Detour(Detour::Downgrade) => "downgrade",
            Self::Detour(Detour::Body) => "cross_origin_body",
            Self::Redirected(inner) => inner.code(),
        }
    }
}
