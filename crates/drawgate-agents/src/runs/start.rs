//! Starts runs, within the limits of depth, fan-out, number and budget.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::audit::EventKind;
use drawgate_core::model::{
    Bounds, Caller, CapabilityGrant, Lineage, ToolPatternError, ToolPatterns,
};
use drawgate_core::store::StoreError;
use serde_json::Value;

use super::feed::{Feed, Happened};
use super::live::{Live, Phase, RunTime};
use super::pool::{Amount, Exhausted};
use super::programs::NoProgram;
use super::record::{Parent, Report, RunRecord, Step, StepBody};
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
        let inner = &self.0;
        if inner.stopping.is_cancelled() {
            return Err(StartError::Stopping);
        }
        let history = match &new.origin {
            Origin::Thread(thread) => self.history(thread, u64::MAX).await?,
            Origin::New | Origin::Step { .. } => Vec::new(),
        };
        let record = inner.record(new);
        let run = inner.build(record, history, Duration::ZERO)?;
        if let Err(error) = inner.admit(&run) {
            if let StartError::Budget(exhausted) = &error {
                let draft = inner.draft(EventKind::BudgetRefused, &run);
                inner.write_down(draft.text("reason", exhausted.to_string())).await;
            }
            return Err(error);
        }
        let prompt = run.record.lock().prompt.clone();
        let first = Step {
            seq: 0,
            at: inner.now(),
            until: Some(inner.now()),
            body: StepBody::Message { from: None, text: prompt },
        };
        let record = run.record.lock().clone();
        let started = inner.acts.owe(inner.started(&run));
        let changes = [Change::Run(&record), Change::Step(&run.id, &first), Change::Owe(&started)];
        if let Err(error) = inner.store.commit(&changes).await {
            inner.dismiss(&run);
            return Err(error.into());
        }
        run.steps.lock().push(first);
        inner.pools.settle(run.above(), Amount::RUN, Amount::RUN);
        inner.acts.report(started).await;
        self.drive(run);
        Ok(record.id)
    }

    /// The conversation of a thread, as far as its runs were started before a time.
    pub(super) async fn history(
        &self,
        thread: &str,
        before: u64,
    ) -> Result<Vec<Message>, StoreError> {
        let mut messages = Vec::new();
        let runs = self.0.store.runs().await?;
        for run in runs.iter().filter(|run| run.thread == thread && run.created_at < before) {
            let steps = self.0.store.steps(&run.id).await?;
            messages = crate::runs::session::conversation(&messages, &steps);
        }
        Ok(messages)
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
    /// The record of a new run.
    fn record(&self, new: NewRun) -> RunRecord {
        let id = self.gateway.ids().unique();
        let parent = match (&new.caller.lineage, &new.origin) {
            (Some(lineage), Origin::Step { step, report }) => Some((
                Arc::clone(lineage),
                Parent { run: lineage.run.to_string(), step: *step, report: *report },
            )),
            (Some(_) | None, Origin::New | Origin::Thread(_) | Origin::Step { .. }) => None,
        };
        let thread = match &new.origin {
            Origin::Thread(thread) => thread.clone(),
            Origin::New | Origin::Step { .. } => id.clone(),
        };
        let (root, depth) = parent.as_ref().map_or_else(
            || (id.clone(), 0),
            |(above, _)| (above.root.to_string(), above.depth.saturating_add(1)),
        );
        let mut budget = new.profile.budget.tighter(new.budget);
        if parent.is_none() {
            budget = budget.or(self.settings.load().budget);
        }
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
            answer: new.answer,
            prompt: new.prompt,
            budget,
            created_at: self.now(),
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
