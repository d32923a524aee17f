//! The way to the gateway: where it is, how to be sure of it, and a connection that has logged in.
//!
//! A login counts for one HTTP/2 connection, so exactly one is opened, here, and nothing replaces it
//! behind the caller's back. What to do when it is lost is up to the clients.

mod address;
mod backoff;
mod error;
mod event;
mod line;
mod login;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

pub use address::AddressError;
pub use backoff::Backoff;
pub use error::ConnectionError;
pub use event::Event;

pub(crate) use backoff::Attempts;
pub(crate) use event::Observer;
pub(crate) use line::{Connection, Line};
pub(crate) use login::log_in;

use address::Address;

/// The largest message that either side takes.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// How long the gateway may take to answer one request of the SDK itself.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Where the gateway is, and how to be sure of it.
///
/// ```
/// use drawgate_sdk::Gateway;
///
/// # fn main() -> Result<(), drawgate_sdk::AddressError> {
/// let here = Gateway::at("http://127.0.0.1:7700")?;
/// let elsewhere = Gateway::at("https://tools.example.com")?
///     .identity("SHA256:pEB2lSYRMH5iZ8PVhkaH3wdAVFUfKUu6MFoQ8JgNvBQ");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Gateway {
    address: Address,
    identity: Option<String>,
    ca_file: Option<PathBuf>,
    plaintext: Plaintext,
}

/// Where a connection may do without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plaintext {
    Loopback,
    Anywhere,
}

impl Gateway {
    /// The gateway at `url`: `https://HOST[:PORT]`, or `http://HOST[:PORT]` on this machine.
    ///
    /// The gateway must know itself by this host and port, for they are part of what is signed.
    pub fn at(url: &str) -> Result<Self, AddressError> {
        Ok(Self {
            address: Address::parse(url)?,
            identity: None,
            ca_file: None,
            plaintext: Plaintext::Loopback,
        })
    }

    /// Accepts only the gateway with this identity, `SHA256:…`, as `drawgate keys server` prints it.
    /// It proves that by a signature at each login.
    #[must_use]
    pub fn identity(mut self, fingerprint: impl Into<String>) -> Self {
        let fingerprint: String = fingerprint.into();
        self.identity = Some(fingerprint.trim().trim_end_matches('=').to_owned());
        self
    }

    /// Trusts the certificates in this PEM file instead of the system's.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Allows `http://` to other machines. Everything is then readable and changeable on the way,
    /// so it is for networks that encrypt by themselves.
    #[must_use]
    pub fn allow_plaintext(mut self) -> Self {
        self.plaintext = Plaintext::Anywhere;
        self
    }

    /// The host and port as in the URL.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.address.authority()
    }

    /// What requests go to.
    pub(crate) fn origin(&self) -> http::Uri {
        self.address.origin().clone()
    }
}
