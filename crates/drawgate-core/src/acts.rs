//! Acts of an operator, all in one order: the intent is written to the audit log, the store is
//! changed, memory follows, the outcome is written to the log.
//!
//! The store notes the outcome in the same transaction as the change, so that a process that is killed
//! before the outcome is in the log owes it, and the next one writes it. Where the store is files, the
//! note is made before they are touched, and the files themselves say later whether the act was done.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::audit::{EventDraft, EventKind};
use crate::clock::{Clock, Ids};
use crate::redact::Redactor;
use crate::store::{AuditLog, Owed, Stage, Store, StoreError, Write};

/// Events that are read at once when an outcome is looked for.
const BATCH: usize = 512;

/// Why an act was not done.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// Its intent could not be written down.
    #[error("nothing was changed, because the audit log can't be written")]
    Unlogged(#[source] StoreError),
    /// The store refused.
    #[error("nothing was changed, because the store can't be written")]
    Store(#[source] StoreError),
    /// The store has something else than the act was to change.
    #[error("nothing was changed, because something else was changed first")]
    Conflict(#[source] StoreError),
    /// The files could not be changed.
    #[error("{0}")]
    Files(String),
    /// Files were changed in part, and the rest could not be done yet.
    #[error("{0}; it has begun, and is finished as soon as that is possible")]
    Unfinished(String),
    /// The work was cut off.
    #[error("the gateway is stopping")]
    Stopped,
}

/// Tells whether an act on files was done, by looking at them.
#[async_trait]
pub trait Files: Send + Sync + 'static {
    /// Whether the files are as this outcome says; `None` if that can't be told now.
    async fn have(&self, outcome: &EventDraft) -> Option<bool>;
}

/// Where acts are kept and written down.
pub struct ActsParts {
    /// What acts change, and what is owed.
    pub store: Arc<dyn Store>,
    /// The log itself: an event that is only in memory is not written down.
    pub log: Arc<dyn AuditLog>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Names of acts.
    pub ids: Arc<dyn Ids>,
    /// Hides secrets in the reasons of failures.
    pub redactor: Arc<ArcSwap<Redactor>>,
}

/// Performs acts, one at a time: each reads what it changes.
#[derive(Clone)]
pub struct Acts {
    parts: Arc<ActsParts>,
    alone: Arc<Mutex<()>>,
}

/// The right to act next.
pub struct Turn {
    acts: Acts,
    _alone: OwnedMutexGuard<()>,
}

impl Acts {
    /// Acts on these parts.
    #[must_use]
    pub fn new(parts: ActsParts) -> Self {
        Self { parts: Arc::new(parts), alone: Arc::default() }
    }

    /// Waits until no other act is under way.
    pub async fn turn(&self) -> Turn {
        let alone = Arc::clone(&self.alone).lock_owned().await;
        Turn { acts: self.clone(), _alone: alone }
    }

    /// Writes the outcomes that are owed: at the start, and from time to time.
    pub async fn settle(&self, files: &dyn Files) -> Result<(), StoreError> {
        let _turn = self.turn().await;
        for owed in self.parts.store.owed().await? {
            if !self.is_written(&owed).await? {
                let done = match owed.stage {
                    Stage::Done => Some(true),
                    Stage::Begun => files.have(&owed.outcome).await,
                };
                let late = match done {
                    Some(true) => {
                        let kind = owed.outcome.kind();
                        owed.outcome.become_kind(kind, self.parts.clock.now_ms())
                    }
                    Some(false) => self.failure(&owed, "the gateway ended before it was done"),
                    None => continue,
                };
                self.parts.log.append(late.flag("late", true)).await?;
            }
            self.parts.store.commit(vec![Write::Settle(owed.act_id)]).await?;
        }
        Ok(())
    }

    /// Notes an outcome, to be stored in the transaction of what it is the outcome of. It must be
    /// [reported](Self::report) afterwards.
    #[must_use]
    pub fn owe(&self, outcome: EventDraft) -> Owed {
        let act_id = self.parts.ids.unique();
        let outcome = outcome.text("actId", &act_id);
        Owed { act_id, intent: self.parts.log.head(), stage: Stage::Done, outcome }
    }

    /// Writes the outcome of what is done and was noted in the store with it. What can't be written
    /// stays owed.
    pub async fn report(&self, owed: Owed) {
        let _turn = self.turn().await;
        match self.is_written(&owed).await {
            // Somebody who settled what is owed was faster.
            Ok(true) => {}
            Ok(false) => self.done(vec![owed]).await,
            Err(error) => tracing::error!(%error, "an outcome can't be written down yet"),
        }
    }

    /// Whether the log has the end of an act: a process may have been killed right after it.
    async fn is_written(&self, owed: &Owed) -> Result<bool, StoreError> {
        let mut after = owed.intent;
        loop {
            let events = self.parts.log.read(after, BATCH).await?;
            let Some(last) = events.last() else { return Ok(false) };
            after = last.sequence;
            for stored in events.iter().filter(|event| event.body.contains(&owed.act_id)) {
                let event = stored.event()?;
                let is_end =
                    event.kind == owed.outcome.kind() || event.kind == EventKind::ActFailed;
                if is_end && event.rest.get("actId").is_some_and(|id| *id == *owed.act_id) {
                    return Ok(true);
                }
            }
        }
    }

    /// Writes down that acts begin; returns what is owed from then on.
    async fn begin(&self, outcomes: Vec<EventDraft>, stage: Stage) -> Result<Vec<Owed>, ActError> {
        let mut all = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            debug_assert!(outcome.kind().is_act(), "`{}` is no kind of act", outcome.kind());
            let act_id = self.parts.ids.unique();
            let outcome = outcome.text("actId", &act_id);
            let started = outcome
                .clone()
                .become_kind(EventKind::ActStarted, outcome.at_ms())
                .text("act", outcome.kind().as_str());
            let intent = self.parts.log.append(started).await.map_err(ActError::Unlogged)?;
            all.push(Owed { act_id, intent, stage, outcome });
        }
        Ok(all)
    }

    fn failure(&self, owed: &Owed, reason: &str) -> EventDraft {
        let reason = self.parts.redactor.load().redact_text(reason).into_owned();
        owed.outcome
            .clone()
            .become_kind(EventKind::ActFailed, self.parts.clock.now_ms())
            .text("act", owed.outcome.kind().as_str())
            .text("reason", reason)
    }

    /// Writes down that acts failed. If that fails too, their intents stand alone, which says the same.
    async fn fail(&self, all: &[Owed], reason: &str) {
        for owed in all {
            if let Err(error) = self.parts.log.append(self.failure(owed, reason)).await {
                tracing::error!(%error, act = %owed.outcome.kind(), "a failed act can't be written down");
            }
        }
    }

    /// Writes down that acts were done. What can't be written stays owed.
    async fn done(&self, all: Vec<Owed>) {
        let mut settled = Vec::with_capacity(all.len());
        for owed in all {
            match self.parts.log.append(owed.outcome.clone()).await {
                Ok(_) => settled.push(owed.act_id),
                Err(error) => {
                    tracing::error!(%error, act = %owed.outcome.kind(), "an act was done and can't be written down yet");
                }
            }
        }
        self.strike(settled).await;
    }

    async fn strike(&self, settled: Vec<String>) {
        if settled.is_empty() {
            return;
        }
        let writes = settled.into_iter().map(Write::Settle).collect();
        if let Err(error) = self.parts.store.commit(writes).await {
            tracing::warn!(%error, "an outcome that was written down is still noted as owed");
        }
    }
}

impl Turn {
    /// Changes the store, and then memory. Each outcome is an act of its own; all are done or none.
    /// What was begun is finished, whether or not the caller waits for it.
    pub async fn act(
        self,
        outcomes: Vec<EventDraft>,
        mut writes: Vec<Write>,
        memory: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ActError> {
        finish(async move {
            let acts = &self.acts;
            let owed = acts.begin(outcomes, Stage::Done).await?;
            writes.extend(owed.iter().cloned().map(Write::Owe));
            if let Err(error) = acts.parts.store.commit(writes).await {
                acts.fail(&owed, &error.to_string()).await;
                return Err(match error {
                    StoreError::Conflict { .. } => ActError::Conflict(error),
                    StoreError::Unavailable { .. }
                    | StoreError::Corrupt { .. }
                    | StoreError::Quota { .. } => ActError::Store(error),
                });
            }
            memory.await;
            acts.done(owed).await;
            Ok(())
        })
        .await
        .unwrap_or(Err(ActError::Stopped))
    }

    /// Changes files, and what memory has of them. `work` may fail half-way: what the files say
    /// afterwards is what the log says.
    pub async fn act_on_files(
        self,
        outcomes: Vec<EventDraft>,
        files: Arc<dyn Files>,
        work: impl Future<Output = Result<(), String>> + Send + 'static,
    ) -> Result<(), ActError> {
        finish(async move {
            let acts = &self.acts;
            let owed = acts.begin(outcomes, Stage::Begun).await?;
            let notes = owed.iter().cloned().map(Write::Owe).collect();
            if let Err(error) = acts.parts.store.commit(notes).await {
                acts.fail(&owed, &error.to_string()).await;
                return Err(ActError::Store(error));
            }
            let Err(reason) = work.await else {
                acts.done(owed).await;
                return Ok(());
            };
            acts.sort_out(owed, files, reason).await
        })
        .await
        .unwrap_or(Err(ActError::Stopped))
    }
}

impl Acts {
    /// Finds out what came of work on files that reported a failure.
    async fn sort_out(
        &self,
        all: Vec<Owed>,
        files: Arc<dyn Files>,
        reason: String,
    ) -> Result<(), ActError> {
        let (mut failed, mut unknown) = (false, false);
        for owed in all {
            match files.have(&owed.outcome).await {
                Some(true) => self.done(vec![owed]).await,
                Some(false) => {
                    failed = true;
                    let end = self.parts.log.append(self.failure(&owed, &reason)).await;
                    // What could not be written stays owed, and the files will say the same.
                    if end.is_ok() {
                        self.strike(vec![owed.act_id]).await;
                    }
                }
                None => unknown = true,
            }
        }
        match (unknown, failed) {
            (true, _) => Err(ActError::Unfinished(reason)),
            (false, true) => Err(ActError::Files(reason)),
            (false, false) => Ok(()),
        }
    }
}

/// Runs work to its end, also if the caller goes away meanwhile; `None` if the runtime ends first.
pub(crate) async fn finish<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    tokio::spawn(work).await.ok()
}

#[cfg(test)]
#[path = "acts_tests.rs"]
mod tests;
