//! Approvals: a person's yes to one exact call.
//!
//! An approval is bound to tool, definition, arguments and caller by a keyed hash, is used once and
//! expires. The book lives in memory and in the store, which is always changed first, and only if it
//! still has what memory has: of several gateways on a store one decides, and one uses. Waiting calls
//! hear of decisions at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, Mac};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;
use tokio::sync::{broadcast, oneshot, watch};

use crate::acts::finish;
use crate::clock::{Clock, Ids};
use crate::model::{Principal, RiskTag, ToolId};
use crate::store::{Store, StoreError, Write};

/// How many approvals may wait at once, in all and for one caller: a person can't answer more.
const MAX_PENDING: usize = 1000;
const MAX_PENDING_PER_CALLER: usize = 100;
/// Decided approvals are remembered this long after they end, so that an operator can list them.
const REMEMBER_MS: u64 = 24 * 60 * 60 * 1000;
/// And no more than this many in all, whatever their age.
const MAX_REMEMBERED: usize = 10_000;
/// Characters of the secret part of an approval's id.
const ID_LENGTH: usize = 20;

/// Characters of the digest of a masked value.
const DIGEST_LENGTH: usize = 8;

/// How approvals are asked for.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalsConfig {
    /// Whether people are asked at all; otherwise a confirmation is waived.
    pub ask: bool,
    /// How long a call waits for the answer.
    pub hold: Duration,
    /// How long an approval can be given and used.
    pub expire: Duration,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        Self { ask: true, hold: Duration::from_secs(30), expire: Duration::from_mins(5) }
    }
}

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody has decided.
    Pending,
    /// Yes, and not used yet.
    Approved,
    /// No.
    Denied,
    /// Yes, and the call was made.
    Used,
    /// Time ran out.
    Expired,
}

impl ApprovalState {
    /// Its name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Used => "used",
            Self::Expired => "expired",
        }
    }
}

/// One question to a person, and the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its name.
    pub id: String,
    /// The tool.
    pub tool_id: String,
    /// Who wants to call it.
    pub principal: Principal,
    /// The keyed hash of tool, definition, arguments and caller.
    pub binding: String,
    /// The arguments, redacted, in full.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub arguments: Value,
    /// Why a person is asked.
    pub reason: String,
    /// What makes it risky.
    #[serde(default)]
    pub risk_tags: Vec<RiskTag>,
    /// When it was asked, in milliseconds since the epoch.
    pub created_at: u64,
    /// When it ends.
    pub expires_at: u64,
    /// Where it stands.
    pub state: ApprovalState,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<u64>,
}

/// What an approval is about, reduced to a keyed hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding(String);

/// A question that has not been asked yet.
#[derive(Debug, Clone)]
pub struct ApprovalTicket {
    /// The tool.
    pub tool_id: ToolId,
    /// Who calls.
    pub principal: Principal,
    /// What it is bound to.
    pub binding: Binding,
    /// The arguments, redacted.
    pub arguments: Value,
    /// Why a person is asked.
    pub reason: String,
    /// What makes it risky.
    pub risk_tags: Vec<RiskTag>,
}

/// Why an approval can't be asked for or decided.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// Too many wait already.
    #[error("{0} approvals are waiting already; a person must decide some of them first")]
    TooMany(usize),
    /// No such approval.
    #[error("there is no approval `{0}`")]
    Unknown(String),
    /// Decided, used or expired.
    #[error("approval `{id}` is {state} already", state = .state.as_str())]
    Settled {
        /// Its id.
        id: String,
        /// Where it stands.
        state: ApprovalState,
    },
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The book of approvals.
pub struct Approvals {
    book: Arc<Mutex<BTreeMap<String, Approval>>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    key: [u8; 32],
    /// Held from the look at the book until the store and the book have changed.
    changing: Arc<tokio::sync::Mutex<()>>,
    decided: watch::Sender<u64>,
    asked: broadcast::Sender<Approval>,
}

impl Approvals {
    /// Loads the book. `key` is the installation's own secret for bindings.
    pub async fn load(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        key: [u8; 32],
    ) -> Result<Self, StoreError> {
        let book =
            store.approvals().await?.into_iter().map(|approval| (approval.id.clone(), approval));
        Ok(Self {
            book: Arc::new(Mutex::new(book.collect())),
            store,
            clock,
            ids,
            key,
            changing: Arc::default(),
            decided: watch::Sender::new(0),
            asked: broadcast::Sender::new(64),
        })
    }

    /// New questions, as they are asked.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Approval> {
        self.asked.subscribe()
    }

    /// Changes whenever something is decided.
    #[must_use]
    pub fn decisions(&self) -> watch::Receiver<u64> {
        self.decided.subscribe()
    }

    /// Binds an approval to one exact call.
    #[must_use]
    pub fn bind(
        &self,
        tool: &ToolId,
        definition: &str,
        caller: &Principal,
        arguments: &[u8],
    ) -> Binding {
        // HMAC takes a key of any length, so this can't fail; an empty binding would match nothing.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else {
            return Binding(String::new());
        };
        for part in
            [tool.as_str().as_bytes(), definition.as_bytes(), caller.as_str().as_bytes(), arguments]
        {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        Binding(hex::encode(mac.finalize().into_bytes()))
    }

    /// A short keyed hash, by which a person can tell whether two masked values are the same. Without
    /// the installation's key it can't be used to try out what a masked value might be.
    #[must_use]
    pub fn digest(&self, text: &str) -> String {
        // HMAC takes a key of any length, so this can't fail.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return String::new() };
        mac.update(b"masked\0");
        mac.update(text.as_bytes());
        hex::encode(mac.finalize().into_bytes()).chars().take(DIGEST_LENGTH).collect()
    }

    /// All approvals that are remembered, oldest first, with expiry taken into account.
    #[must_use]
    pub fn list(&self) -> Vec<Approval> {
        let now = self.clock.now_ms();
        let mut all: Vec<Approval> =
            self.book.lock().values().cloned().map(|approval| aged(approval, now)).collect();
        all.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        all
    }

    /// The approval that stands for this call now, if there is one that has not ended.
    #[must_use]
    pub fn find(&self, binding: &Binding) -> Option<Approval> {
        let now = self.clock.now_ms();
        current(&self.book.lock(), &binding.0, now)
    }

    /// Asks: records the question and tells the subscribers. A question that stands is not asked twice.
    pub async fn ask(
        &self,
        ticket: ApprovalTicket,
        expire: Duration,
    ) -> Result<Approval, ApprovalError> {
        let changing = Arc::clone(&self.changing).lock_owned().await;
        let now = self.clock.now_ms();
        let approval = Approval {
            id: self.ids.secret().chars().take(ID_LENGTH).collect(),
            tool_id: ticket.tool_id.to_string(),
            principal: ticket.principal,
            binding: ticket.binding.0,
            arguments: ticket.arguments,
            reason: ticket.reason,
            risk_tags: ticket.risk_tags,
            created_at: now,
            expires_at: now.saturating_add(u64::try_from(expire.as_millis()).unwrap_or(u64::MAX)),
            state: ApprovalState::Pending,
            decided_at: None,
        };
        if let Some(standing) = self.admit(&approval, now)? {
            return Ok(standing);
        }
        let old = forgettable(&self.book.lock(), now);
        let mut writes: Vec<Write> = old.iter().cloned().map(Write::RemoveApproval).collect();
        writes.push(Write::PutApproval(approval.clone()));
        let (store, book) = (Arc::clone(&self.store), Arc::clone(&self.book));
        let asked = self.asked.clone();
        let asking = finish(async move {
            store.commit(writes).await?;
            let mut book = book.lock();
            book.retain(|id, _| !old.contains(id));
            book.insert(approval.id.clone(), approval.clone());
            drop(book);
            drop(changing);
            // Nobody listening is fine: the question also stands in the list.
            let _ = asked.send(approval.clone());
            Ok(approval)
        });
        asking.await.unwrap_or_else(|| Err(stopped().into()))
    }

    /// The question that stands already, or whether there is room for this one.
    fn admit(&self, approval: &Approval, now: u64) -> Result<Option<Approval>, ApprovalError> {
        let book = self.book.lock();
        if let Some(standing) = current(&book, &approval.binding, now) {
            return Ok(Some(standing));
        }
        let pending =
            |other: &&Approval| other.state == ApprovalState::Pending && now < other.expires_at;
        let all = book.values().filter(pending).count();
        let own = book
            .values()
            .filter(pending)
            .filter(|other| other.principal == approval.principal)
            .count();
        if all >= MAX_PENDING {
            return Err(ApprovalError::TooMany(all));
        }
        if own >= MAX_PENDING_PER_CALLER {
            return Err(ApprovalError::TooMany(own));
        }
        Ok(None)
    }

    /// An approval as a person's answer leaves it. Only a pending one can be decided. It counts once
    /// the store has it by [`Write::SettleApproval`] and [`settle`](Self::settle) is told.
    pub fn decided(&self, id: &str, answer: ApprovalState) -> Result<Approval, ApprovalError> {
        let now = self.clock.now_ms();
        let pending = self.in_state(id, ApprovalState::Pending, now)?;
        Ok(Approval { state: answer, decided_at: Some(now), ..pending })
    }

    /// Takes over what the store has of an approval, after a [`Conflict`](StoreError::Conflict) with
    /// another gateway.
    pub async fn reload(&self, id: &str) -> Result<(), StoreError> {
        let stored = self.store.approvals().await?.into_iter().find(|approval| approval.id == id);
        let mut book = self.book.lock();
        match stored {
            Some(stored) => book.insert(stored.id.clone(), stored),
            None => book.remove(id),
        };
        drop(book);
        self.decided.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Takes over a decision that the store has.
    pub fn settle(&self, decided: Approval) {
        self.book.lock().insert(decided.id.clone(), decided);
        self.decided.send_modify(|count| *count += 1);
    }

    /// The ids of all approvals of a principal.
    #[must_use]
    pub fn of(&self, principal: &Principal) -> Vec<String> {
        let book = self.book.lock();
        let own = book.values().filter(|approval| approval.principal == *principal);
        own.map(|approval| approval.id.clone()).collect()
    }

    /// Forgets approvals that the store no longer has.
    pub fn forget(&self, ids: &[String]) {
        self.book.lock().retain(|id, _| !ids.contains(id));
        self.decided.send_modify(|count| *count += 1);
    }

    /// Uses an approval for the call it is bound to. Only one caller of this ever gets it; where the
    /// caller goes away before it is told, the approval is put back.
    pub async fn consume(&self, id: &str) -> Result<Approval, ApprovalError> {
        let changing = Arc::clone(&self.changing).lock_owned().await;
        let now = self.clock.now_ms();
        let approved = self.in_state(id, ApprovalState::Approved, now)?;
        let used =
            Approval { state: ApprovalState::Used, decided_at: Some(now), ..approved.clone() };
        let (store, book) = (Arc::clone(&self.store), Arc::clone(&self.book));
        let decided = self.decided.clone();
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            let _changing = changing;
            let settle = async |from: ApprovalState, to: Approval| {
                store.commit(vec![Write::SettleApproval { from, to: to.clone() }]).await?;
                book.lock().insert(to.id.clone(), to.clone());
                Ok::<_, StoreError>(to)
            };
            if let Err(Ok(_)) = tell.send(settle(ApprovalState::Approved, used).await)
                && settle(ApprovalState::Used, approved).await.is_ok()
            {
                decided.send_modify(|count| *count += 1);
            }
        });
        match told.await.unwrap_or_else(|_| Err(stopped())) {
            Err(StoreError::Conflict { .. }) => {
                self.reload(id).await?;
                self.in_state(id, ApprovalState::Approved, now)
            }
            told => Ok(told?),
        }
    }

    fn in_state(
        &self,
        id: &str,
        state: ApprovalState,
        now: u64,
    ) -> Result<Approval, ApprovalError> {
        let book = self.book.lock();
        let approval = book.get(id).ok_or_else(|| ApprovalError::Unknown(id.to_owned()))?;
        let approval = aged(approval.clone(), now);
        if approval.state == state {
            return Ok(approval);
        }
        Err(ApprovalError::Settled { id: id.to_owned(), state: approval.state })
    }
}

fn stopped() -> StoreError {
    let reason = "the gateway is stopping".to_owned();
    StoreError::Unavailable { operation: "write an approval", reason }
}

/// The approval that stands for a binding: not used, not expired.
fn current(book: &BTreeMap<String, Approval>, binding: &str, now: u64) -> Option<Approval> {
    let bound = book.values().filter(|approval| approval.binding == binding);
    let bound = bound.filter(|approval| now < approval.expires_at);
    let standing =
        bound.map(|approval| aged(approval.clone(), now)).filter(|approval| match approval.state {
            ApprovalState::Pending | ApprovalState::Approved | ApprovalState::Denied => true,
            ApprovalState::Used | ApprovalState::Expired => false,
        });
    standing.max_by_key(|approval| approval.created_at)
}

/// What ended long ago, and the oldest that have ended where there are too many.
fn forgettable(book: &BTreeMap<String, Approval>, now: u64) -> Vec<String> {
    let surplus = book.len().saturating_sub(MAX_REMEMBERED);
    let mut ended: Vec<(u64, String)> = book
        .values()
        .filter(|approval| surplus > 0 && now >= approval.expires_at || long_ago(approval, now))
        .map(|approval| (approval.expires_at, approval.id.clone()))
        .collect();
    ended.sort();
    let mut forgotten = Vec::new();
    for (_, id) in ended {
        let old = book.get(&id).is_some_and(|approval| long_ago(approval, now));
        if old || forgotten.len() < surplus {
            forgotten.push(id);
        }
    }
    forgotten
}

fn long_ago(approval: &Approval, now: u64) -> bool {
    approval.expires_at.saturating_add(REMEMBER_MS) < now
}

/// An approval that nobody used in time has expired. A no stays a no for who reads the list, though
/// it no longer stands for a call.
fn aged(mut approval: Approval, now: u64) -> Approval {
    match approval.state {
        ApprovalState::Pending | ApprovalState::Approved if now >= approval.expires_at => {
            approval.state = ApprovalState::Expired;
        }
        ApprovalState::Pending
        | ApprovalState::Approved
        | ApprovalState::Denied
        | ApprovalState::Used
        | ApprovalState::Expired => {}
    }
    approval
}

#[cfg(test)]
#[path = "approvals_tests.rs"]
mod tests;
