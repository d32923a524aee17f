//! Authenticates peers: challenges, proofs, the peers that are logged in, and the disconnection of
//! those whose key was removed.

mod events;
mod keys;
mod pending;

use std::collections::BTreeMap;
use std::future::ready;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use drawgate_core::clock::{Clock, Ids};
use drawgate_core::store::AuditLog;
use drawgate_sdk::statement::{LOGIN_NAMESPACE, LoginStatement, Purpose};
use parking_lot::Mutex;

pub use self::keys::KeyExists;
use self::pending::PendingLogins;
use super::file::Stamp;
use super::key::fingerprint;
use super::nonce::Nonces;
use super::signature;
use super::{
    DisconnectReason, Disconnection, Identity, KeyFile, KeyList, KeyTerms, Refusal, Refused,
};
use crate::refusals::RefusalLimiter;
use crate::settle::{lacks_lines, settled};

/// Longest statement: longer than the longest names and host in one.
const MAX_STATEMENT: usize = 4 * 1024;
/// Connections of one pack: the one in use, its successor, and such as are not yet known to be dead.
const MAX_OF_PACK: usize = 4;
/// Connections of one agent.
const MAX_OF_AGENT: usize = 64;

/// What a [`PeerAuthenticator`] is made from.
pub struct PeerAuthenticatorParts {
    /// The authorised keys.
    pub keys: KeyFile,
    /// The file with the gateway's own key, made when it is first needed.
    pub identity: PathBuf,
    /// What names of agents may not begin with.
    pub reserved: Option<String>,
    /// The log of refusals, logins and disconnections.
    pub audit: Arc<dyn AuditLog>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random ids.
    pub ids: Arc<dyn Ids>,
}

/// Authenticates packs and agents by their SSH keys.
pub struct PeerAuthenticator {
    parts: PeerAuthenticatorParts,
    identity: Mutex<Option<Arc<Identity>>>,
    list: ArcSwap<KeyList>,
    seen: Mutex<Stamp>,
    /// The text that the keys in force were read from.
    text: Mutex<Vec<u8>>,
    nonces: Nonces,
    logged_in: Mutex<BTreeMap<u64, LoggedIn>>,
    pending: Mutex<PendingLogins>,
    next: AtomicU64,
    /// One budget for each reason, so that noise of one kind does not hide another.
    refusals: BTreeMap<&'static str, RefusalLimiter>,
}

/// A peer that has logged in.
struct LoggedIn {
    terms: Arc<KeyTerms>,
    disconnection: Arc<Disconnection>,
}

/// How the list of keys changed.
#[derive(Debug, Default)]
pub struct KeyChanges {
    /// Keys that were added.
    pub added: Vec<Arc<KeyTerms>>,
    /// Keys that were removed.
    pub removed: Vec<Arc<KeyTerms>>,
}

/// The proof that a peer sends in order to log in.
#[derive(Debug, Clone, Copy)]
pub struct LoginAttempt<'a> {
    /// Its connection.
    pub connection: u64,
    /// The host and port that it dialled.
    pub authority: &'a str,
    /// What it signed.
    pub statement: &'a str,
    /// The signature, armoured.
    pub signature: &'a str,
}

impl PeerAuthenticator {
    /// Creates an authenticator and reads the authorised keys.
    pub fn open(parts: PeerAuthenticatorParts) -> anyhow::Result<Arc<Self>> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
        let authenticator = Self {
            identity: Mutex::default(),
            list: ArcSwap::default(),
            seen: Mutex::default(),
            text: Mutex::default(),
            nonces: Nonces::new(&key),
            logged_in: Mutex::default(),
            pending: Mutex::default(),
            next: AtomicU64::new(1),
            refusals: Refusal::ALL.map(|it| (it.as_str(), RefusalLimiter::default())).into(),
            parts,
        };
        drop(authenticator.reload());
        Ok(Arc::new(authenticator))
    }

    /// The gateway's own key.
    pub fn identity(&self) -> anyhow::Result<Arc<Identity>> {
        let mut known = self.identity.lock();
        if let Some(identity) = &*known {
            return Ok(Arc::clone(identity));
        }
        let identity = Arc::new(Identity::open(&self.parts.identity)?);
        *known = Some(Arc::clone(&identity));
        Ok(identity)
    }

    /// The keys in force.
    #[must_use]
    pub fn list(&self) -> Arc<KeyList> {
        self.list.load_full()
    }

    /// Where the keys are.
    #[must_use]
    pub fn file(&self) -> &Path {
        self.parts.keys.path()
    }

    /// Random text that nobody can guess.
    #[must_use]
    pub fn secret(&self) -> String {
        self.parts.ids.secret()
    }

    /// A name for something new.
    #[must_use]
    pub fn unique(&self) -> String {
        self.parts.ids.unique()
    }

    /// Registers a new connection, which must log in next, and returns its number. May evict another
    /// connection that has not logged in; that one records its own eviction.
    pub fn connect(&self, disconnection: &Arc<Disconnection>, remote: IpAddr) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let evicted = self.pending.lock().insert(number, disconnection, remote);
        if let Some(evicted) = evicted {
            evicted.evict();
        }
        number
    }

    /// Forgets a connection that has ended.
    pub fn disconnect(&self, connection: u64) {
        self.pending.lock().remove(connection);
        self.logged_in.lock().remove(&connection);
    }

    /// A challenge for a connection.
    #[must_use]
    pub fn challenge(&self, connection: u64) -> String {
        self.nonces.make(connection, self.parts.clock.now_ms(), &*self.parts.ids)
    }

    /// Verifies a proof. The cheap checks come first; a signature is verified only if everything
    /// else is right, and only with keys of the list. `open` has the connection's challenges that
    /// were not answered yet.
    pub fn prove(
        &self,
        attempt: &LoginAttempt<'_>,
        open: &mut Vec<String>,
    ) -> Result<Arc<KeyTerms>, Refused> {
        if attempt.statement.len() > MAX_STATEMENT {
            return Err(Refusal::Malformed.into());
        }
        self.pending.lock().begin_proof(attempt.connection);
        let verified = self.verify(attempt, open);
        if verified.is_err() {
            self.pending.lock().end_proof(attempt.connection);
        }
        verified
    }

    fn verify(
        &self,
        attempt: &LoginAttempt<'_>,
        open: &mut Vec<String>,
    ) -> Result<Arc<KeyTerms>, Refused> {
        let statement = LoginStatement::parse(attempt.statement).ok_or(Refusal::Malformed)?;
        let signature = signature::read(attempt.signature).ok_or(Refusal::Malformed);
        let key = signature.as_ref().ok().map(|signature| fingerprint(signature.public_key()));
        let verified = signature.and_then(|signature| {
            let now = self.parts.clock.now_ms();
            self.nonces.spend(statement.nonce, attempt.connection, now, open)?;
            let identity = self.identity().map_err(|_| Refusal::Foreign)?;
            if statement.server != identity.name()
                || !statement.authority.eq_ignore_ascii_case(attempt.authority)
                || signature.namespace() != LOGIN_NAMESPACE
            {
                return Err(Refusal::Foreign);
            }
            let list = self.list.load();
            let entry =
                list.find(key.as_deref().unwrap_or_default(), statement.purpose, statement.name)?;
            let is_valid =
                signature::is_valid(&entry.key, LOGIN_NAMESPACE, attempt.statement, &signature);
            is_valid.then(|| Arc::clone(&entry.terms)).ok_or(Refusal::BadSignature)
        });
        verified.map_err(|refusal| Refused {
            refusal,
            purpose: Some(statement.purpose),
            name: Some(statement.name.to_owned()),
            fingerprint: key,
        })
    }

    /// Logs in a peer whose proof is verified, unless its key was removed meanwhile.
    pub fn log_in(
        &self,
        connection: u64,
        terms: &Arc<KeyTerms>,
        disconnection: &Arc<Disconnection>,
    ) -> Result<(), Refusal> {
        // The lock is what a reload waits for before it looks who must leave.
        let mut logged_in = self.logged_in.lock();
        if !self.list.load().has(terms) {
            return Err(Refusal::UnknownKey);
        }
        let is_same = |peer: &&LoggedIn| {
            (peer.terms.purpose, &peer.terms.name) == (terms.purpose, &terms.name)
        };
        let most = match terms.purpose {
            Purpose::Pack => MAX_OF_PACK,
            Purpose::Agent => MAX_OF_AGENT,
        };
        if logged_in.values().filter(is_same).count() >= most {
            return Err(Refusal::Crowded);
        }
        let peer = LoggedIn { terms: Arc::clone(terms), disconnection: Arc::clone(disconnection) };
        logged_in.insert(connection, peer);
        self.pending.lock().remove(connection);
        Ok(())
    }

    /// Reloads the file of keys if it was edited, and records what changed.
    pub async fn refresh(&self) {
        if !self.is_edited() {
            return;
        }
        let keys = &self.parts.keys;
        let missing = || {
            // A file that can't be trusted any more is not waited for.
            let is_missing = keys.read().is_ok_and(|text| lacks_lines(&text, &self.text.lock()));
            is_missing.then(|| keys.path().to_owned())
        };
        settled(|| ready(keys.stamp()), missing).await;
        let changes = self.reload();
        self.record_changes(&changes).await;
    }

    /// Whether the file of keys is not the one that was read.
    #[must_use]
    pub fn is_edited(&self) -> bool {
        *self.seen.lock() != self.parts.keys.stamp()
    }

    /// Reads the keys again. Disconnects peers whose key is gone or has other terms now.
    pub fn reload(&self) -> KeyChanges {
        // One at a time: an older list must not come after a newer one.
        let mut seen = self.seen.lock();
        // Taken before the file is read, so that a later edit is seen the next time.
        *seen = self.parts.keys.stamp();
        let read = self.parts.keys.read();
        let list = match &read {
            Ok(bytes) => KeyList::read(bytes, self.parts.reserved.as_deref()),
            Err(problem) => KeyList::unusable(problem.clone()),
        };
        *self.text.lock() = read.unwrap_or_default();
        events::report(&list);
        let list = Arc::new(list);
        let before = self.list.swap(Arc::clone(&list));
        for peer in self.logged_in.lock().values().filter(|peer| !list.has(&peer.terms)) {
            peer.disconnection.end(DisconnectReason::KeyRemoved);
        }
        KeyChanges::between(&before, &list)
    }
}

impl KeyChanges {
    /// The difference between two lists; empty if one of them can't be trusted.
    fn between(before: &KeyList, after: &KeyList) -> Self {
        if before.problem().is_some() || after.problem().is_some() {
            return Self::default();
        }
        let beyond = |one: &KeyList, other: &KeyList| {
            let terms = one.entries().iter().map(|entry| &entry.terms);
            terms.filter(|terms| !other.has(terms)).cloned().collect()
        };
        Self { added: beyond(after, before), removed: beyond(before, after) }
    }
}

#[cfg(test)]
#[path = "authenticator_tests.rs"]
mod tests;
