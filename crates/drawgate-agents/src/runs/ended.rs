//! Drives a run from its beginning to its end, whichever end that is, and writes the end down once.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::ErrorCode;
use drawgate_core::store::StoreError;
use serde_json::Value;

use super::feed::Happened;
use super::live::{Live, Phase};
use super::record::{
    CallOutcome, End, Ending, InboxMessage, ModelOutcome, Report, RunRecord, Step, StepBody,
    TurnOutcome, used,
};
use super::store::Change;
use super::{ENDED_KEPT, Inner, Runs};
use crate::runs::session::{Session, last_text};

/// How long a write that must not be lost waits before it is tried again.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// What a session came to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finish {
    pub(crate) ending: Ending,
    pub(crate) answer: Option<Value>,
    pub(crate) reason: Option<String>,
}

impl Finish {
    pub(crate) const fn done() -> Self {
        Self { ending: Ending::Done, answer: None, reason: None }
    }

    pub(crate) fn answered(answer: Value) -> Self {
        Self { answer: Some(answer), ..Self::done() }
    }

    pub(crate) fn because(ending: Ending, reason: impl Into<String>) -> Self {
        Self { ending, answer: None, reason: Some(reason.into()) }
    }

    /// The same, where so many agents end that it had started.
    fn with_ended(self, children: usize) -> Self {
        let ended = match children {
            0 => return self,
            1 => "1 agent that it had started was ended".to_owned(),
            many => format!("{many} agents that it had started were ended"),
        };
        let reason = match self.reason {
            Some(reason) => format!("{reason}; {ended}"),
            None => ended,
        };
        Self { reason: Some(reason), ..self }
    }
}

impl Runs {
    /// Lets a run work in a task of its own. When the gateway stops, it is left where it is.
    pub(super) fn drive(&self, run: Arc<Live>) {
        let runs = self.clone();
        let stopping = self.0.stopping.clone();
        self.0.tasks.spawn(async move {
            stopping.run_until_cancelled_owned(runs.work(&run)).await;
        });
    }

    /// Lets something work that belongs to runs. When the gateway stops, it is left where it is.
    pub(crate) fn drive_beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.0.stopping.clone();
        self.0.tasks.spawn(async move {
            stopping.run_until_cancelled_owned(work).await;
        });
    }

    /// Works until there is an end, and ends the run with it.
    async fn work(&self, run: &Arc<Live>) {
        let finish = tokio::select! {
            biased;
            () = run.cancel.cancelled() => {
                let reason = run.cancel_reason.lock().clone();
                let reason = reason.unwrap_or_else(|| "the run above it ended".to_owned());
                Finish::because(Ending::Cancelled, reason)
            }
            finish = self.session(run) => match finish {
                Ok(finish) => finish,
                Err(error) => return self.0.suspend(run, &error),
            },
            () = run.time.passed() => {
                Finish::because(Ending::Deadline, time_is_over(run))
            }
        };
        self.end(run, finish).await;
    }

    async fn session(&self, run: &Arc<Live>) -> Result<Finish, StoreError> {
        self.begin(run).await?;
        Session::open(self, run).await
    }

    /// Takes a run up again that was suspended.
    #[must_use]
    pub fn resume_suspended(&self, id: &str) -> bool {
        match self.0.find(id) {
            Some(run) if *run.phase.borrow() == Phase::Suspended => {
                run.set_phase(Phase::Queued, self.0.now());
                self.drive(run);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Ends a run: what is below it first, then its open steps and itself, in one step of the store.
    async fn end(&self, run: &Arc<Live>, finish: Finish) {
        let inner = &self.0;
        let children = inner.children(run);
        let finish = finish.with_ended(children.len());
        run.cancel.cancel();
        for child in children {
            child.ended().await;
        }
        inner.programs.stopped(&run.id).await;
        let open = inner.close_steps(run);
        let record = inner.ended_record(run, finish);
        let message = inner.report(&record);
        let ended = inner.acts.owe(inner.ended_event(run, &record));
        let mut changes: Vec<Change<'_>> =
            open.iter().map(|step| Change::Step(&run.id, step)).collect();
        changes.push(Change::Run(&record));
        changes.push(Change::Owe(&ended));
        changes.extend(message.as_ref().map(Change::Message));
        while let Err(error) = inner.store.commit(&changes).await {
            tracing::error!(%error, run = %run.id, "the end of a run can't be stored yet");
            tokio::time::sleep(STORE_PAUSE).await;
        }
        inner.report_end(run, &open, &record);
        inner.tell_after(run, &record);
        inner.programs.forget(&run.id).await;
        inner.conclude(run, record, message).await;
        inner.acts.report(ended).await;
        inner.over(run);
    }
}

impl Inner {
    fn suspend(&self, run: &Live, error: &StoreError) {
        tracing::error!(%error, run = %run.id, "a run is suspended: its steps can't be stored");
        run.set_phase(Phase::Suspended, self.now());
    }

    /// The runs below a run that have not ended.
    pub(crate) fn children(&self, run: &Live) -> Vec<Arc<Live>> {
        let live = self.live.lock();
        let is_child = |other: &&Arc<Live>| {
            other.above().first() == Some(&run.id) && *other.phase.borrow() != Phase::Ended
        };
        live.values().filter(is_child).cloned().collect()
    }

    /// Gives open steps their outcome: the run is over, and nothing waits for them.
    fn close_steps(&self, run: &Live) -> Vec<Step> {
        let now = self.now();
        let mut closed = Vec::new();
        for step in run.steps.lock().iter_mut().filter(|step| step.is_open()) {
            step.until = Some(now);
            match &mut step.body {
                StepBody::Model { reserved, outcome, .. } => {
                    // Nobody knows how far it came, so that all of it counts.
                    self.pools.settle(&run.path, *reserved, *reserved);
                    *outcome = Some(ModelOutcome::Failed {
                        kind: None,
                        message: "the run ended meanwhile".to_owned(),
                        spent: *reserved,
                    });
                }
                StepBody::Call { outcome, .. } => {
                    let message = "the run ended while the tool was called";
                    *outcome = Some(CallOutcome::failed(ErrorCode::Cancelled, message));
                }
                StepBody::Turn { outcome, .. } => {
                    let message = "the run ended meanwhile".to_owned();
                    *outcome = Some(TurnOutcome::Failed { message });
                }
                StepBody::Message { .. } | StepBody::Trimmed { .. } | StepBody::Summary { .. } => {}
            }
            closed.push(step.clone());
        }
        closed
    }

    fn ended_record(&self, run: &Live, finish: Finish) -> RunRecord {
        let steps = run.steps.lock();
        let mut record = run.record.lock().clone();
        record.waited_ms = u64::try_from(run.time.waited().as_millis()).unwrap_or(u64::MAX);
        record.end = Some(End {
            ending: finish.ending,
            text: last_text(&steps),
            answer: finish.answer,
            reason: finish.reason,
            at: self.now(),
            own: used(&steps),
        });
        record
    }

    /// The message by which a parent hears of the end, if that is how. One that is ending itself is told
    /// nothing: it would find the message if the gateway were killed before it has ended, and go on.
    fn report(&self, record: &RunRecord) -> Option<InboxMessage> {
        let parent = record.parent.as_ref().filter(|parent| parent.report == Report::Message)?;
        let is_at_work = |run: Arc<Live>| run.end().is_none() && !run.cancel.is_cancelled();
        let end = record.end.as_ref()?;
        let message = || self.message(&parent.run, Some(&record.id), describe_end(end));
        self.find(&parent.run).is_some_and(is_at_work).then(message)
    }

    /// A message to a run.
    pub(crate) fn message(&self, to: &str, from: Option<&str>, text: String) -> InboxMessage {
        let (now, unique) = (self.now(), self.gateway.ids().unique());
        let from = from.map(str::to_owned);
        InboxMessage { id: format!("{to}/{now:013}-{unique}"), from, text }
    }

    /// Makes the end known: in memory, to the parent and to those who watch.
    async fn conclude(&self, run: &Arc<Live>, record: RunRecord, message: Option<InboxMessage>) {
        let used = self.pools.spent(&run.id);
        if let (Some(message), Some(parent)) = (message, &record.parent) {
            self.hand_over(&parent.run, message);
        }
        let Some(end) = record.end.clone() else { return };
        *run.record.lock() = record;
        if end.ending == Ending::Budget {
            let refused = self.draft(EventKind::BudgetRefused, run);
            self.write_down(refused.maybe_text("reason", end.reason.as_deref())).await;
        }
        run.tell(
            self.now(),
            Happened::Ended {
                ending: end.ending,
                text: end.text,
                reason: end.reason,
                tokens: used.tokens,
                cached_tokens: used.cached_tokens,
                cost_usd: used.usd(),
            },
        );
    }

    /// Whoever waits for the run goes on.
    fn over(&self, run: &Live) {
        run.set_phase(Phase::Ended, self.now());
        if let Some(parent) = run.above().first().and_then(|parent| self.find(parent)) {
            parent.arrived.notify_one();
        }
        if run.above().is_empty() {
            self.forget_tree(&run.id);
        }
    }

    fn ended_event(&self, run: &Live, record: &RunRecord) -> EventDraft {
        let used = self.pools.spent(&run.id);
        let draft = self.draft(EventKind::RunEnded, run);
        let draft = match &record.end {
            Some(end) => draft
                .text("ending", end.ending.as_str())
                .maybe_text("reason", end.reason.as_deref()),
            None => draft,
        };
        draft
            .number("tokens", used.tokens)
            .number("costMicroUsd", used.micro_usd)
            .number("toolCalls", used.tool_calls)
    }

    /// Puts a message into the inbox of a run that is at work; `false` if it takes none any more.
    pub(crate) fn hand_over(&self, to: &str, message: InboxMessage) -> bool {
        let Some(run) = self.find(to) else { return false };
        let is_taken = run.inbox.lock().push(message);
        run.arrived.notify_one();
        is_taken
    }

    /// A tree whose root has ended is over.
    fn forget_tree(&self, root: &Arc<str>) {
        let mut live = self.live.lock();
        let mut ended = self.ended.lock();
        live.retain(|id, run| {
            let goes = run.lineage.root == *root;
            if goes {
                self.pools.close(id);
                ended.push_back((Arc::clone(id), Arc::clone(&run.feed)));
            }
            !goes
        });
        let excess = ended.len().saturating_sub(ENDED_KEPT);
        ended.drain(..excess);
    }
}

fn time_is_over(run: &Live) -> String {
    let seconds = run.record.lock().budget.seconds.unwrap_or_default();
    format!("its {seconds} seconds are over")
}

/// The end of a run, as the one that started it reads it.
pub(crate) fn describe_end(end: &End) -> String {
    let text = match &end.answer {
        Some(answer) => answer.to_string(),
        None => end.text.clone(),
    };
    match &end.reason {
        None => text,
        Some(reason) if text.is_empty() => format!("[ended: {}; {reason}]", end.ending.as_str()),
        Some(reason) => format!("[ended: {}; {reason}]\n{text}", end.ending.as_str()),
    }
}
