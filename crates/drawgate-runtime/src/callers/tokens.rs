//! The tokens that the gateway itself gives out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use drawgate_core::clock::Ids;
use drawgate_core::model::Principal;
use drawgate_core::secret::Secret;
use drawgate_core::store::Agent;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::{Identity, Unauthenticated};

/// Tokens are this long at most; ours are much shorter.
const MAX_TOKEN: usize = 512;
/// What our tokens begin with, so that people and scanners recognise them.
const TOKEN_PREFIX: &str = "dg_";

/// The local user and all agents.
#[derive(Default)]
pub(super) struct KnownTokens {
    by_hash: HashMap<[u8; 32], Principal>,
    names: HashSet<Principal>,
}

impl KnownTokens {
    pub(super) fn new(admin: &Secret<String>, agents: &[Agent]) -> Self {
        let mut known = Self::default();
        for agent in agents {
            let mut hash = [0; 32];
            if hex::decode_to_slice(&agent.token_hash, &mut hash).is_ok() {
                known.by_hash.insert(hash, agent.name.clone());
            }
            known.names.insert(agent.name.clone());
        }
        known.by_hash.insert(digest(admin.expose()), Principal::local());
        known.names.insert(Principal::local());
        known
    }

    pub(super) fn find(&self, token: &str) -> Result<Principal, Unauthenticated> {
        if token.len() > MAX_TOKEN {
            return Err(Unauthenticated::Malformed);
        }
        self.by_hash.get(&digest(token)).cloned().ok_or(Unauthenticated::Unknown)
    }

    pub(super) fn has_name(&self, name: &Principal) -> bool {
        self.names.contains(name)
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Tokens that count as long as what they were given out for.
#[derive(Default)]
pub(super) struct SessionTokens(Arc<Mutex<HashMap<[u8; 32], Identity>>>);

impl SessionTokens {
    pub(super) fn open(&self, ids: &dyn Ids, identity: Identity) -> SessionToken {
        let token = Secret::new(format!("{TOKEN_PREFIX}{}", ids.secret()));
        let hash = digest(token.expose());
        self.0.lock().insert(hash, identity);
        SessionToken { token, hash, all: Arc::clone(&self.0) }
    }

    pub(super) fn find(&self, token: &str) -> Option<Identity> {
        self.0.lock().get(&digest(token)).cloned()
    }
}

/// A token that counts until this is dropped.
pub struct SessionToken {
    token: Secret<String>,
    hash: [u8; 32],
    all: Arc<Mutex<HashMap<[u8; 32], Identity>>>,
}

impl SessionToken {
    /// The token itself.
    #[must_use]
    pub const fn secret(&self) -> &Secret<String> {
        &self.token
    }
}

impl Drop for SessionToken {
    fn drop(&mut self) {
        self.all.lock().remove(&self.hash);
    }
}

/// A new token, and its hash for the store.
#[must_use]
pub fn new_token(ids: &dyn Ids) -> (Secret<String>, String) {
    let token = format!("{TOKEN_PREFIX}{}", ids.secret());
    let hash = hex::encode(digest(&token));
    (Secret::new(token), hash)
}
