//! How every source does, for people, and waiting until it is known.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::{Absence, BadTool, Quarantined};
use super::supervised::SupervisedSource;
use super::{SourceSupervisor, Supervision};
use crate::model::{Capability, SourceId};

/// Where a source stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

impl SourceState {
    /// Its name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Away => "away",
        }
    }
}

/// A source's state, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<BadTool>,
    /// Definitions that wait for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<Quarantined>,
    /// The last failure, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Failures in a row.
    pub failures: u32,
}

impl SourceStatus {
    pub(super) fn starting(id: SourceId, now: u64) -> Self {
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

    pub(super) fn become_state(&mut self, state: SourceState, now: u64) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
    }
}

impl SourceSupervisor {
    /// Notes a source that could not even be made, so that people can see why.
    /// `capabilities` are those that the operator has set for it: callers with them are told, too.
    pub fn report_unusable(&self, id: &SourceId, capabilities: &[Capability], problem: String) {
        let absence = Absence::new(id, capabilities, format!("can't be used: {problem}"));
        self.registry.set_absent(id, absence);
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
        all.extend(
            self.sources.lock().values().map(|found| found.supervised.status.lock().clone()),
        );
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// The sources that have not answered yet, by id.
    #[must_use]
    pub fn starting(&self) -> Vec<SourceId> {
        let all = self.status().into_iter();
        all.filter(|it| it.state == SourceState::Starting).map(|it| it.id).collect()
    }

    /// Waits until every source has been tried once, or `limit` has passed.
    pub async fn settle(&self, limit: Duration) {
        self.settle_those(limit, |_, _| true).await;
    }

    /// The same for one source.
    pub async fn settle_one(&self, id: &SourceId, limit: Duration) {
        self.settle_those(limit, |_, status| status.id == *id).await;
    }

    /// Waits until the tools of every source are listed, as they are known from before or because it was
    /// tried, or until `limit` has passed.
    pub async fn settle_lists(&self, limit: Duration) {
        self.settle_those(limit, |_, status| status.tools == 0).await;
    }

    /// The same for the first lists of a gateway. They don't wait again for a source that has not come up in
    /// that time, at later starts neither.
    pub async fn settle_first_lists(&self, limit: Duration) {
        let awaited = self.awaited_by_first_lists();
        // Noted before the wait: a client that gives up meanwhile may end the gateway with it.
        for source in &awaited {
            source.pin_store.lock().await.note_late().await;
        }
        self.settle_those(limit, SupervisedSource::is_awaited).await;
        for source in awaited {
            let is_late = source.status.lock().state == SourceState::Starting;
            source.was_late.store(is_late, Ordering::Release);
            if !is_late {
                source.pin_store.lock().await.forget_late().await;
            }
        }
    }

    fn awaited_by_first_lists(&self) -> Vec<Arc<SupervisedSource>> {
        let sources = self.sources.lock();
        let all = sources.values().map(|found| &found.supervised);
        let awaited = all.filter(|source| {
            let status = source.status.lock();
            status.state == SourceState::Starting && source.is_awaited(&status)
        });
        awaited.cloned().collect()
    }

    /// Waits until all that is known from before is listed, or `limit` has passed.
    pub async fn settle_remembered(&self, limit: Duration) {
        let is_new = |source: &SupervisedSource| !source.is_remembered.load(Ordering::Acquire);
        self.settle_those(limit, |source, _| is_new(source)).await;
    }

    async fn settle_those(
        &self,
        limit: Duration,
        among: impl Fn(&SupervisedSource, &SourceStatus) -> bool,
    ) {
        let mut changes = self.settled.subscribe();
        let starts = |found: &Supervision| {
            let status = found.supervised.status.lock();
            status.state == SourceState::Starting && among(&found.supervised, &status)
        };
        let is_any = || self.sources.lock().values().any(&starts);
        let all_tried = async {
            while is_any() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // Running out of time is an answer too: the rest goes on in the background.
        let _ = tokio::time::timeout(limit, all_tried).await;
    }
}
