//! Reports of what ended: requests to models, calls and runs, for metrics and traces. They hold names,
//! numbers and codes, never what was said.
//!
//! Reports are made from stored steps, so that a run that is taken up again is reported as a whole.

use std::sync::Arc;

use drawgate_core::model::{ErrorCode, Lineage, Principal, TraceParent};

use super::live::Live;
use super::pool::Amount;
use super::record::{Ending, ModelOutcome, RunRecord, Step, StepBody};
use super::{Inner, Runs, trace};
use crate::model::{Api, ModelErrorKind, Usage};

/// Receives reports of all runs. Must not block.
pub trait RunObserver: Send + Sync + 'static {
    /// A request to a model has ended.
    fn turn_ended(&self, _turn: &TurnReport) {}

    /// A call that a model asked for has ended.
    fn call_ended(&self, _call: &CallReport) {}

    /// A run has ended.
    fn run_ended(&self, _run: &RunReport) {}

    /// Whether spans are exported, so that the servers that a run calls are told of them.
    fn exports_spans(&self) -> bool {
        false
    }
}

/// The place of something in a trace, and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpan {
    /// Its own ids.
    pub context: TraceParent,
    /// The span above it.
    pub parent: Option<TraceParent>,
    /// When it began, in milliseconds since the epoch.
    pub started_at: u64,
    /// When it ended.
    pub ended_at: u64,
}

/// A request to a model that has ended.
#[derive(Debug, Clone)]
pub struct TurnReport {
    /// The run that made it.
    pub run: Arc<Lineage>,
    /// Its span, below that of the run.
    pub span: RunSpan,
    /// The provider's name in the configuration.
    pub provider: String,
    /// The API that the provider speaks; nothing if it is no longer configured.
    pub api: Option<Api>,
    /// The model's name at the provider.
    pub model: String,
    /// What came of it.
    pub result: TurnResult,
    /// What counts as spent for it.
    pub spent: Amount,
}

/// What came of a request to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnResult {
    /// A reply, with the tokens that it took.
    Replied(Usage),
    /// A failure.
    Failed(ModelErrorKind),
    /// The run ended, or the gateway was stopped, before an answer came.
    Interrupted,
}

/// A call of a run that has ended. Waiting for a person's approval is part of it.
#[derive(Debug, Clone)]
pub struct CallReport {
    /// The run that made it.
    pub run: Arc<Lineage>,
    /// Whose rights the run has.
    pub principal: Principal,
    /// Its span, below that of the run.
    pub span: RunSpan,
    /// The tool, as the model named it.
    pub tool: String,
    /// The code, if it failed or was refused.
    pub error: Option<ErrorCode>,
}

/// A run that has ended.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// The run.
    pub run: Arc<Lineage>,
    /// Whose rights it had.
    pub principal: Principal,
    /// Its span, below that of the call that started it.
    pub span: RunSpan,
    /// How it ended.
    pub ending: Ending,
    /// Tokens that providers counted for it, without its children.
    pub usage: Usage,
    /// What counts as spent by it, without its children.
    pub spent: Amount,
}

impl Runs {
    /// Reports to an observer from now on. Later calls change nothing.
    pub fn observe(&self, observer: Arc<dyn RunObserver>) {
        // The first one stays.
        let _ = self.0.observer.set(observer);
    }
}

impl Inner {
    /// The span of a step, for the server that is called; nothing if spans are not exported.
    pub(crate) fn call_context(&self, run: &Live, step: u32) -> Option<TraceParent> {
        self.observer.get().filter(|observer| observer.exports_spans())?;
        trace::of_step(&run.record.lock(), step)
    }

    /// Reports a step that has its outcome.
    pub(crate) fn report_step(&self, run: &Live, step: &Step) {
        let Some(observer) = self.observer.get() else { return };
        let Some(span) = step_span(run, step) else { return };
        match &step.body {
            StepBody::Model { model, outcome: Some(outcome), .. } => {
                observer.turn_ended(&self.turn_report(run, span, model, outcome));
            }
            StepBody::Call { call, outcome: Some(outcome) } => {
                let principal = run.record.lock().principal.clone();
                observer.call_ended(&CallReport {
                    run: Arc::clone(&run.lineage),
                    principal,
                    span,
                    tool: call.name.clone(),
                    error: outcome.error,
                });
            }
            StepBody::Model { outcome: None, .. }
            | StepBody::Call { outcome: None, .. }
            | StepBody::Message { .. }
            | StepBody::Turn { .. }
            | StepBody::Trimmed { .. }
            | StepBody::Summary { .. } => {}
        }
    }

    fn turn_report(
        &self,
        run: &Live,
        span: RunSpan,
        model: &str,
        outcome: &ModelOutcome,
    ) -> TurnReport {
        let (provider, model) = model.split_once('/').unwrap_or(("", model));
        let (result, spent) = match outcome {
            ModelOutcome::Reply { reply, spent } => (TurnResult::Replied(reply.usage), *spent),
            ModelOutcome::Failed { kind: Some(kind), spent, .. } => {
                (TurnResult::Failed(*kind), *spent)
            }
            ModelOutcome::Failed { kind: None, spent, .. } => (TurnResult::Interrupted, *spent),
        };
        TurnReport {
            run: Arc::clone(&run.lineage),
            span,
            api: self.models.models().api_of(provider),
            provider: provider.to_owned(),
            model: model.to_owned(),
            result,
            spent,
        }
    }

    /// Reports a run that has ended, after the steps that ended with it.
    pub(crate) fn report_end(&self, run: &Live, closed: &[Step], record: &RunRecord) {
        let Some(observer) = self.observer.get() else { return };
        for step in closed {
            self.report_step(run, step);
        }
        let Some(end) = &record.end else { return };
        let Some(context) = trace::of_run(record) else { return };
        let usage = usage_of(&run.steps.lock());
        observer.run_ended(&RunReport {
            run: Arc::clone(&run.lineage),
            principal: record.principal.clone(),
            span: RunSpan {
                context,
                parent: trace::above(record),
                started_at: record.created_at,
                ended_at: end.at,
            },
            ending: end.ending,
            usage,
            spent: end.own,
        });
    }
}

fn step_span(run: &Live, step: &Step) -> Option<RunSpan> {
    let record = run.record.lock();
    Some(RunSpan {
        context: trace::of_step(&record, step.seq)?,
        parent: Some(trace::of_run(&record)?),
        started_at: step.at,
        ended_at: step.until?,
    })
}

/// The tokens of all replies.
pub(super) fn usage_of(steps: &[Step]) -> Usage {
    let replies = steps.iter().filter_map(|step| match &step.body {
        StepBody::Model { outcome: Some(ModelOutcome::Reply { reply, .. }), .. } => {
            Some(reply.usage)
        }
        StepBody::Model { .. }
        | StepBody::Call { .. }
        | StepBody::Message { .. }
        | StepBody::Turn { .. }
        | StepBody::Trimmed { .. }
        | StepBody::Summary { .. } => None,
    });
    replies.fold(Usage::default(), Usage::plus)
}
