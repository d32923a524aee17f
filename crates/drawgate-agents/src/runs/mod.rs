//! Runs: agents at work. This module starts, ends, finds and recovers them, and keeps them within depth,
//! fan-out, number and budget; what a run does is in `session/`.
//!
//! Every change is in the store before its effect: a gateway that is killed takes its runs up again
//! where they were.

pub(crate) mod ended;
pub mod feed;
pub mod hooks;
pub(crate) mod live;
pub mod observe;
pub mod pool;
pub mod programs;
pub mod record;
mod recover;
pub(crate) mod session;
mod start;
pub(crate) mod store;
mod trace;
mod view;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use drawgate_core::acts::Acts;
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::Principal;
use drawgate_core::pipeline::Gateway;
use drawgate_core::store::{Artifacts, AuditLog, Storage, StoreError};
use drawgate_host::seal::SealingKey;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::feed::Feed;
pub use self::feed::{Happened, RunEvent};
pub use self::hooks::{Role, RunHooks};
use self::live::Live;
pub use self::live::Phase;
pub use self::observe::RunObserver;
use self::pool::Pools;
use self::programs::{ProgramParts, Programs};
pub use self::record::{End, Ending, Report};
pub use self::start::{NewRun, Origin, StartError};
use self::store::RunStore;
pub use self::view::{RunDetails, RunSummary, ThreadSummary};
use crate::model::Models;
use crate::profile::Budget;

/// Ended runs that are kept in memory for those who still watch them.
const ENDED_KEPT: usize = 256;

/// What an operator says about runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettings {
    /// How many runs may be above one.
    #[schemars(range(max = 16))]
    pub max_depth: u8,
    /// Children of one run that work at once.
    #[schemars(range(min = 1, max = 1000))]
    pub max_fanout: usize,
    /// Runs in one tree, ended ones included.
    #[schemars(range(min = 1, max = 10000))]
    pub max_runs: usize,
    /// Runs in the whole gateway that work at once.
    #[schemars(range(min = 1, max = 10000))]
    pub max_active: usize,
    /// Days for which ended runs are kept.
    #[schemars(range(min = 1))]
    pub keep_days: u64,
    /// The budget of runs that nobody else gives one, by what is limited.
    pub budget: Budget,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            max_depth: 3,
            max_fanout: 8,
            max_runs: 64,
            max_active: 1000,
            keep_days: 30,
            budget: Budget {
                tokens: Some(1_000_000),
                cost_usd: None,
                seconds: Some(3600),
                tool_calls: Some(1000),
                runs: None,
            },
        }
    }
}

/// The models that are configured now.
pub trait ConfiguredModels: Send + Sync + 'static {
    /// The models, for one use: an edit of the configuration replaces them.
    fn models(&self) -> Arc<Models>;
}

/// What runs stand on.
pub struct RunsParts {
    /// The gate.
    pub gateway: Gateway,
    /// Where runs, their events and long results are kept.
    pub storage: Storage,
    /// What runs are sealed with.
    pub key: SealingKey,
    /// How changes and their events are kept together.
    pub acts: Acts,
    /// The models that are configured.
    pub models: Arc<dyn ConfiguredModels>,
    /// Settings.
    pub settings: RunSettings,
    /// What other programs stand on that do the work of runs; without it none does.
    pub programs: Option<ProgramParts>,
}

/// All runs of a gateway. Cheap to clone.
#[derive(Clone)]
pub struct Runs(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) gateway: Gateway,
    pub(crate) store: RunStore,
    pub(crate) audit: Arc<dyn AuditLog>,
    pub(crate) acts: Acts,
    pub(crate) artifacts: Arc<dyn Artifacts>,
    pub(crate) models: Arc<dyn ConfiguredModels>,
    pub(crate) settings: ArcSwap<RunSettings>,
    pub(crate) pools: Pools,
    pub(crate) programs: Programs,
    observer: OnceLock<Arc<dyn RunObserver>>,
    hooks: OnceLock<Arc<dyn RunHooks>>,
    /// Delegated work that is not over, by the run that waits for it.
    awaited: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// Runs whose tree is at work, ended ones included.
    live: Mutex<BTreeMap<Arc<str>, Arc<Live>>>,
    /// What happened in the trees that ended last, by run, for those who still watch them.
    ended: Mutex<VecDeque<(Arc<str>, Arc<Feed>)>>,
    /// Calls of runs, until their outcomes are stored.
    acting: TaskTracker,
    /// Cancelled when no run takes another step.
    holding: CancellationToken,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl Runs {
    /// Runs that stand on these parts; none is taken up yet.
    #[must_use]
    pub fn new(parts: RunsParts) -> Self {
        let Storage { store, documents, audit, artifacts, .. } = parts.storage;
        Self(Arc::new(Inner {
            gateway: parts.gateway,
            store: RunStore::new(store, documents, parts.key),
            audit,
            acts: parts.acts,
            artifacts,
            models: parts.models,
            settings: ArcSwap::from_pointee(parts.settings),
            pools: Pools::default(),
            programs: Programs::new(parts.programs),
            observer: OnceLock::new(),
            hooks: OnceLock::new(),
            awaited: Mutex::default(),
            live: Mutex::default(),
            ended: Mutex::default(),
            acting: TaskTracker::new(),
            holding: CancellationToken::new(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Puts other settings into force; runs that are at work stay.
    pub fn configure(&self, settings: RunSettings) {
        self.0.settings.store(Arc::new(settings));
    }

    /// Cancels a run and everything below it, for a reason that its end will have; `false` if no such
    /// run is at work.
    #[must_use]
    pub fn cancel(&self, id: &str, reason: &str) -> bool {
        match self.0.find(id) {
            Some(run) if run.end().is_none() => {
                run.cancel_reason.lock().get_or_insert_with(|| reason.to_owned());
                run.cancel.cancel();
                true
            }
            Some(_) | None => false,
        }
    }

    /// Cancels all runs of a principal.
    pub fn cancel_of(&self, principal: &Principal, reason: &str) {
        let live = self.0.live.lock();
        let own = live.values().filter(|run| run.record.lock().principal == *principal);
        let ids: Vec<Arc<str>> = own.map(|run| Arc::clone(&run.id)).collect();
        drop(live);
        for id in ids {
            // One that has just ended needs no cancelling.
            let _ = self.cancel(&id, reason);
        }
    }

    /// The run that is at work in a conversation: the newest, if there are several.
    #[must_use]
    pub fn at_work_in(&self, thread: &str) -> Option<String> {
        let live = self.0.live.lock();
        let in_it = live.values().filter(|run| *run.lineage.thread == *thread);
        let newest = in_it.filter(|run| run.end().is_none()).max_by_key(|run| {
            let record = run.record.lock();
            record.created_at
        });
        newest.map(|run| run.id.to_string())
    }

    /// Whether a run of this id is known and has not ended.
    #[must_use]
    pub fn is_at_work(&self, id: &str) -> bool {
        self.0.find(id).is_some_and(|run| run.end().is_none())
    }

    /// Waits until a run has ended. `None` if it is not known.
    pub async fn ended(&self, id: &str) -> Option<End> {
        match self.0.find(id) {
            Some(run) => run.ended().await,
            None => self.stored(id).await.ok()?.and_then(|record| record.end),
        }
    }

    /// What happened in a run's tree after an event, once something did or the time is over. `None` if
    /// the tree ended a while ago.
    pub async fn events(&self, id: &str, after: u64, patience: Duration) -> Option<Vec<RunEvent>> {
        if let Some(run) = self.0.find(id) {
            return Some(run.feed.after(after, patience).await);
        }
        // Of what has ended there is nothing to wait for.
        Some(self.0.feed_of_ended(id)?.after(after, Duration::ZERO).await)
    }

    /// Begins to stop: calls of runs that are under way may end, and no run takes another step or is started.
    pub fn hold(&self) {
        self.0.holding.cancel();
    }

    /// Waits until no call of a run is under way and the outcomes are stored. Those that wait for people or for
    /// other runs do not count.
    pub async fn at_rest(&self) {
        self.0.acting.close();
        self.0.acting.wait().await;
    }

    /// Stops all runs where they are; the next start takes them up again.
    pub async fn close(&self) {
        self.hold();
        self.0.stopping.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// How many runs are at work.
    #[must_use]
    pub fn active(&self) -> usize {
        self.0.live.lock().values().filter(|run| run.end().is_none()).count()
    }

    /// Removes runs that ended too long ago, whole trees at a time; how many went.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let oldest = self.0.oldest_kept();
        let runs = self.0.store.runs().await?;
        let is_old = |end: &Option<End>| end.as_ref().is_some_and(|end| end.at < oldest);
        let old_roots: Vec<&str> = runs
            .iter()
            .filter(|run| run.id == run.root && is_old(&run.end))
            .map(|run| run.id.as_str())
            .collect();
        let mut removed = 0;
        for run in runs.iter().filter(|run| old_roots.contains(&run.root.as_str())) {
            self.0.store.remove(&run.id).await?;
            removed += 1;
        }
        Ok(removed)
    }
}

impl Inner {
    pub(crate) fn now(&self) -> u64 {
        self.gateway.clock().now_ms()
    }

    /// What ended before this time is removed.
    pub(crate) fn oldest_kept(&self) -> u64 {
        let keep_ms = self.settings.load().keep_days.saturating_mul(24 * 60 * 60 * 1000);
        self.now().saturating_sub(keep_ms)
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Live>> {
        self.live.lock().get(id).cloned()
    }

    fn feed_of_ended(&self, id: &str) -> Option<Arc<Feed>> {
        let ended = self.ended.lock();
        ended.iter().find(|(run, _)| **run == *id).map(|(_, feed)| Arc::clone(feed))
    }

    /// The child that a step of a run started.
    pub(crate) fn child_of(&self, parent: &str, step: u32) -> Option<Arc<Live>> {
        let live = self.live.lock();
        let mut children = live.values().filter(|run| {
            let record = run.record.lock();
            record.parent.as_ref().is_some_and(|own| own.run == parent && own.step == step)
        });
        children.next().cloned()
    }

    /// A run waits for delegated work, and does not end by itself before.
    pub(crate) fn await_task(&self, run: &str, task: &str) {
        self.awaited.lock().entry(run.to_owned()).or_default().insert(task.to_owned());
    }

    /// Delegated work is over: its end has been handed over, and the run may go on.
    pub(crate) fn task_is_over(&self, run: &str, task: &str) {
        let mut awaited = self.awaited.lock();
        if let Some(tasks) = awaited.get_mut(run) {
            tasks.remove(task);
            if tasks.is_empty() {
                awaited.remove(run);
            }
        }
        drop(awaited);
        if let Some(run) = self.find(run) {
            run.arrived.notify_one();
        }
    }

    /// How much delegated work a run waits for.
    pub(crate) fn awaited_by(&self, run: &str) -> usize {
        self.awaited.lock().get(run).map_or(0, BTreeSet::len)
    }

    /// An event of a run.
    pub(crate) fn draft(&self, kind: EventKind, run: &Live) -> EventDraft {
        let record = run.record.lock();
        EventDraft::new(kind, self.now())
            .text("principal", record.principal.as_str())
            .text("runId", &record.id)
            .text("rootRunId", &record.root)
            .text("agent", &record.profile.name)
            .number("depth", u64::from(record.depth))
    }

    pub(crate) async fn write_down(&self, draft: EventDraft) {
        if let Err(error) = self.audit.append(draft).await {
            tracing::error!(%error, "an event of a run could not be written to the audit log");
        }
    }
}
