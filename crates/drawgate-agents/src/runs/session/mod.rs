//! The work of one run: ask the model, make the calls that it wants, tell it the results, until it is
//! done or something ends it.
//!
//! What comes next is read off the steps ([`conversation::next`]), so that a run that is taken up again
//! needs no other way in. A step is stored before its effect, and again with its outcome.

mod act;
mod answer;
mod context;
mod conversation;
mod think;

use std::sync::Arc;

use drawgate_core::model::Caller;
use drawgate_core::store::StoreError;

pub(crate) use self::act::{READ, STEP_KEY, outlined, started};
pub(crate) use self::answer::RETURN_RESULT;
use self::answer::{AnswerForm, CORRECTIONS};
pub(crate) use self::conversation::{GATEWAY, conversation, last_text};
use self::conversation::{Next, next};
use crate::model::{Model, ModelLimits, Reply, Stop};
use crate::profile::Invoker;
use crate::runs::ended::Finish;
use crate::runs::feed::Happened;
use crate::runs::hooks::Role;
use crate::runs::live::{Live, Phase};
use crate::runs::record::{Ending, ModelOutcome, Step, StepBody};
use crate::runs::store::Change;
use crate::runs::{Runs, programs};

/// Requests to the model in one run, unless its profile says otherwise.
const MAX_TURNS: usize = 50;
/// How often in a row a model may reach its limit of output without calling a tool.
const MAX_CUT_REPLIES: usize = 3;
/// What a model is told whose reply was cut.
const GO_ON: &str = "Your reply was cut at the limit of output tokens. Go on where it stopped.";

/// What messages that come into a conversation are for the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begins {
    /// The run would have ended, and goes on with them.
    Turn,
    /// They come while it works.
    Nothing,
}

/// A run at work.
pub(crate) struct Session {
    runs: Runs,
    run: Arc<Live>,
    model: Arc<dyn Model>,
    caller: Caller,
    answer: Option<AnswerForm>,
}

impl Session {
    /// Works until there is an end. An error of the store stops the work where it is.
    pub(crate) async fn open(runs: &Runs, run: &Arc<Live>) -> Result<Finish, StoreError> {
        let (wanted, schema, invoker) = {
            let record = run.record.lock();
            (record.model.clone(), record.answer.clone(), record.profile.invoker)
        };
        let model = match runs.0.models.models().resolve(wanted.as_deref()) {
            Ok(model) => model,
            Err(error) => return Ok(Finish::because(Ending::Failed, error.to_string())),
        };
        let answer = match schema.as_ref().map(AnswerForm::new).transpose() {
            Ok(answer) => answer,
            Err(error) => return Ok(Finish::because(Ending::Failed, error.to_string())),
        };
        runs.0.tell_started(run, model.name());
        let session =
            Self { runs: runs.clone(), run: Arc::clone(run), model, caller: run.caller(), answer };
        match invoker {
            Invoker::Api => session.work().await,
            Invoker::Claude | Invoker::Codex | Invoker::Gemini | Invoker::Opencode => {
                programs::work(session, invoker).await
            }
        }
    }

    pub(crate) const fn runs(&self) -> &Runs {
        &self.runs
    }

    pub(crate) const fn run(&self) -> &Arc<Live> {
        &self.run
    }

    pub(crate) fn model_name(&self) -> String {
        self.model.name().to_owned()
    }

    pub(crate) fn limits(&self) -> &ModelLimits {
        self.model.limits()
    }

    /// The end of a run whose answer is this text.
    pub(crate) fn concluded(&self, text: &str) -> Finish {
        match self.answer.as_ref().map(|form| form.of_text(text)) {
            None => Finish::done(),
            Some(Ok(answer)) => Finish::answered(answer),
            Some(Err(fault)) => Finish::because(Ending::Invalid, fault),
        }
    }

    async fn work(&self) -> Result<Finish, StoreError> {
        self.close_lost_requests().await?;
        let mut taken_up = true;
        loop {
            let (calls, open, concluding) = {
                let steps = self.run.steps.lock();
                match next(&steps) {
                    Next::Think => (None, Vec::new(), None),
                    Next::Call(reply) => (Some(reply.clone()), Vec::new(), None),
                    Next::Perform(open) => (None, open, None),
                    Next::Conclude(reply) => (None, Vec::new(), Some(reply.clone())),
                }
            };
            if open.is_empty() && self.runs.0.holding.is_cancelled() {
                // The next start goes on from here; until then this work is dropped where it waits.
                std::future::pending::<()>().await;
            }
            let finish = if let Some(reply) = calls {
                self.begin_calls(&reply).await?
            } else if !open.is_empty() {
                self.perform(open, taken_up).await?
            } else if let Some(reply) = concluding {
                self.conclude(&reply).await?
            } else {
                self.deliver(Begins::Nothing).await?;
                self.think().await?
            };
            if let Some(finish) = finish {
                return Ok(finish);
            }
            taken_up = false;
        }
    }

    /// Requests of which nobody will hear again: the gateway was stopped meanwhile. What was reserved for
    /// them counts as spent.
    async fn close_lost_requests(&self) -> Result<(), StoreError> {
        let open: Vec<u32> = {
            let steps = self.run.steps.lock();
            let is_request = |step: &&Step| matches!(step.body, StepBody::Model { .. });
            steps
                .iter()
                .filter(is_request)
                .filter(|step| step.is_open())
                .map(|step| step.seq)
                .collect()
        };
        for seq in open {
            self.finish_step(seq, |body| {
                if let StepBody::Model { reserved, outcome, .. } = body {
                    *outcome = Some(ModelOutcome::Failed {
                        kind: None,
                        message: "the gateway was stopped before the answer came".to_owned(),
                        spent: *reserved,
                    });
                }
            })
            .await?;
        }
        Ok(())
    }

    /// A reply without calls: the end, unless something is missing.
    async fn conclude(&self, reply: &Reply) -> Result<Option<Finish>, StoreError> {
        match &reply.stop {
            Stop::Refused => {
                let reason = "the model refuses to go on";
                return Ok(Some(Finish::because(Ending::Failed, reason)));
            }
            Stop::Context => {
                let reason = "the conversation does not fit into the model's context";
                return Ok(Some(Finish::because(Ending::Context, reason)));
            }
            Stop::Paused => return self.think().await,
            Stop::MaxOutput => return self.go_on().await,
            Stop::End | Stop::Calls | Stop::Other(_) => {}
        }
        if self.awaits_message().await? {
            return Ok(None);
        }
        let Some(form) = &self.answer else { return Ok(Some(Finish::done())) };
        match form.of_text(&reply.text()) {
            Ok(answer) => Ok(Some(Finish::answered(answer))),
            Err(fault) => self.correct(fault).await,
        }
    }

    async fn go_on(&self) -> Result<Option<Finish>, StoreError> {
        if self.notes(GO_ON) >= MAX_CUT_REPLIES {
            let reason = "the model reaches its limit of output again and again";
            return Ok(Some(Finish::because(Ending::Stuck, reason)));
        }
        self.note(GO_ON.to_owned()).await?;
        Ok(None)
    }

    /// Tells the model what is wrong with its answer, unless it was told often enough.
    async fn correct(&self, fault: String) -> Result<Option<Finish>, StoreError> {
        if self.faults() >= CORRECTIONS {
            return Ok(Some(Finish::because(Ending::Invalid, fault)));
        }
        self.note(format!("{fault}. Answer again, in the form that was asked for.")).await?;
        Ok(None)
    }

    /// How often the model was told that its answer is wrong.
    fn faults(&self) -> usize {
        let steps = self.run.steps.lock();
        let is_fault = |step: &&Step| match &step.body {
            StepBody::Message { from: Some(from), .. } => from == GATEWAY,
            StepBody::Call { call, outcome: Some(outcome) } => {
                call.name == answer::RETURN_RESULT && outcome.error.is_some()
            }
            StepBody::Message { from: None, .. }
            | StepBody::Call { outcome: None, .. }
            | StepBody::Model { .. }
            | StepBody::Turn { .. }
            | StepBody::Trimmed { .. }
            | StepBody::Summary { .. } => false,
        };
        steps.iter().filter(is_fault).count()
    }

    /// How often the gateway made this note at the end of the conversation.
    fn notes(&self, wanted: &str) -> usize {
        let steps = self.run.steps.lock();
        let messages = steps.iter().rev().filter_map(|step| match &step.body {
            StepBody::Message { from, text } => Some((from.as_deref(), text.as_str())),
            StepBody::Call { .. }
            | StepBody::Model { .. }
            | StepBody::Turn { .. }
            | StepBody::Trimmed { .. }
            | StepBody::Summary { .. } => None,
        });
        messages.take_while(|(from, text)| *from == Some(GATEWAY) && *text == wanted).count()
    }

    async fn note(&self, text: String) -> Result<(), StoreError> {
        self.add(StepBody::Message { from: Some(GATEWAY.to_owned()), text }).await.map(drop)
    }

    /// Waits for a message as long as agents that it started or delegated work are not over; `false` if
    /// there are none to wait for. The run's time bounds this.
    pub(crate) async fn awaits_message(&self) -> Result<bool, StoreError> {
        loop {
            // The last message is there before the work counts as over, so that this order misses none.
            let is_awaited = self.runs.0.awaited_by(&self.run.id) > 0
                || !self.runs.0.children(&self.run).is_empty();
            if self.deliver(Begins::Turn).await? {
                return Ok(true);
            }
            if !is_awaited {
                if self.run.inbox.lock().close() {
                    return Ok(false);
                }
                continue;
            }
            self.run.set_phase(Phase::Waiting, self.now());
            self.run.arrived.notified().await;
        }
    }

    /// Puts messages that have come into the conversation; `false` if there are none.
    async fn deliver(&self, begins: Begins) -> Result<bool, StoreError> {
        let mut any = false;
        loop {
            let Some(mut message) = self.run.inbox.lock().first() else { return Ok(any) };
            if begins == Begins::Turn {
                message.text = self.runs.0.before_invoke(&self.run, message.text).await;
            }
            let body = StepBody::Message { from: message.from.clone(), text: message.text.clone() };
            let step = self.new_step(body, Some(self.now()));
            let changes = [Change::Step(&self.run.id, &step), Change::Delivered(&message.id)];
            self.runs.0.store.commit(&changes).await?;
            self.run.inbox.lock().take_first();
            self.run.steps.lock().push(step);
            self.runs.0.tell_message(&self.run, Role::User, &message.text);
            let (from, text) = (message.from, message.text);
            self.run.tell(self.now(), Happened::Message { from, text });
            any = true;
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.runs.0.now()
    }

    fn new_step(&self, body: StepBody, until: Option<u64>) -> Step {
        let seq = self.run.steps.lock().last().map_or(0, |last| last.seq.saturating_add(1));
        Step { seq, at: self.now(), until, body }
    }

    /// Stores a step that has no outcome to come, and adds it.
    async fn add(&self, body: StepBody) -> Result<u32, StoreError> {
        let step = self.new_step(body, Some(self.now()));
        self.store(step).await
    }

    /// Stores a step whose effect comes next, and adds it.
    pub(crate) async fn begin(&self, body: StepBody) -> Result<u32, StoreError> {
        let step = self.new_step(body, None);
        self.store(step).await
    }

    async fn store(&self, step: Step) -> Result<u32, StoreError> {
        self.runs.0.store.commit(&[Change::Step(&self.run.id, &step)]).await?;
        let seq = step.seq;
        self.run.steps.lock().push(step);
        Ok(seq)
    }

    /// Stores the outcome of a step, and notes it.
    async fn finish_step(
        &self,
        seq: u32,
        change: impl FnOnce(&mut StepBody),
    ) -> Result<(), StoreError> {
        let found = self.run.steps.lock().iter().find(|step| step.seq == seq).cloned();
        let Some(mut step) = found else { return Ok(()) };
        change(&mut step.body);
        step.until = Some(self.now());
        self.runs.0.store.commit(&[Change::Step(&self.run.id, &step)]).await?;
        self.runs.0.report_step(&self.run, &step);
        if let Some(kept) = self.run.steps.lock().iter_mut().find(|kept| kept.seq == seq) {
            *kept = step;
        }
        Ok(())
    }
}
