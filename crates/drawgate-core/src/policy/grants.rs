//! The book of grants, in memory for every call. The store is changed first, by whoever changes it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{Mutex, RwLock, RwLockReadGuard, watch};

use crate::model::{Caller, Capability, CapabilityGrant, GrantId, GrantScope, Principal};
use crate::store::{Agent, Store, StoreError};

/// Prefix of the ids of grants that stand as long as an agent's registration does.
const STANDING: &str = "standing:";

/// Why a grant can't be changed.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// No such grant.
    #[error("there is no grant `{0}`")]
    Unknown(String),
    /// A grant that comes from an agent's registration.
    #[error("`{0}` is part of an agent's registration; change it there")]
    Standing(String),
}

/// The grants that cover a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cover {
    /// Their ids, in the order of what is required.
    pub grants: Vec<GrantId>,
    /// The approval behind the first of them, if there is one behind each: what a person has approved
    /// in part is not approved.
    pub approval: Option<String>,
}

/// What is not covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(pub Vec<Capability>);

/// All grants. Reading takes no lock.
pub struct Grants {
    index: ArcSwap<Index>,
    changing: Mutex<()>,
    changed: watch::Sender<u64>,
    starting: RwLock<()>,
}

/// Held between the last look at a call's grants and the first step of its tool.
pub(crate) type Starting<'a> = RwLockReadGuard<'a, ()>;

#[derive(Default)]
struct Index {
    by_id: BTreeMap<GrantId, Arc<CapabilityGrant>>,
    by_user: HashMap<Principal, Vec<Arc<CapabilityGrant>>>,
    shared: Vec<Arc<CapabilityGrant>>,
}

impl Index {
    fn build(grants: impl IntoIterator<Item = Arc<CapabilityGrant>>) -> Self {
        let mut index = Self::default();
        for grant in grants {
            match &grant.scope {
                Some(GrantScope::User(name)) => {
                    index.by_user.entry(name.clone()).or_default().push(Arc::clone(&grant));
                }
                Some(GrantScope::Workspace | GrantScope::Session(_)) | None => {
                    index.shared.push(Arc::clone(&grant));
                }
            }
            index.by_id.insert(Arc::clone(&grant.grant_id), grant);
        }
        index
    }

    fn of(&self, caller: &Caller) -> impl Iterator<Item = &Arc<CapabilityGrant>> {
        self.by_user.get(&caller.principal).into_iter().flatten().chain(&self.shared)
    }
}

/// The grants that an agent's registration stands for.
#[must_use]
pub fn standing_grants(agent: &Agent) -> Vec<CapabilityGrant> {
    agent
        .capabilities
        .iter()
        .map(|capability| CapabilityGrant {
            grant_id: format!("{STANDING}{}:{capability}", agent.name).into(),
            capability: capability.clone(),
            issued_at: agent.created_at,
            expires_at: None,
            scope: Some(GrantScope::User(agent.name.clone())),
            approval_id: None,
        })
        .collect()
}

impl Grants {
    /// Loads the book: what is stored, and what stands by registration.
    pub async fn load(
        store: Arc<dyn Store>,
        standing: Vec<CapabilityGrant>,
    ) -> Result<Self, StoreError> {
        let stored = store.grants().await?;
        let index = Index::build(stored.into_iter().chain(standing).map(Arc::new));
        Ok(Self {
            index: ArcSwap::from_pointee(index),
            changing: Mutex::new(()),
            changed: watch::Sender::new(0),
            starting: RwLock::new(()),
        })
    }

    /// Makes a grant usable that the store has.
    pub async fn issue(&self, grant: CapabilityGrant) {
        let _changing = self.changing.lock().await;
        self.rebuild(|grants| {
            grants.insert(Arc::clone(&grant.grant_id), Arc::new(grant));
        });
    }

    /// The grant with this id, whether or not it has ended.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<CapabilityGrant>> {
        self.index.load().by_id.get(id).cloned()
    }

    /// The id of a grant that can be revoked by itself.
    pub fn revocable(&self, id: &str) -> Result<GrantId, GrantError> {
        if id.starts_with(STANDING) {
            return Err(GrantError::Standing(id.to_owned()));
        }
        let index = self.index.load();
        let found = index.by_id.get_key_value(id).map(|(id, _)| Arc::clone(id));
        found.ok_or_else(|| GrantError::Unknown(id.to_owned()))
    }

    /// Takes grants out of use that the store no longer has. After this returns no call starts on them.
    pub async fn revoke(&self, ids: &[GrantId]) {
        let _changing = self.changing.lock().await;
        self.withdraw(|grants| grants.retain(|id, _| !ids.contains(id))).await;
    }

    /// The grants that were issued to a principal by name, beside those that stand by registration.
    #[must_use]
    pub fn issued_to(&self, name: &Principal) -> Vec<GrantId> {
        let index = self.index.load();
        let own = index.by_user.get(name).into_iter().flatten();
        let issued = own.filter(|grant| !grant.grant_id.starts_with(STANDING));
        issued.map(|grant| Arc::clone(&grant.grant_id)).collect()
    }

    /// Lets a call look at its grants and start, while none is withdrawn.
    pub(crate) async fn starting(&self) -> Starting<'_> {
        self.starting.read().await
    }

    /// A change after which no call starts on what is gone: one that has looked already starts first.
    async fn withdraw(&self, change: impl FnOnce(&mut BTreeMap<GrantId, Arc<CapabilityGrant>>)) {
        let _starting = self.starting.write().await;
        self.rebuild(change);
    }

    /// Replaces what stands by the registration of one agent.
    pub async fn set_standing(&self, name: &Principal, standing: Vec<CapabilityGrant>) {
        let _changing = self.changing.lock().await;
        self.withdraw(|grants| {
            grants.retain(|id, grant| {
                !id.starts_with(STANDING) || grant.scope != Some(GrantScope::User(name.clone()))
            });
            grants.extend(
                standing.into_iter().map(|grant| (Arc::clone(&grant.grant_id), Arc::new(grant))),
            );
        })
        .await;
    }

    fn rebuild(&self, change: impl FnOnce(&mut BTreeMap<GrantId, Arc<CapabilityGrant>>)) {
        let mut grants = self.index.load().by_id.clone();
        change(&mut grants);
        self.index.store(Arc::new(Index::build(grants.into_values())));
        self.changed.send_modify(|count| *count += 1);
    }

    /// Changes whenever a grant does.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Every grant that has not ended, by id.
    #[must_use]
    pub fn live(&self, now: u64) -> Vec<CapabilityGrant> {
        let index = self.index.load();
        let live =
            index.by_id.values().filter(|grant| grant.expires_at.is_none_or(|end| now < end));
        live.map(|grant| (**grant).clone()).collect()
    }

    /// What a caller holds at a moment; of a run, what its ceilings leave of that.
    #[must_use]
    pub fn held(&self, caller: &Caller, now: u64) -> BTreeSet<Capability> {
        let index = self.index.load();
        let all = index.of(caller).chain(caller.carried.iter());
        let live = all.filter(|grant| grant.is_live(caller, now));
        let held = live.map(|grant| grant.capability.clone()).collect();
        match &caller.lineage {
            Some(lineage) => lineage.limit(held),
            None => held,
        }
    }

    /// Whether a caller's live grants cover all that is required, and which do. `only` restricts them to
    /// those named, also what stands by registration or came with the request. What a run requires, its
    /// own ceiling and those of all runs above it must cover too.
    pub fn cover(
        &self,
        caller: &Caller,
        requires: &[Capability],
        only: Option<&[GrantId]>,
        now: u64,
    ) -> Result<Cover, Missing> {
        let index = self.index.load();
        let wanted =
            |grant: &&Arc<CapabilityGrant>| only.is_none_or(|only| only.contains(&grant.grant_id));
        let left = |required: &Capability| {
            caller.lineage.as_ref().is_none_or(|lineage| lineage.leaves(required))
        };
        let mut cover = Cover::default();
        let (mut missing, mut all_approved) = (Vec::new(), true);
        for required in requires {
            let usable = index.of(caller).chain(caller.carried.iter()).filter(wanted);
            let covering = usable
                .filter(|grant| grant.is_live(caller, now) && grant.capability.covers(required));
            // A grant with an approval behind it is worth more than one without.
            match covering.max_by_key(|grant| grant.approval_id.is_some()) {
                Some(grant) if left(required) => {
                    if !cover.grants.contains(&grant.grant_id) {
                        cover.grants.push(Arc::clone(&grant.grant_id));
                    }
                    all_approved &= grant.approval_id.is_some();
                    cover.approval = cover.approval.or_else(|| grant.approval_id.clone());
                }
                Some(_) | None => missing.push(required.clone()),
            }
        }
        cover.approval = cover.approval.filter(|_| all_approved);
        if missing.is_empty() { Ok(cover) } else { Err(Missing(missing)) }
    }
}

#[cfg(test)]
#[path = "grants_tests.rs"]
mod tests;
