//! The task of one source: asks for its manifest, registers it, follows changes, retries what fails.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::super::contents::Gone;
use super::super::pins::{Accepted, PinStore, Remembered};
use super::super::{
    Absence, Acceptance, BadTool, Held, Origin, Quarantined, Registration, RegistrationError,
    Registry, ReviewError, SourceTerms,
};
use super::status::{SourceState, SourceStatus};
use crate::clock::Clock;
use crate::guard;
use crate::model::{McpManifest, Principal, SourceId, shown_name};
use crate::source::ToolSource;
use crate::store::StoreError;

/// A server that announces changes all the time is asked no more often than this.
pub(super) const REFRESH_PAUSE: Duration = Duration::from_secs(1);
/// The first and the longest pause before a failed source is asked again.
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(500);
pub(super) const LAST_RETRY: Duration = Duration::from_mins(1);
/// How long one manifest may take, at the very most: sources have limits of their own, and a first
/// start may have to download the server.
pub(super) const MANIFEST_TIME: Duration = Duration::from_mins(11);

/// The task of one source.
pub(super) struct SupervisedSource {
    pub(super) registry: Arc<Registry>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) source: Arc<dyn ToolSource>,
    pub(super) terms: Mutex<SourceTerms>,
    pub(super) origin: Origin,
    /// What the source said last, to be registered again under other terms.
    pub(super) manifest: Mutex<Option<McpManifest>>,
    pub(super) status: Mutex<SourceStatus>,
    pub(super) settled: watch::Sender<u64>,
    /// Held while tools are registered or marked as gone, so that an acceptance can't mix with either.
    pub(super) pin_store: Arc<tokio::sync::Mutex<PinStore>>,
    /// Told when somebody needs the source, which is then tried again without waiting.
    pub(super) again: Arc<Notify>,
    /// Whether what is known of it from before is registered.
    pub(super) is_remembered: AtomicBool,
    /// Whether the first lists have waited for it in vain, now or at an earlier start.
    pub(super) was_late: AtomicBool,
}

/// When a source is asked again.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// When it announces a change.
    Change,
    /// When it is time for another try.
    Retry,
    /// When this one has started, which holds a name that it wants.
    Start(SourceId),
}

impl SupervisedSource {
    /// Whether the first lists wait for it: no tools of it are known, and no earlier start waited in vain.
    pub(super) fn is_awaited(&self, status: &SourceStatus) -> bool {
        status.tools == 0 && !self.was_late.load(Ordering::Acquire)
    }

    pub(super) async fn run(self: Arc<Self>) {
        self.remember(&mut *self.pin_store.lock().await).await;
        let mut changes = self.source.changes();
        let mut pause = FIRST_RETRY;
        loop {
            if let Some(changes) = &mut changes {
                changes.mark_unchanged();
            }
            let asked = Instant::now();
            let next = self.refresh().await;
            self.settled.send_modify(|count| *count += 1);
            self.wait(&mut changes, &next, pause).await;
            let has_failed = next == Next::Retry;
            let least = if has_failed { REFRESH_PAUSE.min(pause) } else { REFRESH_PAUSE };
            tokio::time::sleep_until(asked + least).await;
            pause = if has_failed { (pause * 2).min(LAST_RETRY) } else { FIRST_RETRY };
        }
    }

    /// Offers what is trusted of the source from before, until it has been asked. A call of it waits, so that
    /// what has changed since then is never called by its earlier definition.
    async fn remember(&self, pin_store: &mut PinStore) {
        let id = self.source.id();
        let Remembered { manifest, names } = pin_store.remembered().await;
        self.starting(names);
        let registered = manifest.map(|it| self.registry.replace_remembered(self.registration(it)));
        let is_registered = match registered {
            Some(Ok(_)) => true,
            Some(Err(error)) => {
                // Conflicts with sources that have its names now are found when it has been asked.
                tracing::debug!(source = %id, %error, "tools are not listed before their source is there");
                false
            }
            None => false,
        };
        if !is_registered {
            self.registry.remove(id);
            self.was_late.store(pin_store.was_late().await, Ordering::Release);
        }
        {
            let mut status = self.status.lock();
            status.tools = if is_registered { self.registered() } else { 0 };
        }
        self.is_remembered.store(true, Ordering::Release);
        self.settled.send_modify(|count| *count += 1);
    }

    /// How many tools are registered.
    fn registered(&self) -> usize {
        let snapshot = self.registry.snapshot();
        snapshot.entries().filter(|entry| entry.id.source() == self.source.id()).count()
    }

    /// Until the source announces a change; if it failed, until it is time to try again or it is needed;
    /// and if another one holds its names that is starting, until that one has started.
    async fn wait(&self, changes: &mut Option<watch::Receiver<u64>>, next: &Next, pause: Duration) {
        let announced = async {
            let heard = match changes {
                Some(changes) => changes.changed().await.is_ok(),
                None => false,
            };
            if !heard {
                std::future::pending::<()>().await;
            }
        };
        match next {
            Next::Change => announced.await,
            Next::Start(holder) => tokio::select! {
                () = announced => {}
                () = self.registry.started(holder) => {}
            },
            Next::Retry => {
                let due = tokio::time::timeout(pause, announced);
                tokio::select! {
                    _ = due => {}
                    () = self.again.notified() => {}
                }
            }
        }
    }

    /// Asks once.
    async fn refresh(&self) -> Next {
        let asked = self.ask().await;
        let mut pin_store = self.pin_store.lock().await;
        match asked {
            Ok(manifest) => self.register(&mut pin_store, manifest).await,
            Err(problem) => {
                self.failed(problem);
                Next::Retry
            }
        }
    }

    async fn ask(&self) -> Result<McpManifest, String> {
        let asked = guard::catch(self.source.manifest());
        match tokio::time::timeout(MANIFEST_TIME, asked).await {
            Ok(Ok(Ok(manifest))) => Ok(manifest),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(guard::Panicked)) => Err("the source failed inside".to_owned()),
            Err(_) => Err(format!("no answer within {} s", MANIFEST_TIME.as_secs())),
        }
    }

    pub(super) fn registration(&self, manifest: McpManifest) -> Registration {
        Registration {
            manifest,
            terms: self.terms.lock().clone(),
            origin: self.origin,
            source: Arc::clone(&self.source),
        }
    }

    /// Registers what is trusted of a manifest.
    async fn register(&self, pin_store: &mut PinStore, manifest: McpManifest) -> Next {
        let server = format!("{} {}", manifest.name, manifest.version);
        *self.manifest.lock() = Some(manifest.clone());
        // What speaks for another source is refused below; nothing of it is worth a pin.
        let sifted = if manifest.server_id == *self.source.id() {
            pin_store.sift(manifest).await
        } else {
            Ok(manifest)
        };
        let manifest = match sifted {
            Ok(manifest) => manifest,
            Err(error) => {
                self.failed(format!("its definitions can't be compared: {error}"));
                return Next::Retry;
            }
        };
        let before = self.registry.snapshot();
        let result = self.registry.replace(self.registration(manifest));
        // A name of before is given up if its holder comes back without it.
        let taken = match &result {
            Err(RegistrationError::Refused { taken, .. }) => taken.as_slice(),
            Err(_) | Ok(_) => &[],
        };
        let holders = taken.iter().map(|conflict| conflict.holder.source());
        let mut starting = holders.filter(|holder| {
            before.gone(holder) == Some(Gone::NotYet) || self.registry.is_starting(holder)
        });
        let next = starting.next().map_or(Next::Change, |holder| Next::Start(holder.clone()));
        drop(before);
        self.note(server, result, pin_store.held());
        pin_store.report().await;
        next
    }

    pub(super) fn note(
        &self,
        server: String,
        result: Result<Vec<BadTool>, RegistrationError>,
        held: &[Held],
    ) {
        let now = self.clock.now_ms();
        let mut status = self.status.lock();
        status.server = Some(server);
        status.quarantined = held.iter().map(Quarantined::from).collect();
        status.failures = 0;
        match result {
            Ok(left_out) => {
                for tool in &left_out {
                    tracing::warn!(source = %status.id, tool = shown_name(&tool.tool), reason = tool.reason, "a tool was left out");
                }
                let tools = self.registered();
                tracing::info!(source = %status.id, tools, "source ready");
                self.some_absent();
                status.become_state(SourceState::Ready, now);
                status.tools = tools;
                status.left_out = left_out;
                status.problem = None;
            }
            Err(error) => {
                tracing::error!(source = %status.id, error = %error, "source refused");
                // What is listed from its pins would wait for it in vain.
                if self.registry.is_starting(&status.id) {
                    self.registry.remove(&status.id);
                    status.tools = 0;
                }
                self.absent(&error.to_string());
                status.become_state(SourceState::Refused, now);
                status.problem = Some(error.to_string());
            }
        }
    }

    pub(super) async fn accept(
        self: Arc<Self>,
        actor: &Principal,
        accepted: &[Acceptance],
    ) -> Result<Vec<Held>, ReviewError> {
        let acts = self.pin_store.lock().await.acts();
        // First the turn, then the pins: another act may end this source, which waits for its pins.
        let turn = acts.turn().await;
        let mut pin_store = Arc::clone(&self.pin_store).lock_owned().await;
        let Accepted { found, outcomes, record, write } = pin_store.accept(actor, accepted)?;
        let memory = async move {
            pin_store.trust(record);
            let ready = self.status.lock().state != SourceState::Failed;
            // Of a source that is gone, it counts when the source comes back.
            if let Some(manifest) = pin_store.whole().filter(|_| ready) {
                self.register(&mut pin_store, manifest).await;
            }
        };
        turn.act(outcomes, vec![write], memory).await?;
        Ok(found)
    }

    /// Reads and writes the pins that other terms need, so that [`set_terms`](Self::set_terms) needs
    /// no store.
    pub(super) async fn prepare(&self, terms: &SourceTerms) -> Result<(), StoreError> {
        let mut pin_store = self.pin_store.lock().await;
        let manifest = self.manifest.lock().clone();
        match manifest {
            Some(manifest) => {
                pin_store.prepare_trust(self.origin.trust_under(terms), &manifest).await
            }
            None => Ok(()),
        }
    }

    /// Registers what the source said last under other terms.
    pub(super) async fn set_terms(&self, terms: SourceTerms) {
        let mut pin_store = self.pin_store.lock().await;
        pin_store.set_trust(self.origin.trust_under(&terms));
        *self.terms.lock() = terms;
        let manifest = self.manifest.lock().clone();
        let is_there = self.status.lock().state != SourceState::Failed;
        match manifest {
            Some(manifest) if is_there => drop(self.register(&mut pin_store, manifest).await),
            // It is starting, and what is listed of it must be so under these terms too.
            None if is_there => self.remember(&mut pin_store).await,
            Some(_) | None => {}
        }
        // What is left of it is registered under the earlier terms.
        if matches!(self.status.lock().state, SourceState::Failed | SourceState::Refused) {
            self.registry.remove(self.source.id());
        }
    }

    /// Callers who may use the source hear that it is not there yet.
    pub(super) fn starting(&self, names: BTreeSet<String>) {
        let id = self.source.id();
        let terms = self.terms.lock();
        let mut absence = Absence::new(id, &terms.capabilities, "is starting");
        absence.names = names;
        absence.starting = Some(terms.limits.timeout);
        drop(terms);
        self.registry.set_absent(id, absence);
    }

    /// Callers who may use the source hear why it offers nothing.
    fn absent(&self, problem: &str) {
        let id = self.source.id();
        let mut absence = Absence::failed(id, &self.terms.lock(), problem);
        absence.names.extend(self.source.missing().into_keys());
        absence.again = Some(Arc::clone(&self.again));
        self.registry.set_absent(id, absence);
    }

    /// The source is there. Callers who may use it hear why it does not offer some of its tools.
    fn some_absent(&self) {
        let id = self.source.id();
        match Absence::of_some(id, &self.terms.lock(), self.source.missing()) {
            Some(absence) => self.registry.set_absent(id, absence),
            None => self.registry.clear_absent(id),
        }
    }

    fn failed(&self, problem: String) {
        self.registry.set_down(self.source.id());
        self.absent(&problem);
        let mut status = self.status.lock();
        // Each try ends like the one before; a person needs to read that once.
        if status.problem.as_ref() == Some(&problem) {
            tracing::debug!(source = %status.id, problem, "source failed again");
        } else {
            tracing::warn!(source = %status.id, problem, "source failed; it will be tried again");
        }
        status.become_state(SourceState::Failed, self.clock.now_ms());
        status.tools = 0;
        status.problem = Some(problem);
        status.failures += 1;
    }
}

#[cfg(test)]
#[path = "../starting_tests.rs"]
mod tests;
