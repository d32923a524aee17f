//! Why there is no login, in words for the person who can make one. No variant holds a token, a code
//! or a server's own description of an error, which may repeat them.

use drawgate_core::model::SourceId;
use drawgate_core::source::SourceError;
use drawgate_core::store::StoreError;

use super::address::AddressError;
use drawgate_host::egress::Refusal;
use drawgate_host::secrets::SecretError;

/// A request can't be sent as it should, because the login does not suffice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginNeeded {
    /// There is none.
    #[error("`{0}` needs a login; the gateway's operator must log in")]
    Absent(SourceId),
    /// It can't be renewed any more.
    #[error("the login at `{0}` has expired; the gateway's operator must log in again")]
    Expired(SourceId),
    /// It does not reach.
    #[error(
        "the login at `{server}` does not allow this, which needs the scope `{scope}`; the gateway's operator must log in again"
    )]
    Scope {
        /// The server.
        server: SourceId,
        /// What is missing.
        scope: String,
    },
    /// The configured client gets no token that serves.
    #[error("there is no token for `{server}`: {reason}; check `servers.{server}.oauth`")]
    Client {
        /// The server.
        server: SourceId,
        /// Why not.
        reason: String,
    },
    /// The configured client's token does not reach.
    #[error(
        "the token for `{server}` does not allow this, which needs the scope `{scope}`; add it to `scopes` in `servers.{server}.oauth`"
    )]
    ClientScope {
        /// The server.
        server: SourceId,
        /// What is missing.
        scope: String,
    },
    /// It can't be renewed at the moment.
    #[error("the login at `{server}` can't be renewed now: {reason}; try again later")]
    Unreachable {
        /// The server.
        server: SourceId,
        /// What the network said.
        reason: String,
    },
}

impl From<LoginNeeded> for SourceError {
    /// The server has refused the request, so nothing was done.
    fn from(needed: LoginNeeded) -> Self {
        Self::unreachable(needed.to_string())
    }
}

/// Why a login did not come about.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The server is not reached safely.
    #[error(
        "`{0}` is neither `https` nor on this machine; a login would show its tokens to others"
    )]
    Insecure(String),
    /// A request failed.
    #[error("{what} could not be reached: {reason}")]
    Network {
        /// Who was asked.
        what: &'static str,
        /// What the network said.
        reason: String,
    },
    /// An address of this machine or of a private network, or an unusual port, that the operator did
    /// not name.
    #[error(
        "{what} is at `{host}`, which was refused: {reason}; if it is meant, name it in `oauth.issuer` or in `[egress] allow`"
    )]
    Forbidden {
        /// Who was to be asked.
        what: &'static str,
        /// Host and port.
        host: String,
        /// Why not.
        reason: Refusal,
    },
    /// An answer is not what it should be.
    #[error("{what} is not usable: {reason}")]
    Malformed {
        /// The answer.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// An answer holds an address that may not be used.
    #[error("{what}: {error}")]
    Address {
        /// What the address is for.
        what: &'static str,
        /// What is wrong with it. Not the error's source, which would be told a second time.
        error: AddressError,
    },
    /// The server's metadata are another server's.
    #[error("the server's metadata are for `{found}`, not for `{expected}`; the login is refused")]
    Resource {
        /// What they are for.
        found: String,
        /// The server.
        expected: String,
    },
    /// The authorization server publishes nothing.
    #[error("the authorization server `{0}` publishes no metadata; check the server's `url`")]
    NoMetadata(String),
    /// The authorization server's metadata are another's.
    #[error(
        "the metadata of the authorization server `{expected}` are those of `{found}`; the login is refused"
    )]
    Issuer {
        /// Whose metadata they are.
        found: String,
        /// Whose they should be.
        expected: String,
    },
    /// No proof of the code's owner.
    #[error(
        "the authorization server `{0}` does not support PKCE with `S256`; the login is refused"
    )]
    NoPkce(String),
    /// Credentials are for one authorization server only.
    #[error(
        "the server names the authorization server `{found}`, but the client is one of `{expected}`; set `oauth.issuer` to the right one"
    )]
    ForeignIssuer {
        /// Named by the server.
        found: String,
        /// Configured, or of the first login.
        expected: String,
    },
    /// The server has no registration.
    #[error(
        "the authorization server `{0}` does not register clients by itself; register one there and set `client_id` in the server's `oauth` table"
    )]
    NoRegistration(String),
    /// The authorization server refused.
    #[error("the authorization server refused {what} ({code})")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// The error code.
        code: String,
    },
    /// The person, or the authorization server, said no.
    #[error("the authorization server answered `{0}`; no login was made")]
    Denied(String),
    /// The answer came from another issuer.
    #[error("the answer does not come from the authorization server `{0}`; the login is refused")]
    Stranger(String),
    /// There is nothing for a person to do.
    #[error(
        "`{0}` needs no login by a person: the gateway gets its tokens by itself, as the client in `servers.{0}.oauth`"
    )]
    Unattended(SourceId),
    /// No answer came.
    #[error("no answer came in time; log in again")]
    TooLate,
    /// A second attempt took over.
    #[error("another login at the same server was begun")]
    Replaced,
    /// There is no attempt of this id.
    #[error("this login is not under way any more; log in again")]
    NoAttempt,
    /// The answer can't be received.
    #[error(
        "port {port} on this machine can't be used: {reason}; set `redirect_port` to a free one"
    )]
    Listener {
        /// The port, 0 for any.
        port: u16,
        /// What the system said.
        reason: String,
    },
    /// The client's secret is missing.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The login can't be kept.
    #[error("the login can't be kept: {0}")]
    Store(#[from] StoreError),
    /// The login can't be sealed.
    #[error(transparent)]
    Seal(#[from] drawgate_host::seal::SealError),
    /// The login can't be kept or written down, and is therefore none.
    #[error(transparent)]
    Act(#[from] drawgate_core::acts::ActError),
}

impl LoginError {
    pub(super) fn malformed(what: &'static str, reason: impl Into<String>) -> Self {
        Self::Malformed { what, reason: reason.into() }
    }

    pub(super) const fn address(what: &'static str) -> impl FnOnce(AddressError) -> Self {
        move |error| Self::Address { what, error }
    }
}

/// An error code of OAuth as it may be shown: a short word, or nothing of it.
pub(super) fn code(text: Option<&str>) -> String {
    let word = |text: &&str| {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        !text.is_empty() && text.len() <= 40 && text.bytes().all(legal)
    };
    text.filter(word).unwrap_or("unknown_error").to_owned()
}
