//! Logins at protected servers: OAuth 2.1 with PKCE, by the rules of the MCP authorization
//! specification. A [`ServerLogin`] finds the authorization server, has a person agree in a browser,
//! keeps the tokens sealed, and renews them before they expire. With the client-credentials grant it
//! does all that without a person.
//!
//! Who may log in and what is written down about it is the caller's business; requests to the
//! protected server itself are too: they get their header from [`Bearer`].

mod address;
mod assertion;
mod attempt;
mod browser;
mod challenge;
mod credentials;
mod discovery;
mod error;
mod fetch;
mod flow;
mod form;
mod kept;
mod listener;
mod login;
mod logins;
mod pkce;
mod refresh;
mod registration;
mod scopes;
mod tokens;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode};

pub use address::Address;
pub use attempt::Begun;
pub use error::{LoginError, LoginNeeded};
pub use login::{Grant, LoginSettings, LoginSummary, ServerLogin, Standing};
pub use logins::{Logins, StoredLogins, Wanted};

/// Which attempt at a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Try {
    /// The first: a new token may help.
    First,
    /// The one after that: the server does not take new tokens either.
    Again,
}

/// The credentials of one protected server.
#[async_trait]
pub trait Bearer: Send + Sync + 'static {
    /// The `Authorization` of the next request; `None` where there is no login, which may be because
    /// none is needed. Renews the token before it expires.
    async fn header(&self) -> Result<Option<HeaderValue>, LoginNeeded>;

    /// The server answered a request, sent with this `Authorization`, by 401 or 403 and these
    /// headers. `true` if a new attempt makes sense, `false` if the refusal has nothing to do with
    /// the login. A login that is needed is remembered.
    async fn rejected(
        &self,
        attempt: Try,
        sent: Option<&HeaderValue>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<bool, LoginNeeded>;
}
