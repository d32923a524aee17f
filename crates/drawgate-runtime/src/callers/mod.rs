//! Who calls, by bearer token: one of ours, or one of the operator's authorization server.
//!
//! Of our own tokens only hashes are kept, here and in the store. A token of the authorization
//! server counts for the request that brings it, and is never passed on.

mod claims;
mod jwks;
mod jwt;
mod keys;
mod oauth;
mod tokens;

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use drawgate_core::clock::Ids;
use drawgate_core::model::{CapabilityGrant, Lineage, Principal};
use drawgate_core::secret::Secret;
use drawgate_core::store::Agent;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Uri};

pub use jwt::Rejection;
pub use oauth::{OAuth, challenge, is_metadata_path};
pub use tokens::{SessionToken, new_token};

use crate::config::Auth;

/// Why a request is not from anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unauthenticated {
    /// No token.
    Missing,
    /// A token that is not known.
    Unknown,
    /// More than one `Authorization`, not a bearer token, or a token in the address.
    Malformed,
    /// A token of an authorization server that is not to be taken.
    Rejected(Rejection),
    /// The authorization server's keys could not be had so far, so nothing can be said.
    NoKeys,
}

impl Unauthenticated {
    /// For metrics and the audit log.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Unknown => "unknown",
            Self::Malformed => "malformed",
            Self::Rejected(rejection) => rejection.as_str(),
            Self::NoKeys => "no_keys",
        }
    }
}

/// Somebody with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub principal: Principal,
    /// What the token itself allows, for this request only.
    pub carried: Arc<[Arc<CapabilityGrant>]>,
    /// The run that it is, for a program that does the work of one.
    pub lineage: Option<Arc<Lineage>>,
}

impl From<Principal> for Identity {
    fn from(principal: Principal) -> Self {
        Self { principal, carried: Arc::default(), lineage: None }
    }
}

/// Everybody with a token.
#[derive(Default)]
pub struct Callers {
    known: ArcSwap<tokens::KnownTokens>,
    sessions: tokens::SessionTokens,
    reserved: Option<String>,
    oauth: OnceLock<OAuth>,
}

impl Callers {
    /// Nobody yet. Names with the prefix of an authorization server's callers are kept for these.
    #[must_use]
    pub fn new(auth: Option<&Auth>) -> Self {
        Self { reserved: auth.map(|auth| auth.principal_prefix.clone()), ..Self::default() }
    }

    /// Replaces everybody: the local user by the admin token, agents by the hashes of theirs.
    pub fn set(&self, admin: &Secret<String>, agents: &[Agent]) {
        self.known.store(Arc::new(tokens::KnownTokens::new(admin, agents)));
    }

    /// Whether a name can't be given to a local agent.
    #[must_use]
    pub fn is_reserved(&self, name: &Principal) -> bool {
        self.reserved.as_ref().is_some_and(|prefix| name.as_str().starts_with(prefix))
    }

    /// Takes tokens of an authorization server from now on. There can be one.
    pub fn trust(&self, oauth: OAuth) {
        self.oauth.get_or_init(|| oauth);
    }

    /// The authorization server, if there is one.
    #[must_use]
    pub fn oauth(&self) -> Option<&OAuth> {
        self.oauth.get()
    }

    /// Finds out who sends a request. Our own tokens are compared by their hash, so that the time
    /// it takes says nothing about them.
    pub async fn identify(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Identity, Unauthenticated> {
        if names_token(uri) {
            return Err(Unauthenticated::Malformed);
        }
        let token = bearer(headers)?;
        match (self.oauth.get(), is_dotted(token)) {
            (Some(oauth), true) => Box::pin(self.identify_foreign(oauth, token)).await,
            (None, _) | (_, false) => self.identify_own(token),
        }
    }

    /// Gives out a token for a principal that was authenticated in another way.
    #[must_use]
    pub fn open_session(&self, ids: &dyn Ids, identity: Identity) -> SessionToken {
        self.sessions.open(ids, identity)
    }

    fn identify_own(&self, token: &str) -> Result<Identity, Unauthenticated> {
        match self.known.load().find(token) {
            Ok(principal) => Ok(Identity::from(principal)),
            Err(Unauthenticated::Unknown) => {
                self.sessions.find(token).ok_or(Unauthenticated::Unknown)
            }
            Err(error) => Err(error),
        }
    }

    async fn identify_foreign(
        &self,
        oauth: &OAuth,
        token: &str,
    ) -> Result<Identity, Unauthenticated> {
        let identity = oauth.identify(token).await?;
        // The prefix keeps the two apart; an agent may be older than the prefix.
        if self.known.load().has_name(&identity.principal) {
            return Err(Unauthenticated::Rejected(Rejection::Principal));
        }
        Ok(identity)
    }
}

/// The one bearer token of a request.
fn bearer(headers: &HeaderMap) -> Result<&str, Unauthenticated> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let value = match (all.next(), all.next()) {
        (None, _) => return Err(Unauthenticated::Missing),
        (Some(value), None) => value.to_str().map_err(|_| Unauthenticated::Malformed)?,
        (Some(_), Some(_)) => return Err(Unauthenticated::Malformed),
    };
    let (scheme, token) = value.split_once(' ').ok_or(Unauthenticated::Malformed)?;
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
        return Err(Unauthenticated::Malformed);
    }
    Ok(token)
}

/// Tokens of ours have no dot, and those of an authorization server have two.
fn is_dotted(token: &str) -> bool {
    token.contains('.')
}

/// Addresses end up in logs and histories: a token there is no secret any more.
fn names_token(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        name.eq_ignore_ascii_case("access_token")
    })
}
