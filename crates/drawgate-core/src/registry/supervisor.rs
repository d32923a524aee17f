//! Keeps sources registered. A configured source has a task that asks for its manifest and retries; a
//! source that connects by itself stays registered as long as its connection.
//!
//! A source that fails harms no other: its tools leave the list, it is tried again with growing
//! pauses, and its state can be read by people.

mod admitted;
mod check;
mod reserved;
mod status;
mod supervised;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::pins::PinStore;
use super::{
    Acceptance, Held, Origin, Pins, RegistrationError, Registry, ReviewError, SourceTerms,
};
use crate::model::{Principal, SourceId, shown_name};
use crate::source::ToolSource;
use crate::store::StoreError;
use admitted::LeaveSignals;
use reserved::Reserved;
pub use reserved::{Holder, IdTaken};
pub use status::{SourceState, SourceStatus};
use supervised::SupervisedSource;

/// Supervises every source of the gateway. Locks are taken in the order of the fields.
pub struct SourceSupervisor {
    registry: Arc<Registry>,
    pins: Pins,
    sources: Mutex<BTreeMap<SourceId, Supervision>>,
    unusable: Mutex<BTreeMap<SourceId, SourceStatus>>,
    reserved: Mutex<Reserved>,
    settled: watch::Sender<u64>,
}

struct Supervision {
    supervised: Arc<SupervisedSource>,
    handle: SourceHandle,
}

/// What ends a source: its task, or the signals to its connection.
enum SourceHandle {
    /// The task that the operator's configuration has started.
    Configured(JoinHandle<()>),
    /// The signals to a source that connected by itself.
    Admitted(LeaveSignals),
}

impl Supervision {
    fn is_configured(&self) -> bool {
        match self.handle {
            SourceHandle::Configured(_) => true,
            SourceHandle::Admitted(_) => false,
        }
    }
}

impl SourceSupervisor {
    /// Creates a supervisor without sources.
    #[must_use]
    pub fn new(registry: Arc<Registry>, pins: Pins) -> Self {
        Self {
            registry,
            pins,
            sources: Mutex::default(),
            unusable: Mutex::default(),
            reserved: Mutex::default(),
            settled: watch::Sender::new(0),
        }
    }

    /// Starts to supervise a source that the operator has configured.
    pub fn add(
        &self,
        source: Arc<dyn ToolSource>,
        terms: SourceTerms,
        origin: Origin,
    ) -> Result<(), RegistrationError> {
        let id = source.id().clone();
        let mut sources = self.sources.lock();
        if sources.contains_key(&id) {
            return Err(RegistrationError::SourceTaken(id));
        }
        let supervised = self.supervised_source(source, terms, origin);
        supervised.starting(BTreeSet::new());
        let task = tokio::spawn(Arc::clone(&supervised).run());
        self.unusable.lock().remove(&id);
        sources.insert(id, Supervision { supervised, handle: SourceHandle::Configured(task) });
        Ok(())
    }

    fn supervised_source(
        &self,
        source: Arc<dyn ToolSource>,
        terms: SourceTerms,
        origin: Origin,
    ) -> Arc<SupervisedSource> {
        let id = source.id().clone();
        let trust = origin.trust_under(&terms);
        let pin_store = PinStore::new(id.clone(), trust, &terms.identity, self.pins.clone());
        Arc::new(SupervisedSource {
            registry: Arc::clone(&self.registry),
            clock: Arc::clone(&self.pins.clock),
            source,
            terms: Mutex::new(terms),
            origin,
            manifest: Mutex::default(),
            status: Mutex::new(SourceStatus::starting(id, self.pins.clock.now_ms())),
            settled: self.settled.clone(),
            pin_store: Arc::new(tokio::sync::Mutex::new(pin_store)),
            again: Arc::default(),
            is_remembered: AtomicBool::new(false),
            was_late: AtomicBool::new(false),
        })
    }

    /// Does what [`set_terms`](Self::set_terms) needs the store for. Changes nothing for callers.
    pub async fn prepare_terms(
        &self,
        id: &SourceId,
        terms: &SourceTerms,
    ) -> Result<(), StoreError> {
        match self.find_supervised(id.as_str()) {
            Some(supervised) => supervised.prepare(terms).await,
            None => Ok(()),
        }
    }

    /// Puts other terms into force for a source: its tools are registered again as it described them
    /// last. Neither the source nor its calls are touched. `false` if there is no such source.
    pub async fn set_terms(&self, id: &SourceId, terms: SourceTerms) -> bool {
        let Some(supervised) = self.find_supervised(id.as_str()) else { return false };
        supervised.set_terms(terms).await;
        true
    }

    /// Removes a source: its tools go, its connections and child processes end.
    pub async fn remove(&self, id: &SourceId) {
        self.unusable.lock().remove(id);
        self.registry.clear_absent(id);
        let removed = self.sources.lock().remove(id);
        if let Some(Supervision { supervised, handle }) = removed {
            if let SourceHandle::Configured(task) = handle {
                task.abort();
                // Its end is awaited, lest it registers the tools once more after they are gone.
                let _ = task.await;
            }
            supervised.pin_store.lock().await.retire();
            self.registry.remove(id);
            self.registry.clear_absent(id);
            supervised.source.close().await;
        }
        self.reserved.lock().ended(id);
    }

    /// Ends all sources at once.
    pub async fn close(&self) {
        let all: Vec<Supervision> =
            std::mem::take(&mut *self.sources.lock()).into_values().collect();
        let ends = all.into_iter().map(|found| {
            if let SourceHandle::Configured(task) = &found.handle {
                task.abort();
            }
            tokio::spawn(async move { found.supervised.source.close().await })
        });
        for end in ends.collect::<Vec<_>>() {
            // A panic while closing one source must not keep the others open.
            let _ = end.await;
        }
    }

    /// The registry that holds their tools.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The sources' ids.
    #[must_use]
    pub fn ids(&self) -> Vec<SourceId> {
        self.sources.lock().keys().cloned().collect()
    }

    /// Whether the source with this id connected by itself.
    #[must_use]
    pub fn is_admitted(&self, id: &str) -> bool {
        self.sources.lock().get(id).is_some_and(|found| !found.is_configured())
    }

    /// One source.
    #[must_use]
    pub fn source(&self, id: &SourceId) -> Option<Arc<dyn ToolSource>> {
        self.sources.lock().get(id).map(|found| Arc::clone(&found.supervised.source))
    }

    /// The definitions of a source that wait for a person.
    pub async fn review(&self, id: &str) -> Result<Vec<Held>, ReviewError> {
        let supervised = self.supervised(id)?;
        let pin_store = supervised.pin_store.lock().await;
        Ok(pin_store.held().to_vec())
    }

    /// Trusts definitions that a person has seen, and offers them at once.
    pub async fn accept(
        &self,
        actor: &Principal,
        id: &str,
        accepted: Vec<Acceptance>,
    ) -> Result<Vec<Held>, ReviewError> {
        let supervised = self.supervised(id)?;
        supervised.accept(actor, &accepted).await
    }

    fn supervised(&self, id: &str) -> Result<Arc<SupervisedSource>, ReviewError> {
        self.find_supervised(id).ok_or_else(|| ReviewError::NoServer(shown_name(id)))
    }

    fn find_supervised(&self, id: &str) -> Option<Arc<SupervisedSource>> {
        self.sources.lock().get(id).map(|found| Arc::clone(&found.supervised))
    }
}

#[cfg(test)]
#[path = "supervisor_tests.rs"]
mod tests;
