//! The authorization server's keys: fetched when needed, kept while it can't be reached.
//!
//! One fetch is under way at a time. A token with a key that is not known can cause one, but not
//! more often than the pause: strangers must not make the gateway a burden to the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use drawgate_core::json;
use drawgate_host::Host;
use drawgate_host::egress::{Body, EgressError, HostRule, Reach, read_body};
use http::header::ACCEPT;
use http::{Request, StatusCode};
use serde_json::Value;
use tokio::sync::Mutex;

use super::Unauthenticated;
use super::jwks::{KeySet, KeySetError};
use super::jwt::{Rejection, Unverified};
use crate::config::Auth;

/// How often an unknown key makes us look.
const PAUSE_MS: u64 = 30_000;
/// How often we try while there are no keys at all.
const FIRST_PAUSE_MS: u64 = 2_000;
/// After this a set is looked at again, so that a withdrawn key ends.
const MAX_AGE_MS: u64 = 10 * 60_000;
/// After this a set does not count any more, however long the server can't be reached: whoever
/// shields the gateway from it must not keep a withdrawn key alive for ever.
const END_OF_LIFE_MS: u64 = 24 * 60 * 60_000;
/// How long one look may take, metadata and keys together.
const FETCH_TIME: Duration = Duration::from_secs(5);
/// Bytes of one document.
const MAX_DOCUMENT: usize = 256 * 1024;

/// Why there are no new keys.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("`{url}`: {error}")]
    Egress {
        url: String,
        #[source]
        error: EgressError,
    },
    #[error("`{0}` is not an address")]
    Address(String),
    #[error("`{url}` answered {status}")]
    Status { url: String, status: StatusCode },
    #[error("`{0}` is not metadata of this issuer, or names no `jwks_uri` to use")]
    Metadata(String),
    #[error(transparent)]
    KeySet(#[from] KeySetError),
}

/// The keys of one server.
pub(super) struct Keys {
    issuer: String,
    jwks_url: Option<String>,
    /// What the operator wrote, wherever it is; what the issuer's metadata name, on the internet.
    reach: Reach,
    host: Arc<Host>,
    loaded: ArcSwapOption<CachedKeys>,
    /// Held by the one who fetches; the time before which nobody does.
    turn: Mutex<u64>,
}

struct CachedKeys {
    keys: KeySet,
    at: u64,
}

impl Keys {
    pub(super) fn new(auth: &Auth, host: Arc<Host>) -> Arc<Self> {
        let keys = Arc::new(Self {
            issuer: auth.issuer.clone(),
            jwks_url: auth.jwks_url.clone(),
            reach: reach(auth),
            host,
            loaded: ArcSwapOption::empty(),
            turn: Mutex::new(0),
        });
        // Ready, if all goes well, before the first caller comes.
        tokio::spawn(Arc::clone(&keys).refresh(None));
        keys
    }

    /// Checks a token's signature by the server's keys.
    pub(super) async fn verify(
        self: &Arc<Self>,
        token: &Unverified<'_>,
    ) -> Result<(), Unauthenticated> {
        let loaded = self.current();
        if let Some(key) = loaded.as_ref().and_then(|loaded| loaded.keys.find(token)) {
            self.renew(loaded.as_ref());
            return key.verify(token).map_err(Unauthenticated::Rejected);
        }
        // In a task of its own: a caller that leaves must not use up the look for the others.
        let _ = tokio::spawn(Arc::clone(self).refresh(loaded)).await;
        let loaded = self.loaded.load();
        let loaded = loaded.as_ref().ok_or(Unauthenticated::NoKeys)?;
        let key = loaded.keys.find(token).ok_or(Rejection::Key);
        key.and_then(|key| key.verify(token)).map_err(Unauthenticated::Rejected)
    }

    /// The keys in use; those that are too old are forgotten here.
    fn current(&self) -> Option<Arc<CachedKeys>> {
        let loaded = self.loaded.load_full()?;
        if self.host.clock.now_ms().saturating_sub(loaded.at) < END_OF_LIFE_MS {
            return Some(loaded);
        }
        // Newer ones that came meanwhile stay.
        self.loaded.compare_and_swap(&loaded, None);
        tracing::warn!(issuer = self.issuer, "keys of the issuer are too old and count no more");
        None
    }

    /// Looks for new keys in the background if those in use are old.
    fn renew(self: &Arc<Self>, loaded: Option<&Arc<CachedKeys>>) {
        let now = self.host.clock.now_ms();
        let is_old = loaded.is_some_and(|loaded| now.saturating_sub(loaded.at) >= MAX_AGE_MS);
        if is_old && self.turn.try_lock().is_ok_and(|next| now >= *next) {
            tokio::spawn(Arc::clone(self).refresh(loaded.cloned()));
        }
    }

    /// Fetches the keys, unless somebody has done so since `seen`, or too lately.
    async fn refresh(self: Arc<Self>, seen: Option<Arc<CachedKeys>>) {
        let mut next = self.turn.lock().await;
        let current = self.loaded.load_full();
        let is_same = match (&seen, &current) {
            (None, None) => true,
            (Some(seen), Some(current)) => Arc::ptr_eq(seen, current),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !is_same || self.host.clock.now_ms() < *next {
            return;
        }
        let fetched = self.fetch().await;
        let now = self.host.clock.now_ms();
        match fetched {
            Ok(keys) => {
                tracing::info!(issuer = self.issuer, keys = keys.len(), "keys of the issuer read");
                // The first set is nobody's doing: whoever brings a newer key is heard at once.
                *next = if current.is_some() { now + PAUSE_MS } else { 0 };
                self.loaded.store(Some(Arc::new(CachedKeys { keys, at: now })));
            }
            Err(error) => {
                tracing::warn!(issuer = self.issuer, error = %error, "keys of the issuer can't be read");
                *next = now + if current.is_some() { PAUSE_MS } else { FIRST_PAUSE_MS };
            }
        }
    }

    async fn fetch(&self) -> Result<KeySet, FetchError> {
        let deadline = Instant::now() + FETCH_TIME;
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discover(deadline).await?,
        };
        Ok(KeySet::parse(&self.get(&url, deadline).await?)?)
    }

    /// Asks the issuer's metadata where its keys are.
    async fn discover(&self, deadline: Instant) -> Result<String, FetchError> {
        let mut last = FetchError::Address(self.issuer.clone());
        for url in metadata_urls(&self.issuer) {
            match self.get(&url, deadline).await {
                Ok(text) => match self.key_url(&text) {
                    Some(found) => return Ok(found),
                    None => last = FetchError::Metadata(url),
                },
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Metadata of another issuer, or keys in clear for one that is not, are not ours.
    fn key_url(&self, metadata: &[u8]) -> Option<String> {
        let metadata = json::parse(metadata).ok()?;
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        let url = text("jwks_uri")?;
        let is_private = url.starts_with("https://") || self.issuer.starts_with("http://");
        (text("issuer")? == self.issuer && is_private).then(|| url.to_owned())
    }

    async fn get(&self, url: &str, deadline: Instant) -> Result<bytes::Bytes, FetchError> {
        let request = Request::get(url).header(ACCEPT, "application/json").body(Body::default());
        let request = request.map_err(|_| FetchError::Address(url.to_owned()))?;
        let failed = |error| FetchError::Egress { url: url.to_owned(), error };
        let response =
            self.host.egress.request(request, &self.reach, deadline).await.map_err(failed)?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(FetchError::Status { url: url.to_owned(), status });
        }
        read_body(response.into_body(), MAX_DOCUMENT, deadline).await.map_err(failed)
    }
}

fn reach(auth: &Auth) -> Reach {
    let written = [Some(&auth.issuer), auth.jwks_url.as_ref()].into_iter().flatten();
    let rules = written.filter_map(|text| HostRule::of(&text.parse().ok()?));
    Reach::public().and(rules.map(HostRule::anywhere))
}

/// Where an issuer's metadata may be: by RFC 8414, and by `OpenID` Connect in its two readings.
fn metadata_urls(issuer: &str) -> Vec<String> {
    let issuer = issuer.trim_end_matches('/');
    let after_scheme = issuer.find("://").map_or(0, |at| at + 3);
    let authority_end = issuer
        .get(after_scheme..)
        .and_then(|rest| rest.find('/'))
        .map_or(issuer.len(), |at| after_scheme + at);
    let (origin, path) = issuer.split_at(authority_end);
    let mut urls = vec![format!("{origin}/.well-known/oauth-authorization-server{path}")];
    if !path.is_empty() {
        urls.push(format!("{origin}/.well-known/openid-configuration{path}"));
    }
    urls.push(format!("{issuer}/.well-known/openid-configuration"));
    urls
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
