//! Where peers come in: challenges, proofs, who is inside, and who must leave when the list changes.

mod keys;
mod notes;
mod waiting;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use drawgate_core::clock::{Clock, Ids};
use drawgate_core::store::AuditLog;
use drawgate_sdk::statement::{LOGIN_NAMESPACE, LoginStatement, Purpose};
use parking_lot::Mutex;

pub use self::keys::KeyExists;
use self::waiting::Waiting;
use super::file::Stamp;
use super::key::fingerprint;
use super::nonce::Nonces;
use super::signature;
use super::{Authorized, End, Ending, Identity, KeyFile, KeyList, Refusal, Refused};
use crate::refusals::Refusals;

/// Longest statement: longer than the longest names and host in one.
const MAX_STATEMENT: usize = 4 * 1024;
/// How long the file of keys must stay as it is before it is read, and how often that is looked at.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);
const SETTLE_LOOKS: usize = 10;
/// Connections of one pack: the one in use, its successor, and such as are not yet known to be dead.
const MAX_OF_PACK: usize = 4;
/// Connections of one agent.
const MAX_OF_AGENT: usize = 64;

/// What a door is made from.
pub struct DoorParts {
    /// The authorised keys.
    pub keys: KeyFile,
    /// The file with the gateway's own key, made when it is first needed.
    pub identity: PathBuf,
    /// What names of agents may not begin with.
    pub reserved: Option<String>,
    /// Where refusals, arrivals and departures are written down.
    pub audit: Arc<dyn AuditLog>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub ids: Arc<dyn Ids>,
}

/// The door for packs and agents.
pub struct Door {
    parts: DoorParts,
    identity: Mutex<Option<Arc<Identity>>>,
    list: ArcSwap<KeyList>,
    seen: Mutex<Stamp>,
    nonces: Nonces,
    inside: Mutex<BTreeMap<u64, Inside>>,
    waiting: Mutex<Waiting>,
    next: AtomicU64,
    /// One budget for each reason, so that noise of one kind does not hide another.
    refusals: BTreeMap<&'static str, Refusals>,
}

/// A peer that has proved itself.
struct Inside {
    terms: Arc<Authorized>,
    ending: Arc<Ending>,
}

/// How the list of keys changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// What stands in it now and did not before.
    pub added: Vec<Arc<Authorized>>,
    /// What stood in it before.
    pub removed: Vec<Arc<Authorized>>,
}

/// What a peer says in order to prove itself.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// Its connection.
    pub connection: u64,
    /// The host and port that it dialled.
    pub authority: &'a str,
    /// What it signed.
    pub statement: &'a str,
    /// The signature, armoured.
    pub signature: &'a str,
}

impl Door {
    /// Opens the door.
    pub fn open(parts: DoorParts) -> anyhow::Result<Arc<Self>> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
        let door = Self {
            identity: Mutex::default(),
            list: ArcSwap::default(),
            seen: Mutex::default(),
            nonces: Nonces::new(&key),
            inside: Mutex::default(),
            waiting: Mutex::default(),
            next: AtomicU64::new(1),
            refusals: Refusal::ALL.map(|it| (it.as_str(), Refusals::default())).into(),
            parts,
        };
        drop(door.reload());
        Ok(Arc::new(door))
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

    /// A connection from this address begins, and waits for its login. Returns its number. The one
    /// that has to make room for it, if any, writes that down itself.
    pub fn enter(&self, ending: &Arc<Ending>, remote: IpAddr) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let gone = self.waiting.lock().enter(number, ending, remote);
        if let Some(gone) = gone {
            gone.make_room();
        }
        number
    }

    /// A connection is over.
    pub fn leave(&self, connection: u64) {
        self.waiting.lock().leave(connection);
        self.inside.lock().remove(&connection);
    }

    /// A challenge for a connection.
    #[must_use]
    pub fn challenge(&self, connection: u64) -> String {
        self.nonces.make(connection, self.parts.clock.now_ms(), &*self.parts.ids)
    }

    /// Judges a proof. The cheap questions come first; a signature is verified only if everything
    /// else is right, and only with keys of the list. `open` has the connection's challenges that
    /// were not answered yet.
    pub fn prove(
        &self,
        attempt: &Attempt<'_>,
        open: &mut Vec<String>,
    ) -> Result<Arc<Authorized>, Refused> {
        if attempt.statement.len() > MAX_STATEMENT {
            return Err(Refusal::Malformed.into());
        }
        self.waiting.lock().begin_proof(attempt.connection);
        let judged = self.judge(attempt, open);
        if judged.is_err() {
            self.waiting.lock().end_proof(attempt.connection);
        }
        judged
    }

    fn judge(
        &self,
        attempt: &Attempt<'_>,
        open: &mut Vec<String>,
    ) -> Result<Arc<Authorized>, Refused> {
        let statement = LoginStatement::parse(attempt.statement).ok_or(Refusal::Malformed)?;
        let signature = signature::read(attempt.signature).ok_or(Refusal::Malformed);
        let key = signature.as_ref().ok().map(|signature| fingerprint(signature.public_key()));
        let judged = signature.and_then(|signature| {
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
        judged.map_err(|refusal| Refused {
            refusal,
            purpose: Some(statement.purpose),
            name: Some(statement.name.to_owned()),
            fingerprint: key,
        })
    }

    /// Lets a peer in that has proved itself, unless its key was withdrawn meanwhile.
    pub fn join(
        &self,
        connection: u64,
        terms: &Arc<Authorized>,
        ending: &Arc<Ending>,
    ) -> Result<(), Refusal> {
        // The lock is what a reload waits for before it looks who must leave.
        let mut inside = self.inside.lock();
        if !self.list.load().has(terms) {
            return Err(Refusal::UnknownKey);
        }
        let is_same =
            |peer: &&Inside| (peer.terms.purpose, &peer.terms.name) == (terms.purpose, &terms.name);
        let most = match terms.purpose {
            Purpose::Pack => MAX_OF_PACK,
            Purpose::Agent => MAX_OF_AGENT,
        };
        if inside.values().filter(is_same).count() >= most {
            return Err(Refusal::Crowded);
        }
        let peer = Inside { terms: Arc::clone(terms), ending: Arc::clone(ending) };
        inside.insert(connection, peer);
        self.waiting.lock().leave(connection);
        Ok(())
    }

    /// Takes over edits of the file of keys, and writes them down.
    pub async fn refresh(&self) {
        if !self.is_edited() {
            return;
        }
        self.settle().await;
        let changes = self.reload();
        self.note_changes(&changes).await;
    }

    /// Whether the file of keys is not the one that was read.
    #[must_use]
    pub fn is_edited(&self) -> bool {
        *self.seen.lock() != self.parts.keys.stamp()
    }

    /// Waits until nobody writes the file any more: many editors empty it first, and nobody should be
    /// cut for that.
    async fn settle(&self) {
        let mut last = self.parts.keys.stamp();
        for _ in 0..SETTLE_LOOKS {
            tokio::time::sleep(SETTLE_PAUSE).await;
            let now = self.parts.keys.stamp();
            if now == last {
                return;
            }
            last = now;
        }
    }

    /// Reads the keys again. Peers whose key is gone, or stands for something else now, are cut.
    pub fn reload(&self) -> Changes {
        // One at a time: an older list must not come after a newer one.
        let mut seen = self.seen.lock();
        // Taken before the file is read, so that a later edit is seen the next time.
        *seen = self.parts.keys.stamp();
        let list = match self.parts.keys.read() {
            Ok(bytes) => KeyList::read(&bytes, self.parts.reserved.as_deref()),
            Err(problem) => KeyList::unusable(problem),
        };
        notes::report(&list);
        let list = Arc::new(list);
        let before = self.list.swap(Arc::clone(&list));
        for peer in self.inside.lock().values().filter(|peer| !list.has(&peer.terms)) {
            peer.ending.end(End::KeyRemoved);
        }
        Changes::between(&before, &list)
    }
}

impl Changes {
    /// What was added and removed. A list that can't be trusted says nothing about that.
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
#[path = "door_tests.rs"]
mod tests;
