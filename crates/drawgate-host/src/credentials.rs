//! Credentials for requests to protected servers: what a source asks for and reports back. How a login
//! comes about, is kept and is renewed is left to the implementer.

use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::model::SourceId;
use drawgate_core::source::SourceError;
use http::{HeaderMap, HeaderValue, StatusCode};

/// Which attempt at a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Try {
    /// The first: a new token may help.
    First,
    /// The one after that: the server does not take new tokens either.
    Again,
}

/// The credentials of all sources.
pub trait Credentials: Send + Sync + 'static {
    /// Those of one source, if it can have any.
    fn bearer(&self, source: &SourceId) -> Option<Arc<dyn Bearer>>;
}

/// The credentials of one protected server.
#[async_trait]
pub trait Bearer: Send + Sync + 'static {
    /// The `Authorization` of the next request; `None` where there is no login, which may be because
    /// none is needed. Renews the token before it expires.
    async fn header(&self) -> Result<Option<HeaderValue>, SourceError>;

    /// The server answered a request, sent with this `Authorization`, by 401 or 403 and these
    /// headers. `true` if a new attempt makes sense, `false` if the refusal has nothing to do with
    /// the login. A login that is needed is remembered.
    async fn rejected(
        &self,
        attempt: Try,
        sent: Option<&HeaderValue>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<bool, SourceError>;
}
