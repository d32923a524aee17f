//! Sessions of the revisions that have them: names, not rights. A session counts only together with
//! the principal that opened it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use drawgate_core::clock::{Clock, Ids};
use drawgate_core::model::{Client, Principal};
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use super::questions::Questions;
use super::replays::{Replays, Total};
use super::subscribed::Subscriptions;
use crate::surface::mcp::wire::message::RequestId;

/// How many requests of one session may be open at once.
const MAX_IN_FLIGHT: usize = 1024;
/// One principal may hold the total divided by this: one client must not shut out the others.
const SHARES: usize = 4;
/// How long a session must have been idle to give way to another principal's.
const MAY_GIVE_WAY_MS: u64 = 60_000;

/// One client's session.
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    pub(crate) principal: Principal,
    last_used: AtomicU64,
    in_flight: Mutex<HashMap<RequestId, CancellationToken>>,
    client: RwLock<Arc<Client>>,
    /// What the client was asked and has not answered.
    pub(crate) questions: Arc<Questions>,
    /// The resources that the client wants to hear of.
    pub(crate) subscribed: Arc<Subscriptions>,
    /// The streams that the client can take up again.
    pub(crate) replays: Arc<Replays>,
    primes: AtomicBool,
    /// Ends the session's streams.
    pub(crate) closed: CancellationToken,
}

/// A request that is open, until this is dropped.
pub(crate) struct InFlight {
    session: Arc<Session>,
    id: RequestId,
}

impl Session {
    /// Notes a request, so that the client can cancel it. `None` if the id is in use or too many are.
    pub(crate) fn open(
        self: &Arc<Self>,
        id: &RequestId,
        cancel: &CancellationToken,
    ) -> Option<InFlight> {
        let mut open = self.in_flight.lock();
        if open.len() >= MAX_IN_FLIGHT || open.contains_key(id) {
            return None;
        }
        open.insert(id.clone(), cancel.clone());
        Some(InFlight { session: Arc::clone(self), id: id.clone() })
    }

    /// Cancels a request, if it is open.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(cancel) = self.in_flight.lock().get(id) {
            cancel.cancel();
        }
    }

    /// What the client can do, and how much it wants to hear.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.read())
    }

    /// Notes what the client said of itself when it came.
    pub(crate) fn introduce(&self, client: Client) {
        *self.client.write() = Arc::new(client);
    }

    /// Notes that the client understands an event that has only an id.
    pub(crate) fn set_primes(&self) {
        self.primes.store(true, Ordering::Relaxed);
    }

    /// Whether the client understands an event that has only an id.
    pub(crate) fn primes(&self) -> bool {
        self.primes.load(Ordering::Relaxed)
    }

    /// The least severe log messages that the client wants from now on.
    pub(crate) fn set_log_level(&self, level: String) {
        let mut client = self.client.write();
        let capabilities = client.capabilities.clone();
        *client = Arc::new(Client { capabilities, log_level: Some(level), ..Client::default() });
    }

    fn idle_ms(&self, now: u64) -> u64 {
        now.saturating_sub(self.last_used.load(Ordering::Relaxed))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.session.in_flight.lock().remove(&self.id);
    }
}

/// All sessions: bounded in number, ended when idle.
pub struct Sessions {
    all: RwLock<HashMap<Arc<str>, Arc<Session>>>,
    max: usize,
    idle_ms: u64,
    resume: Duration,
    replayed: Total,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Sessions {
    /// No sessions yet.
    #[must_use]
    pub fn new(max: usize, idle_ms: u64, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        let (resume, replayed) = (Duration::ZERO, Total::default());
        Self { all: RwLock::default(), max, idle_ms, resume, replayed, clock, ids }
    }

    /// The same, where a client whose connection broke can come back within this time.
    #[must_use]
    pub fn resumable(self, resume: Duration) -> Self {
        Self { resume, ..self }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.read().len()
    }

    /// Opens a session. A principal that has its share gives up its own longest idle one; when
    /// there is no room at all, one of those who hold more than this principal gives way, if it
    /// has been idle for some time. A session with an open call or stream is never ended for
    /// another.
    pub(crate) fn open(&self, principal: &Principal) -> Option<Arc<Session>> {
        let now = self.clock.now_ms();
        let mut all = self.all.write();
        if all.len() >= self.max {
            sweep(&mut all, now, self.idle_ms);
        }
        let share = (self.max / SHARES).max(1);
        let own = all.values().filter(|session| session.principal == *principal).count();
        if own >= share {
            let id = longest_idle(&all, |session| session.principal == *principal)?;
            end(&mut all, &id);
        } else if all.len() >= self.max {
            let held = held(&all);
            let id = longest_idle(&all, |session| {
                session.idle_ms(now) >= MAY_GIVE_WAY_MS
                    && held.get(&session.principal).is_some_and(|count| *count > own)
            })?;
            end(&mut all, &id);
        }
        let session = Arc::new(Session {
            id: self.ids.secret().into(),
            principal: principal.clone(),
            last_used: AtomicU64::new(now),
            in_flight: Mutex::default(),
            client: RwLock::default(),
            questions: Arc::default(),
            subscribed: Arc::default(),
            replays: Arc::new(Replays::new(self.resume, Arc::clone(&self.replayed))),
            primes: AtomicBool::new(false),
            closed: CancellationToken::new(),
        });
        all.insert(Arc::clone(&session.id), Arc::clone(&session));
        Some(session)
    }

    /// The session of this id, if it is this principal's.
    pub(crate) fn find(&self, id: &str, principal: &Principal) -> Option<Arc<Session>> {
        let now = self.clock.now_ms();
        let all = self.all.read();
        let session = all.get(id).filter(|session| session.principal == *principal)?;
        if session.idle_ms(now) > self.idle_ms && !is_busy(session) {
            return None;
        }
        session.last_used.store(now, Ordering::Relaxed);
        Some(Arc::clone(session))
    }

    /// Whether a session of this id is open, but another principal's.
    pub(crate) fn is_foreign(&self, id: &str, principal: &Principal) -> bool {
        self.all.read().get(id).is_some_and(|session| session.principal != *principal)
    }

    /// Ends a session of this principal.
    pub(crate) fn close(&self, id: &str, principal: &Principal) -> bool {
        let mut all = self.all.write();
        let own = all.get(id).is_some_and(|session| session.principal == *principal);
        if own {
            end(&mut all, id);
        }
        own
    }

    /// Forgets what has been idle for too long; called from time to time.
    pub fn sweep(&self) {
        let mut all = self.all.write();
        sweep(&mut all, self.clock.now_ms(), self.idle_ms);
    }
}

/// Whether a call or a stream is open: each of them holds the session.
fn is_busy(session: &Arc<Session>) -> bool {
    Arc::strong_count(session) > 1 || !session.in_flight.lock().is_empty()
}

/// How many sessions each principal holds.
fn held(all: &HashMap<Arc<str>, Arc<Session>>) -> HashMap<&Principal, usize> {
    all.values().fold(HashMap::new(), |mut held, session| {
        *held.entry(&session.principal).or_default() += 1;
        held
    })
}

/// The id of the session that has been idle longest, of those that may give way.
fn longest_idle(
    all: &HashMap<Arc<str>, Arc<Session>>,
    may_give_way: impl Fn(&Session) -> bool,
) -> Option<Arc<str>> {
    all.values()
        .filter(|session| !is_busy(session) && may_give_way(session))
        .min_by_key(|session| session.last_used.load(Ordering::Relaxed))
        .map(|session| Arc::clone(&session.id))
}

fn sweep(all: &mut HashMap<Arc<str>, Arc<Session>>, now: u64, idle_ms: u64) {
    all.retain(|_, session| {
        let ended = session.idle_ms(now) > idle_ms && !is_busy(session);
        session.replays.prune();
        if ended {
            session.closed.cancel();
            session.replays.clear();
        }
        !ended
    });
    if all.capacity() > 4 * all.len().max(64) {
        all.shrink_to_fit();
    }
}

fn end(all: &mut HashMap<Arc<str>, Arc<Session>>, id: &str) {
    if let Some(session) = all.remove(id) {
        session.closed.cancel();
        session.replays.clear();
        let open: Vec<CancellationToken> = session.in_flight.lock().values().cloned().collect();
        open.iter().for_each(CancellationToken::cancel);
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
