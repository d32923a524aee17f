//! Runs as people look at them.

use std::collections::BTreeMap;

use drawgate_core::model::Principal;
use drawgate_core::store::StoreError;
use serde::{Deserialize, Serialize};

use super::live::Phase;
use super::pool::Amount;
use super::record::{Ending, RunRecord, Step, StepBody, TurnOutcome, reserved, used};
use super::{Inner, Runs};

/// Characters of a last step in a list.
const SHOWN: usize = 80;

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// Its id.
    pub id: String,
    /// The conversation.
    pub thread: String,
    /// The run at the top of its tree.
    pub root: String,
    /// The run above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// How many runs are above it.
    pub depth: u8,
    /// Its profile.
    pub profile: String,
    /// The custom tool that it is the answer of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The delegated task that it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Whose rights it has.
    pub principal: Principal,
    /// The model that it asked last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it is doing.
    pub phase: Phase,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// Why, unless it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was started, in milliseconds since the epoch.
    pub created_at: u64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// What it and its children used.
    pub used: Amount,
    /// What is reserved for requests to models that are under way, beside what was used.
    #[serde(default, skip_serializing_if = "Amount::is_nothing")]
    pub reserved: Amount,
    /// The same in US dollars, as far as prices are known.
    pub cost_usd: f64,
    /// Its last step, in short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_step: Option<String>,
}

/// A run with all that is known about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunDetails {
    /// The run.
    #[serde(flatten)]
    pub run: RunSummary,
    /// What it was to do.
    pub prompt: String,
    /// The last text of the model.
    pub text: String,
    /// Its budget.
    pub budget: crate::profile::Budget,
    /// Its steps.
    pub steps: Vec<Step>,
    /// The runs below it, parents before children.
    pub below: Vec<RunSummary>,
}

/// A conversation in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSummary {
    /// Its id.
    pub id: String,
    /// The profile of its last run.
    pub profile: String,
    /// Whose it is.
    pub principal: Principal,
    /// How many runs it has.
    pub runs: usize,
    /// When its last run was started, in milliseconds since the epoch.
    pub updated_at: u64,
    /// What the last run was to do.
    pub prompt: String,
}

/// What a run and its children used, and what is reserved for their open requests.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    used: Amount,
    reserved: Amount,
}

impl Runs {
    /// All runs, newest first.
    pub async fn list(&self) -> Result<Vec<RunSummary>, StoreError> {
        let mut summaries = self.summaries().await?;
        summaries.reverse();
        Ok(summaries)
    }

    /// A run and what is below it; `None` if there is none of this id.
    pub async fn show(&self, id: &str) -> Result<Option<RunDetails>, StoreError> {
        let all = self.summaries().await?;
        let Some(run) = all.iter().find(|run| run.id == id).cloned() else { return Ok(None) };
        let Some(record) = self.stored(id).await? else { return Ok(None) };
        let steps = self.0.steps_of(id).await?;
        let mut within = vec![run.id.clone()];
        let mut below = Vec::new();
        for other in all {
            if other.parent.as_ref().is_some_and(|parent| within.contains(parent)) {
                within.push(other.id.clone());
                below.push(other);
            }
        }
        let text = crate::runs::session::last_text(&steps);
        let (prompt, budget) = (record.prompt, record.budget);
        Ok(Some(RunDetails { run, prompt, text, budget, steps, below }))
    }

    /// All conversations with callers that are no runs, newest first.
    pub async fn threads(&self) -> Result<Vec<ThreadSummary>, StoreError> {
        let mut threads: BTreeMap<String, ThreadSummary> = BTreeMap::new();
        for run in self.0.store.runs().await?.into_iter().filter(|run| run.parent.is_none()) {
            let before = threads.get(&run.thread).map_or(0, |thread| thread.runs);
            threads.insert(
                run.thread.clone(),
                ThreadSummary {
                    id: run.thread,
                    profile: run.profile.name,
                    principal: run.principal,
                    runs: before.saturating_add(1),
                    updated_at: run.created_at,
                    prompt: run.prompt,
                },
            );
        }
        let mut threads: Vec<ThreadSummary> = threads.into_values().collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.updated_at));
        Ok(threads)
    }

    /// The record of a run.
    pub(super) async fn stored(&self, id: &str) -> Result<Option<RunRecord>, StoreError> {
        if let Some(run) = self.0.find(id) {
            return Ok(Some(run.record.lock().clone()));
        }
        Ok(self.0.store.runs().await?.into_iter().find(|run| run.id == id))
    }

    /// All runs, oldest first.
    async fn summaries(&self) -> Result<Vec<RunSummary>, StoreError> {
        let records = self.0.store.runs().await?;
        let suspended = self.0.suspended_steps(&records).await?;
        let sums = self.0.sums(&records, &suspended);
        Ok(records
            .into_iter()
            .map(|record| {
                let sum = sums.get(&record.id).copied().unwrap_or_default();
                let steps = suspended.get(&record.id).map(Vec::as_slice).unwrap_or_default();
                self.0.summary(record, sum, steps)
            })
            .collect())
    }
}

impl Inner {
    async fn steps_of(&self, id: &str) -> Result<Vec<Step>, StoreError> {
        match self.find(id) {
            Some(run) => Ok(run.steps.lock().clone()),
            None => self.store.steps(id).await,
        }
    }

    /// The stored steps of the runs that have not ended and that no gateway works on.
    async fn suspended_steps(
        &self,
        records: &[RunRecord],
    ) -> Result<BTreeMap<String, Vec<Step>>, StoreError> {
        let mut all = BTreeMap::new();
        for run in records.iter().filter(|run| run.end.is_none() && self.find(&run.id).is_none()) {
            all.insert(run.id.clone(), self.store.steps(&run.id).await?);
        }
        Ok(all)
    }

    /// What each run and its children used and have reserved.
    fn sums(
        &self,
        records: &[RunRecord],
        suspended: &BTreeMap<String, Vec<Step>>,
    ) -> BTreeMap<String, Sum> {
        let parents: BTreeMap<&str, &str> = records
            .iter()
            .filter_map(|run| Some((run.id.as_str(), run.parent.as_ref()?.run.as_str())))
            .collect();
        let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
        for record in records {
            let own = match (&record.end, self.find(&record.id)) {
                (Some(end), _) => Sum { used: end.own, ..Sum::default() },
                (None, Some(live)) => {
                    let steps = live.steps.lock();
                    Sum { used: used(&steps), reserved: reserved(&steps) }
                }
                (None, None) => suspended.get(&record.id).map_or_else(Sum::default, |steps| Sum {
                    used: used(steps),
                    reserved: reserved(steps),
                }),
            };
            let mut at = Some(record.id.as_str());
            while let Some(id) = at {
                let sum = sums.entry(id.to_owned()).or_default();
                sum.used = sum.used.plus(own.used);
                sum.reserved = sum.reserved.plus(own.reserved);
                at = parents.get(id).copied();
            }
        }
        sums
    }

    fn summary(&self, record: RunRecord, sum: Sum, suspended: &[Step]) -> RunSummary {
        let live = self.find(&record.id);
        let record = live.as_ref().map_or(record, |live| live.record.lock().clone());
        let phase = match (&record.end, &live) {
            (Some(_), _) => Phase::Ended,
            (None, Some(live)) => *live.phase.borrow(),
            (None, None) => Phase::Suspended,
        };
        let last_step = match live {
            Some(live) => live.steps.lock().last().map(describe),
            None => suspended.last().map(describe),
        };
        RunSummary {
            parent: record.parent.map(|parent| parent.run),
            profile: record.profile.name,
            ending: record.end.as_ref().map(|end| end.ending),
            reason: record.end.as_ref().and_then(|end| end.reason.clone()),
            ended_at: record.end.map(|end| end.at),
            id: record.id,
            thread: record.thread,
            root: record.root,
            depth: record.depth,
            tool: record.tool,
            task: record.task,
            principal: record.principal,
            model: record.model,
            created_at: record.created_at,
            cost_usd: sum.used.usd(),
            phase,
            used: sum.used,
            reserved: sum.reserved,
            last_step,
        }
    }
}

/// A step in a few words.
fn describe(step: &Step) -> String {
    let words = match &step.body {
        StepBody::Message { text, .. } => format!("message: {text}"),
        StepBody::Model { model, outcome: None, .. } => format!("asks {model}"),
        StepBody::Model { model, .. } => format!("asked {model}"),
        StepBody::Call { call, outcome: None } => format!("calls {}", call.name),
        StepBody::Call { call, outcome: Some(outcome) } => match outcome.error {
            None => format!("called {}", call.name),
            Some(code) => format!("called {}: {code}", call.name),
        },
        StepBody::Turn { outcome: None, .. } => "works".to_owned(),
        StepBody::Turn { outcome: Some(TurnOutcome::Answered { text }), .. } => {
            format!("answered: {text}")
        }
        StepBody::Turn { outcome: Some(TurnOutcome::Failed { message }), .. } => {
            format!("failed: {message}")
        }
        StepBody::Turn { outcome: Some(TurnOutcome::Interrupted), .. } => "interrupted".to_owned(),
        StepBody::Trimmed { .. } => "left old results out".to_owned(),
        StepBody::Summary { .. } => "summarised".to_owned(),
    };
    words.chars().take(SHOWN).collect()
}
