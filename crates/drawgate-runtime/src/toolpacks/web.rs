//! Requests to GitHub: to the two configured addresses and to nowhere else.
//!
//! The token goes to these alone, never over an open line to another machine, and into no message.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use drawgate_core::secret::Secret;
use drawgate_host::egress::{AnswerBody, Body, Egress, EgressError, HostRule, Reach};
use drawgate_host::secrets::{Resolved, SecretError, Secrets};
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue, USER_AGENT};
use http::{Request, Response, Uri};

use super::remote::RemoteError;

const TOKEN: &str = "env:GITHUB_TOKEN";
const AGENT: &str = concat!("drawgate/", env!("CARGO_PKG_VERSION"));

/// The addresses of GitHub itself, whose names must lead to the public internet.
const OWN: [&str; 2] = ["https://api.github.com", "https://codeload.github.com"];

/// An address that requests go to.
#[derive(Debug, Clone)]
pub(super) struct Base {
    text: String,
    reach: Reach,
    is_private: bool,
}

impl Base {
    /// Reads an address of the configuration.
    pub(super) fn read(text: &str) -> Result<Self, RemoteError> {
        let text = text.trim_end_matches('/');
        let wrong = || RemoteError::Address(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let is_bare =
            uri.query().is_none() && uri.authority().is_some_and(|a| !a.as_str().contains('@'));
        let rule = HostRule::of(&uri).filter(|_| is_http && is_bare).ok_or_else(wrong)?;
        let rule = if OWN.contains(&text) { rule } else { rule.anywhere() };
        let is_private =
            uri.scheme_str() == Some("https") || uri.host().is_some_and(is_this_machine);
        Ok(Self { text: text.to_owned(), reach: Reach::only([rule]), is_private })
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// The way to GitHub.
pub(super) struct Web {
    egress: Arc<Egress>,
    token: Option<Secret<String>>,
}

impl Web {
    /// With the token of the environment, if there is one.
    pub(super) fn new(egress: Arc<Egress>, secrets: &Secrets) -> Result<Self, RemoteError> {
        let token = match secrets.resolve(TOKEN) {
            Ok(Resolved::Secret(token)) => Some(token).filter(|token| !token.expose().is_empty()),
            Ok(Resolved::Plain(_)) | Err(SecretError::Missing(_)) => None,
            Err(error) => return Err(RemoteError::Token(error.to_string())),
        };
        Ok(Self { egress, token })
    }

    /// Whether requests carry a token.
    pub(super) const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Asks for something. A redirect is an answer like any other.
    pub(super) async fn get(
        &self,
        base: &Base,
        path: &str,
        accept: &'static str,
        deadline: Instant,
    ) -> Result<Response<AnswerBody>, RemoteError> {
        let request = self.request(base, path, accept)?;
        let answer = self.egress.request(request, &base.reach, deadline).await;
        answer.map_err(|error| failed(base, error))
    }

    fn request(
        &self,
        base: &Base,
        path: &str,
        accept: &'static str,
    ) -> Result<Request<Body>, RemoteError> {
        let wrong = |_| RemoteError::Address(base.text.clone());
        let mut request = Request::get(format!("{}/{path}", base.text))
            .header(ACCEPT, accept)
            .header(USER_AGENT, AGENT)
            .header("x-github-api-version", "2022-11-28")
            .body(Body::new(Bytes::new()))
            .map_err(wrong)?;
        if let Some(token) = self.token.as_ref().filter(|_| base.is_private) {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose()))
                .map_err(|_| RemoteError::Token("`GITHUB_TOKEN` is not a token".to_owned()))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        Ok(request)
    }
}

/// What went wrong on the way.
pub(super) fn failed(base: &Base, source: EgressError) -> RemoteError {
    RemoteError::Way { address: base.text.clone(), source }
}
