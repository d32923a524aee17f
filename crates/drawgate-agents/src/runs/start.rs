//! Starts runs, within the limits of depth, fan-out, number and budget.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::audit::EventKind;
use drawgate_core::model::{
    Bounds, Caller, CapabilityGrant, Lineage, ToolPatternError, ToolPatterns, TraceParent,
};
use drawgate_core::store::{Owed, StoreError, Write};
use serde_json::Value;

use super::feed::{Feed, Happened};
use super::hooks::first_step;
use super::live::{Live, Phase, RunTime};
use super::pool::{Amount, Exhausted};
use super::programs::NoProgram;
use super::record::{Parent, Report, RunRecord};
use super::store::Change;
use super::{Inner, Runs};
use crate::model::{Message, UnknownModel};
use crate::profile::{Budget, Invoker, Profile};
use crate::runs::session::READ;

/// A run that is to be started.
pub struct NewRun {
    /// Who it works for. A caller with a lineage is the parent.
    pub caller: Caller,
    /// What it is.
    pub profile: Arc<Profile>,
    /// The custom tool that it is the answer of.
    pub tool: Option<String>,
    /// What it is to do.
    pub prompt: String,
    /// Another model than the profile's.
    pub model: Option<String>,
    /// What its answer must satisfy.
    pub answer: Option<Value>,
    /// A tighter budget than the profile's.
    pub budget: Budget,
    /// Where it was started from.
    pub origin: Origin,
    /// The span of the call that starts it, unless that is a run's: its spans are below it.
    pub trace: Option<TraceParent>,
}

/// Where a run is started from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// By a caller that is no run, in a new conversation.
    New,
    /// By a caller that is no run, in the conversation of earlier runs.
    Thread(String),
    /// By a call that a run makes.
    Step {
        /// The step of the call.
        step: u32,
        /// How the run hears of the end.
        report: Report,
    },
    /// For delegated work, in the conversation that belongs to it.
    Task {
        /// The task, whose id is also that of its conversation.
        task: String,
        /// The step of the call by which a run delegated it.
        step: u32,
    },
    /// By a plugin, in a new conversation.
    Plugin(String),
}

/// An agent that a run may not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("agent `{by}` may not start `{wanted}`; its profile lets it start {}", agents(.allowed))]
pub struct NotItsAgent {
    /// The profile of the run that asks.
    pub by: String,
    /// The agent that it asks for.
    pub wanted: String,
    /// Those that it may start.
    pub allowed: Vec<String>,
}

fn agents(names: &[String]) -> String {
    match names {
        [] => "no other agents".to_owned(),
        [only] => format!("`{only}` alone"),
        some => format!("these alone: `{}`", some.join("`, `")),
    }
}

/// Why a run can't be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The model is not configured.
    #[error(transparent)]
    Model(#[from] UnknownModel),
    /// The profile names a pattern of tools that is none.
    #[error("profile `{profile}`: {reason}")]
    Tools {
        /// The profile.
        profile: String,
        /// What is wrong.
        reason: String,
    },
    /// The profile of the parent names other agents.
    #[error(transparent)]
    Agent(#[from] NotItsAgent),
    /// Too many runs above it.
    #[error("a run may have {0} runs above it at most (`runs.max_depth`); do the work in this run")]
    Depth(u8),
    /// Too many siblings.
    #[error("{0} children of this run are at work (`runs.max_fanout`); wait for one to end")]
    Fanout(usize),
    /// Too many in the tree.
    #[error("the tree has {0} runs, as many as it may have (`runs.max_runs`)")]
    Tree(usize),
    /// Too many in all.
    #[error("{0} runs are at work (`runs.max_active`); try again later")]
    Active(usize),
    /// The budget has no run left.
    #[error(transparent)]
    Budget(#[from] Exhausted),
    /// A budget in dollars for a model without prices.
    #[error(
        "there is a budget in US dollars, but no price is configured for `{0}`; set `usd_per_million` of the model, or limit tokens instead"
    )]
    NoPrices(String),
    /// No program can do its work.
    #[error(transparent)]
    Program(#[from] NoProgram),
    /// The parent has ended.
    #[error("the run that asks has ended")]
    Ended,
    /// The gateway stops.
    #[error("the gateway is stopping")]
    Stopping,
    /// The store can't be written.
    #[error("the run can't be stored")]
    Store(#[from] StoreError),
}

impl Budget {
    /// The tighter of two, limit by limit.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        fn least<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(if b < a { b } else { a }),
                (a, b) => a.or(b),
            }
        }
        Self {
            tokens: least(self.tokens, other.tokens),
            cost_usd: least(self.cost_usd, other.cost_usd),
            seconds: least(self.seconds, other.seconds),
            tool_calls: least(self.tool_calls, other.tool_calls),
            runs: least(self.runs, other.runs),
        }
    }

    /// The same, with the limits of another one where it has none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.or(other.tokens),
            cost_usd: self.cost_usd.or(other.cost_usd),
            seconds: self.seconds.or(other.seconds),
            tool_calls: self.tool_calls.or(other.tool_calls),
            runs: self.runs.or(other.runs),
        }
    }
}

impl Runs {
    /// Starts a run; returns its id. It is stored when this returns.
    pub async fn start(&self, new: NewRun) -> Result<String, StartError> {
        self.start_with(new, |_| Ok(Vec::new())).await
    }

    /// The same, with more that is stored in the same step.
    pub(crate) async fn start_with(
        &self,
        new: NewRun,
        beside: impl FnOnce(&RunRecord) -> Result<Vec<Write>, StoreError>,
    ) -> Result<String, StartError> {
        let inner = &self.0;
        if inner.holding.is_cancelled() {
            return Err(StartError::Stopping);
        }
        inner.check_agent(&new)?;
        let (history, latest) = match &new.origin {
            Origin::Thread(thread) | Origin::Task { task: thread, .. } => {
                self.history(thread, u64::MAX).await?
            }
            Origin::New | Origin::Step { .. } | Origin::Plugin(_) => (Vec::new(), 0),
        };
        let record = inner.record(new, latest);
        let run = inner.build(record, history, Duration::ZERO)?;
        if let Err(error) = inner.admit(&run) {
            if let StartError::Budget(exhausted) = &error {
                let draft = inner.draft(EventKind::BudgetRefused, &run);
                inner.write_down(draft.text("reason", exhausted.to_string())).await;
            }
            return Err(error);
        }
        let record = run.record.lock().clone();
        let started = inner.acts.owe(inner.started(&run));
        if let Err(error) = inner.store_start(&run, &record, &started, beside).await {
            inner.dismiss(&run);
            return Err(error.into());
        }
        inner.pools.settle(run.above(), Amount::RUN, Amount::RUN);
        inner.acts.report(started).await;
        self.drive(run);
        Ok(record.id)
    }

    /// The conversation of a thread, as far as its runs were started before a time, and when the last of
    /// them was.
    pub(super) async fn history(
        &self,
        thread: &str,
        before: u64,
    ) -> Result<(Vec<Message>, u64), StoreError> {
        let (mut messages, mut latest) = (Vec::new(), 0);
        let runs = self.0.store.runs().await?;
        for run in runs.iter().filter(|run| run.thread == thread && run.created_at < before) {
            let steps = self.0.store.steps(&run.id).await?;
            messages = crate::runs::session::conversation(&messages, &steps);
            latest = run.created_at;
        }
        Ok((messages, latest))
    }
}

/// The tools that runs of a profile may use: those that it names, its own, and the one by which long
/// results are read.
fn tool_patterns(profile: &Profile) -> Result<ToolPatterns, ToolPatternError> {
    let choice = &profile.tools;
    let allowed = match &choice.allowed {
        Some(allowed) => {
            let own = profile.custom.iter().map(|tool| tool.name.as_str());
            let named = allowed.iter().map(String::as_str).chain(own);
            ToolPatterns::only(named.chain([READ]))?
        }
        None => ToolPatterns::default(),
    };
    allowed.without(choice.denied.iter().map(String::as_str))
}

impl Inner {
    /// Stores a new run, and its prompt unless someone is asked first who may change it.
    async fn store_start(
        &self,
        run: &Live,
        record: &RunRecord,
        started: &Owed,
        beside: impl FnOnce(&RunRecord) -> Result<Vec<Write>, StoreError>,
    ) -> Result<(), StoreError> {
        let first = first_step(record.prompt.clone(), self.now());
        let first = (!self.is_rewritten(run)).then_some(first);
        let beside = beside(record)?;
        let mut changes = vec![Change::Run(record), Change::Owe(started)];
        changes.extend(first.as_ref().map(|first| Change::Step(&run.id, first)));
        changes.extend(beside.iter().map(Change::Beside));
        self.store.commit(&changes).await?;
        if let Some(first) = first {
            self.tell_first(run, &first);
            run.steps.lock().push(first);
        }
        Ok(())
    }

    /// Whether the run that asks may start this agent. Custom tools are tools, not agents.
    fn check_agent(&self, new: &NewRun) -> Result<(), NotItsAgent> {
        let lineage = new.caller.lineage.as_ref().filter(|_| new.tool.is_none());
        let Some(parent) = lineage.and_then(|lineage| self.find(&lineage.run)) else {
            return Ok(());
        };
        let profile = &parent.record.lock().profile;
        if profile.may_start(&new.profile.name) {
            return Ok(());
        }
        Err(NotItsAgent {
            by: profile.name.clone(),
            wanted: new.profile.name.clone(),
            allowed: profile.tools.agents.clone().unwrap_or_default(),
        })
    }

    /// The record of a new run; `latest` is when the one before it in its conversation was started.
    fn record(&self, new: NewRun, latest: u64) -> RunRecord {
        let id = self.gateway.ids().unique();
        let parent_at = |lineage: &Arc<Lineage>, step: u32, report: Report| {
            let parent = Parent { run: lineage.run.to_string(), step, report };
            Some((Arc::clone(lineage), parent))
        };
        let (thread, parent, task, plugin) = match (&new.caller.lineage, new.origin) {
            (_, Origin::Thread(thread)) => (thread, None, None, None),
            (Some(lineage), Origin::Step { step, report }) => {
                (id.clone(), parent_at(lineage, step, report), None, None)
            }
            (Some(lineage), Origin::Task { task, step }) => {
                (task.clone(), parent_at(lineage, step, Report::Task), Some(task), None)
            }
            (None, Origin::Task { task, .. }) => (task.clone(), None, Some(task), None),
            (_, Origin::Plugin(plugin)) => (id.clone(), None, None, Some(plugin)),
            (_, Origin::New) | (None, Origin::Step { .. }) => (id.clone(), None, None, None),
        };
        let (root, depth) = parent.as_ref().map_or_else(
            || (id.clone(), 0),
            |(above, _)| (above.root.to_string(), above.depth.saturating_add(1)),
        );
        let mut budget = new.profile.budget.tighter(new.budget);
        if parent.is_none() {
            budget = budget.or(self.settings.load().budget);
        }
        let trace = match &parent {
            Some((above, _)) => {
                self.find(&above.run).and_then(|run| run.record.lock().trace.clone())
            }
            None => new.trace,
        };
        let carried = new.caller.carried.iter().map(|grant| CapabilityGrant::clone(grant));
        RunRecord {
            thread,
            root,
            depth,
            parent: parent.map(|(_, parent)| parent),
            principal: new.caller.principal.clone(),
            carried: carried.collect(),
            model: new
                .model
                .or_else(|| new.profile.model.clone())
                .or_else(|| self.model_above(&new.caller)),
            profile: Profile::clone(&new.profile),
            tool: new.tool,
            task,
            plugin,
            answer: new.answer,
            prompt: new.prompt,
            budget,
            trace,
            // In the order of the conversation, also where the clock stands or was set.
            created_at: self.now().max(latest.saturating_add(1)),
            waited_ms: 0,
            end: None,
            id,
        }
    }

    /// The model of the run that asks, for children without one.
    fn model_above(&self, caller: &Caller) -> Option<String> {
        let parent = self.find(&caller.lineage.as_ref()?.run)?;
        let record = parent.record.lock();
        record.model.clone()
    }

    /// A run in memory, at its beginning.
    pub(super) fn build(
        &self,
        record: RunRecord,
        history: Vec<Message>,
        time_used: Duration,
    ) -> Result<Arc<Live>, StartError> {
        let parent = match &record.parent {
            Some(parent) => Some(self.find(&parent.run).ok_or(StartError::Ended)?),
            None => None,
        };
        let id: Arc<str> = record.id.as_str().into();
        let tools = tool_patterns(&record.profile).map_err(|error| StartError::Tools {
            profile: record.profile.name.clone(),
            reason: error.to_string(),
        })?;
        let lineage = Lineage {
            run: Arc::clone(&id),
            root: record.root.as_str().into(),
            thread: record.thread.as_str().into(),
            profile: record.profile.name.as_str().into(),
            task: record.task.as_deref().map(Into::into),
            plugin: record.plugin.as_deref().map(Into::into),
            depth: record.depth,
            parent: parent.as_ref().map(|parent| Arc::clone(&parent.lineage)),
            bounds: Bounds { ceiling: record.profile.ceiling.clone(), tools },
        };
        let above = parent.iter().flat_map(|parent| parent.path.iter().cloned());
        Ok(Arc::new(Live {
            path: std::iter::once(Arc::clone(&id)).chain(above).collect(),
            cancel: parent
                .as_ref()
                .map_or_else(Default::default, |above| above.cancel.child_token()),
            feed: parent.map_or_else(|| Arc::new(Feed::default()), |above| Arc::clone(&above.feed)),
            cancel_reason: parking_lot::Mutex::default(),
            steps: parking_lot::Mutex::default(),
            inbox: parking_lot::Mutex::default(),
            arrived: tokio::sync::Notify::new(),
            phase: tokio::sync::watch::Sender::new(Phase::Queued),
            time: Arc::new(RunTime::new(
                record.budget.seconds.map(Duration::from_secs),
                time_used,
                Duration::from_millis(record.waited_ms),
            )),
            history,
            lineage: Arc::new(lineage),
            record: parking_lot::Mutex::new(record),
            id,
        }))
    }

    /// Gives a run its place in the tree and in the budgets above it, if there is one.
    fn admit(&self, run: &Arc<Live>) -> Result<(), StartError> {
        let settings = self.settings.load();
        let (model, budget, invoker) = {
            let record = run.record.lock();
            (record.model.clone(), record.budget, record.profile.invoker)
        };
        let models = self.models.models();
        let model = models.resolve(model.as_deref())?;
        let api = model.name().split_once('/').and_then(|(provider, _)| models.api_of(provider));
        self.programs.check(invoker, model.name(), api)?;
        let above = run.above();
        let needs_prices = budget.cost_usd.is_some() || self.pools.has_price_limit(above);
        if needs_prices && model.limits().usd_per_million.is_none() {
            return Err(StartError::NoPrices(model.name().to_owned()));
        }
        run.record.lock().model = Some(model.name().to_owned());
        if run.lineage.depth > settings.max_depth {
            return Err(StartError::Depth(settings.max_depth));
        }
        let mut live = self.live.lock();
        let at_work = live.values().filter(|other| other.end().is_none());
        let siblings =
            at_work.clone().filter(|other| !above.is_empty() && other.path.get(1) == above.first());
        if siblings.count() >= settings.max_fanout {
            return Err(StartError::Fanout(settings.max_fanout));
        }
        if live.values().filter(|other| other.lineage.root == run.lineage.root).count()
            >= settings.max_runs
        {
            return Err(StartError::Tree(settings.max_runs));
        }
        if at_work.count() >= settings.max_active {
            return Err(StartError::Active(settings.max_active));
        }
        self.pools.reserve(above, Amount::RUN)?;
        self.pools.open(&run.id, budget, Amount::RUN);
        live.insert(Arc::clone(&run.id), Arc::clone(run));
        Ok(())
    }

    /// Takes back what `admit` gave.
    fn dismiss(&self, run: &Live) {
        self.live.lock().remove(&run.id);
        self.pools.close(&run.id);
        self.pools.settle(run.above(), Amount::RUN, Amount::default());
    }

    fn started(&self, run: &Live) -> drawgate_core::audit::EventDraft {
        let record = run.record.lock().clone();
        let invoker = Some(record.profile.invoker).filter(|invoker| *invoker != Invoker::Api);
        let ungated = self.programs.own_tools(&record.profile).join(", ");
        self.draft(EventKind::RunStarted, run)
            .text("threadId", &*run.lineage.thread)
            .maybe_text("model", record.model.as_deref())
            .maybe_text("parentRunId", record.parent.as_ref().map(|parent| parent.run.as_str()))
            .maybe_text("invoker", invoker.map(Invoker::as_str))
            .maybe_text("ungatedTools", Some(ungated.as_str()).filter(|tools| !tools.is_empty()))
    }

    /// Adds a run that was at work before a restart.
    pub(super) fn restore(&self, run: &Arc<Live>) {
        self.live.lock().insert(Arc::clone(&run.id), Arc::clone(run));
    }

    /// Tells those who watch that a run begins.
    pub(crate) fn tell_started(&self, run: &Live, model: &str) {
        run.tell(self.now(), Happened::Started { model: model.to_owned() });
    }
}
