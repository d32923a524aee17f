//! Keeps sources registered: asks for manifests, follows changes, retries what fails.
//!
//! Each source has one task. A source that fails harms no other: its tools leave the list, it is
//! tried again with growing pauses, and its state can be read by people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::pins::Ward;
use super::{
    Acceptance, BadTool, Held, Origin, Pins, Quarantined, Registration, RegistrationError,
    Registry, ReviewError, SourceTerms, Trust, Wanted,
};
use crate::clock::Clock;
use crate::guard;
use crate::model::{McpManifest, SourceId, shown_name};
use crate::source::ToolSource;

/// A server that announces changes all the time is asked no more often than this.
const REFRESH_PAUSE: Duration = Duration::from_secs(1);
/// The first and the longest pause before a failed source is asked again.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_mins(1);
/// How long one manifest may take, at the very most: sources have limits of their own, and a first
/// start may have to download the server.
const MANIFEST_TIME: Duration = Duration::from_mins(11);

/// Where a source stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    /// Asked, not answered yet.
    Starting,
    /// Its tools are registered.
    Ready,
    /// It could not be reached or understood; it is tried again.
    Failed,
    /// Its tools could not be registered; a change of configuration is needed.
    Refused,
    /// It came by itself and is gone for a moment; its tools are still listed.
    Away,
}

/// A source's state, for people.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceStatus {
    /// The source.
    pub id: SourceId,
    /// Where it stands.
    pub state: SourceState,
    /// Since when, in milliseconds since the epoch.
    pub since: u64,
    /// What it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How many of its tools are registered.
    pub tools: usize,
    /// Tools that were left out, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<BadTool>,
    /// Definitions that wait for a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<Quarantined>,
    /// The last failure, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Failures in a row.
    pub failures: u32,
}

impl SourceStatus {
    fn starting(id: SourceId, now: u64) -> Self {
        Self {
            id,
            state: SourceState::Starting,
            since: now,
            server: None,
            tools: 0,
            left_out: Vec::new(),
            quarantined: Vec::new(),
            problem: None,
            failures: 0,
        }
    }

    fn become_state(&mut self, state: SourceState, now: u64) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
    }
}

struct Kept {
    attendant: Arc<Attendant>,
    /// None for a source that came by itself: its connection says when it goes.
    task: Option<JoinHandle<()>>,
}

impl Kept {
    fn is(&self, source: &Arc<dyn ToolSource>) -> bool {
        self.task.is_none()
            && std::ptr::addr_eq(Arc::as_ptr(&self.attendant.source), Arc::as_ptr(source))
    }
}

/// Every source of the gateway.
pub struct Keeper {
    registry: Arc<Registry>,
    pins: Pins,
    kept: Mutex<BTreeMap<SourceId, Kept>>,
    unusable: Mutex<BTreeMap<SourceId, SourceStatus>>,
    settled: watch::Sender<u64>,
}

impl Keeper {
    /// A keeper of nothing yet.
    #[must_use]
    pub fn new(registry: Arc<Registry>, pins: Pins) -> Self {
        Self {
            registry,
            pins,
            kept: Mutex::default(),
            unusable: Mutex::default(),
            settled: watch::Sender::new(0),
        }
    }

    /// Begins to keep a source.
    pub fn add(
        &self,
        source: Arc<dyn ToolSource>,
        terms: SourceTerms,
        origin: Origin,
    ) -> Result<(), RegistrationError> {
        let id = source.id().clone();
        let mut kept = self.kept.lock();
        if kept.contains_key(&id) {
            return Err(RegistrationError::SourceTaken(id));
        }
        let attendant = self.attendant_of(source, terms, origin);
        let task = tokio::spawn(Arc::clone(&attendant).attend());
        self.unusable.lock().remove(&id);
        kept.insert(id, Kept { attendant, task: Some(task) });
        Ok(())
    }

    /// Takes in a source that came by itself, with its manifest: registered whole when this returns,
    /// or refused. One of the same id that came by itself too is replaced in the same revision, and
    /// closed.
    pub async fn admit(
        &self,
        source: Arc<dyn ToolSource>,
        manifest: McpManifest,
        terms: SourceTerms,
    ) -> Result<(), RegistrationError> {
        let id = source.id().clone();
        let attendant = self.attendant_of(source, terms, Origin::Admitted);
        let server = format!("{} {}", manifest.name, manifest.version);
        let wanted = Wanted::of(attendant.registration(manifest))?;
        let replaced = {
            let mut kept = self.kept.lock();
            if kept.get(&id).is_some_and(|other| other.task.is_some()) {
                return Err(RegistrationError::SourceTaken(id));
            }
            let done = self.registry.commit(wanted);
            attendant.note(server, done.clone(), &[]);
            done?;
            self.unusable.lock().remove(&id);
            kept.insert(id, Kept { attendant, task: None })
        };
        if let Some(replaced) = replaced {
            replaced.attendant.source.close().await;
        }
        Ok(())
    }

    /// What [`admit`](Self::admit) would say now, without taking anything in.
    pub fn examine(
        &self,
        source: Arc<dyn ToolSource>,
        manifest: McpManifest,
        terms: SourceTerms,
    ) -> Result<(), RegistrationError> {
        let id = source.id();
        if self.kept.lock().get(id).is_some_and(|other| other.task.is_some()) {
            return Err(RegistrationError::SourceTaken(id.clone()));
        }
        let origin = Origin::Admitted;
        self.registry.examine(Registration { manifest, terms, origin, source })
    }

    /// A source that came by itself is gone, and expected back: its tools stay listed, and it answers
    /// calls of them as unavailable. Nothing happens if another has taken its place.
    pub fn away(&self, source: &Arc<dyn ToolSource>) {
        let kept = self.kept.lock();
        if let Some(found) = kept.get(source.id()).filter(|kept| kept.is(source)) {
            let now = self.pins.clock.now_ms();
            found.attendant.status.lock().become_state(SourceState::Away, now);
        }
    }

    /// A source that came by itself is gone: its tools leave the list at once, and their names are
    /// free. Nothing happens if another has taken its place; `false` then.
    pub async fn dismiss(&self, source: &Arc<dyn ToolSource>) -> bool {
        {
            let mut kept = self.kept.lock();
            if !kept.get(source.id()).is_some_and(|kept| kept.is(source)) {
                return false;
            }
            kept.remove(source.id());
            self.registry.retire(source.id());
        }
        source.close().await;
        true
    }

    fn attendant_of(
        &self,
        source: Arc<dyn ToolSource>,
        terms: SourceTerms,
        origin: Origin,
    ) -> Arc<Attendant> {
        let id = source.id().clone();
        let trust = match origin {
            // What an author declared in the configuration, the operator has accepted with it; what comes
            // by itself has proved who it is.
            Origin::Declared | Origin::Admitted => Trust::Follow,
            Origin::Discovered => terms.trust,
        };
        let ward = Ward::new(id.clone(), trust, &terms.identity, self.pins.clone());
        Arc::new(Attendant {
            registry: Arc::clone(&self.registry),
            clock: Arc::clone(&self.pins.clock),
            source,
            terms,
            origin,
            status: Mutex::new(SourceStatus::starting(id, self.pins.clock.now_ms())),
            settled: self.settled.clone(),
            ward: tokio::sync::Mutex::new(ward),
        })
    }

    /// Stops keeping a source: its tools go, its connections and children end.
    pub async fn remove(&self, id: &SourceId) {
        self.unusable.lock().remove(id);
        let Some(kept) = self.kept.lock().remove(id) else { return };
        if let Some(task) = kept.task {
            task.abort();
            // Its end is awaited, lest it registers the tools once more after they are gone.
            let _ = task.await;
        }
        kept.attendant.ward.lock().await.retire();
        self.registry.remove(id);
        kept.attendant.source.close().await;
    }

    /// Ends all sources at once.
    pub async fn close(&self) {
        let all: Vec<Kept> = std::mem::take(&mut *self.kept.lock()).into_values().collect();
        let ends = all.into_iter().map(|kept| {
            if let Some(task) = kept.task {
                task.abort();
            }
            tokio::spawn(async move { kept.attendant.source.close().await })
        });
        for end in ends.collect::<Vec<_>>() {
            // A panic while closing one source must not keep the others open.
            let _ = end.await;
        }
    }

    /// Where their tools are registered.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The sources' ids.
    #[must_use]
    pub fn ids(&self) -> Vec<SourceId> {
        self.kept.lock().keys().cloned().collect()
    }

    /// One source.
    #[must_use]
    pub fn source(&self, id: &SourceId) -> Option<Arc<dyn ToolSource>> {
        self.kept.lock().get(id).map(|kept| Arc::clone(&kept.attendant.source))
    }

    /// Notes a source that could not even be made, so that people can see why.
    pub fn report_unusable(&self, id: &SourceId, problem: String) {
        let status = SourceStatus {
            state: SourceState::Refused,
            problem: Some(problem),
            ..SourceStatus::starting(id.clone(), self.pins.clock.now_ms())
        };
        self.unusable.lock().insert(id.clone(), status);
    }

    /// Every source's state, by id.
    #[must_use]
    pub fn status(&self) -> Vec<SourceStatus> {
        let mut all: Vec<SourceStatus> = self.unusable.lock().values().cloned().collect();
        all.extend(self.kept.lock().values().map(|kept| kept.attendant.status.lock().clone()));
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// The definitions of a source that wait for a person.
    pub async fn review(&self, id: &str) -> Result<Vec<Held>, ReviewError> {
        let attendant = self.attendant(id)?;
        let ward = attendant.ward.lock().await;
        Ok(ward.held().to_vec())
    }

    /// Trusts definitions that a person has seen, and offers them at once.
    pub async fn accept(
        &self,
        id: &str,
        accepted: Vec<Acceptance>,
    ) -> Result<Vec<Held>, ReviewError> {
        let attendant = self.attendant(id)?;
        // Whoever asked may go away half-way; what was begun is finished.
        let accepting = tokio::spawn(async move { attendant.accept(&accepted).await });
        accepting.await.unwrap_or(Err(ReviewError::Stopped))
    }

    fn attendant(&self, id: &str) -> Result<Arc<Attendant>, ReviewError> {
        let kept = self.kept.lock();
        let found = kept.get(id).map(|kept| Arc::clone(&kept.attendant));
        found.ok_or_else(|| ReviewError::NoServer(shown_name(id)))
    }

    /// Waits until every source has been tried once, or `limit` has passed.
    pub async fn settle(&self, limit: Duration) {
        self.settle_those(limit, |_| true).await;
    }

    /// The same for one source.
    pub async fn settle_one(&self, id: &SourceId, limit: Duration) {
        self.settle_those(limit, |other| other == id).await;
    }

    async fn settle_those(&self, limit: Duration, among: impl Fn(&SourceId) -> bool) {
        let mut changes = self.settled.subscribe();
        let starts =
            |status: &SourceStatus| status.state == SourceState::Starting && among(&status.id);
        let all_tried = async {
            while self.status().iter().any(&starts) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // Running out of time is an answer too: the rest goes on in the background.
        let _ = tokio::time::timeout(limit, all_tried).await;
    }
}

/// The task of one source.
struct Attendant {
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
    source: Arc<dyn ToolSource>,
    terms: SourceTerms,
    origin: Origin,
    status: Mutex<SourceStatus>,
    settled: watch::Sender<u64>,
    /// Held while tools are registered or marked as gone, so that an acceptance can't mix with either.
    ward: tokio::sync::Mutex<Ward>,
}

impl Attendant {
    async fn attend(self: Arc<Self>) {
        let mut changes = self.source.changes();
        let mut pause = FIRST_RETRY;
        loop {
            if let Some(changes) = &mut changes {
                changes.mark_unchanged();
            }
            let asked = Instant::now();
            let worked = self.refresh().await;
            self.settled.send_modify(|count| *count += 1);
            self.wait(&mut changes, worked, pause).await;
            let least = if worked { REFRESH_PAUSE } else { REFRESH_PAUSE.min(pause) };
            tokio::time::sleep_until(asked + least).await;
            pause = if worked { FIRST_RETRY } else { (pause * 2).min(LAST_RETRY) };
        }
    }

    /// Until the source announces a change or, if it failed, until it is time to try again.
    async fn wait(
        &self,
        changes: &mut Option<watch::Receiver<u64>>,
        worked: bool,
        pause: Duration,
    ) {
        let announced = async {
            let heard = match changes {
                Some(changes) => changes.changed().await.is_ok(),
                None => false,
            };
            if !heard {
                std::future::pending::<()>().await;
            }
        };
        if worked {
            announced.await;
        } else {
            let _ = tokio::time::timeout(pause, announced).await;
        }
    }

    /// Asks once. `true` if there is nothing to retry.
    async fn refresh(&self) -> bool {
        let asked = self.ask().await;
        let mut ward = self.ward.lock().await;
        match asked {
            Ok(manifest) => self.register(&mut ward, manifest).await,
            Err(problem) => self.failed(problem),
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

    fn registration(&self, manifest: McpManifest) -> Registration {
        Registration {
            manifest,
            terms: self.terms.clone(),
            origin: self.origin,
            source: Arc::clone(&self.source),
        }
    }

    /// Registers what is trusted of a manifest. `true` if there is nothing to retry.
    async fn register(&self, ward: &mut Ward, manifest: McpManifest) -> bool {
        let server = format!("{} {}", manifest.name, manifest.version);
        // What speaks for another source is refused below; nothing of it is worth a pin.
        let sifted = if manifest.server_id == *self.source.id() {
            ward.sift(manifest).await
        } else {
            Ok(manifest)
        };
        let manifest = match sifted {
            Ok(manifest) => manifest,
            Err(error) => {
                return self.failed(format!("its definitions can't be compared: {error}"));
            }
        };
        let result = self.registry.replace(self.registration(manifest));
        self.note(server, result, ward.held());
        ward.report().await;
        true
    }

    fn note(&self, server: String, result: Result<Vec<BadTool>, RegistrationError>, held: &[Held]) {
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
                let snapshot = self.registry.snapshot();
                let tools = snapshot
                    .entries()
                    .filter(|entry| entry.id.source() == self.source.id())
                    .count();
                tracing::info!(source = %status.id, tools, "source ready");
                status.become_state(SourceState::Ready, now);
                status.tools = tools;
                status.left_out = left_out;
                status.problem = None;
            }
            Err(error) => {
                tracing::error!(source = %status.id, error = %error, "source refused");
                status.become_state(SourceState::Refused, now);
                status.problem = Some(error.to_string());
            }
        }
    }

    async fn accept(&self, accepted: &[Acceptance]) -> Result<Vec<Held>, ReviewError> {
        let mut ward = self.ward.lock().await;
        let found = ward.accept(accepted).await?;
        let ready = self.status.lock().state != SourceState::Failed;
        // Of a source that is gone, it counts when the source comes back.
        if let Some(manifest) = ward.whole().filter(|_| ready) {
            self.register(&mut ward, manifest).await;
        }
        Ok(found)
    }

    fn failed(&self, problem: String) -> bool {
        self.registry.set_down(self.source.id());
        let mut status = self.status.lock();
        tracing::warn!(source = %status.id, problem, "source failed; it will be tried again");
        status.become_state(SourceState::Failed, self.clock.now_ms());
        status.tools = 0;
        status.problem = Some(problem);
        status.failures += 1;
        false
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
