//! Who calls, by bearer token. Only hashes of tokens are kept, here and in the store.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use drawgate_core::model::Principal;
use drawgate_core::secret::Secret;
use drawgate_core::store::Agent;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

/// Tokens are this long at most; ours are much shorter.
const MAX_TOKEN: usize = 512;
/// What our tokens begin with, so that people and scanners recognise them.
const TOKEN_PREFIX: &str = "dg_";

/// Why a request is not from anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unauthenticated {
    /// No token.
    Missing,
    /// A token that is not known.
    Unknown,
    /// More than one `Authorization`, or not a bearer token.
    Malformed,
}

/// Everybody with a token.
#[derive(Default)]
pub struct Callers(ArcSwap<HashMap<[u8; 32], Principal>>);

impl Callers {
    /// Replaces everybody: the local user by the admin token, agents by the hashes of theirs.
    pub fn set(&self, admin: &Secret<String>, agents: &[Agent]) {
        let mut all = HashMap::with_capacity(agents.len() + 1);
        for agent in agents {
            let mut hash = [0; 32];
            if hex::decode_to_slice(&agent.token_hash, &mut hash).is_ok() {
                all.insert(hash, agent.name.clone());
            }
        }
        all.insert(digest(admin.expose()), Principal::local());
        self.0.store(Arc::new(all));
    }

    /// Finds out who sends a request. The token is compared by its hash, so that the time it takes
    /// says nothing about it.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Principal, Unauthenticated> {
        let mut all = headers.get_all(AUTHORIZATION).iter();
        let value = match (all.next(), all.next()) {
            (None, _) => return Err(Unauthenticated::Missing),
            (Some(value), None) => value.to_str().map_err(|_| Unauthenticated::Malformed)?,
            (Some(_), Some(_)) => return Err(Unauthenticated::Malformed),
        };
        let (scheme, token) = value.split_once(' ').ok_or(Unauthenticated::Malformed)?;
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || token.len() > MAX_TOKEN {
            return Err(Unauthenticated::Malformed);
        }
        self.0.load().get(&digest(token)).cloned().ok_or(Unauthenticated::Unknown)
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// A new token, and its hash for the store.
#[must_use]
pub fn new_token(ids: &dyn drawgate_core::clock::Ids) -> (Secret<String>, String) {
    let token = format!("{TOKEN_PREFIX}{}", ids.secret());
    let hash = hex::encode(digest(&token));
    (Secret::new(token), hash)
}
