//! A program at work on a run, as the gateway knows it.

use std::sync::Arc;

use drawgate_core::model::Caller;
use drawgate_core::store::StoreError;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::runs::Runs;
use crate::runs::ended::Finish;
use crate::runs::live::Live;
use crate::runs::record::{Step, StepBody};
use crate::runs::session::Session;
use crate::runs::store::Change;

/// What run tokens begin with, so that people and scanners recognise them.
const TOKEN_PREFIX: &str = "dgr_";

/// The token of a run: what its program shows to the gateway.
pub(super) struct Token(String);

impl Token {
    pub(super) fn new(runs: &Runs) -> Self {
        Self(format!("{TOKEN_PREFIX}{}", runs.0.gateway.ids().secret()))
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

/// A program at work.
pub(super) struct Program {
    pub(super) session: Session,
    /// One step begins at a time: its place in the run is the next one.
    beginning: tokio::sync::Mutex<()>,
    /// The end that the gateway decided upon while the program was at work.
    end: Mutex<Option<Result<Finish, StoreError>>>,
    pub(super) has_end: CancellationToken,
    /// Cancelled when it has asked its model in its present turn.
    asked: Mutex<CancellationToken>,
    /// Cancelled when nothing of it may go on.
    pub(super) killed: CancellationToken,
    /// What is under way for it.
    pub(super) tasks: TaskTracker,
    /// Places for requests to its model.
    pub(super) requests: Arc<Semaphore>,
}

/// Requests to its model that a program may have under way at once: it and some agents of its own.
const MAX_REQUESTS: usize = 16;

impl Program {
    pub(super) fn new(session: Session, tasks: TaskTracker) -> Self {
        Self {
            session,
            tasks,
            beginning: tokio::sync::Mutex::default(),
            end: Mutex::default(),
            has_end: CancellationToken::new(),
            asked: Mutex::default(),
            killed: CancellationToken::new(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
        }
    }

    pub(super) const fn runs(&self) -> &Runs {
        self.session.runs()
    }

    pub(super) const fn run(&self) -> &Arc<Live> {
        self.session.run()
    }

    pub(super) fn is_of(&self, run: &str) -> bool {
        *self.run().id == *run
    }

    /// Waits for the first request of a new turn: the token is cancelled by it.
    pub(super) fn expect_request(&self) -> CancellationToken {
        let token = CancellationToken::new();
        *self.asked.lock() = token.clone();
        token
    }

    pub(super) fn note_request(&self) {
        self.asked.lock().cancel();
    }

    pub(super) fn kill(&self) {
        self.killed.cancel();
    }

    /// Ends the run as soon as the program has heard why; the first reason counts.
    pub(super) fn finish(&self, end: Result<Finish, StoreError>) {
        self.end.lock().get_or_insert(end);
        self.has_end.cancel();
    }

    pub(super) fn take_end(&self) -> Option<Result<Finish, StoreError>> {
        self.end.lock().take()
    }

    /// Stores a step whose effect comes next.
    pub(super) async fn begin(&self, body: StepBody) -> Result<u32, StoreError> {
        let _one = self.beginning.lock().await;
        self.session.begin(body).await
    }

    /// Gives a step its outcome, unless it has one: the end of the run gives one to all that are open.
    /// Says whether it was open.
    pub(super) async fn close(&self, seq: u32, change: impl FnOnce(&mut StepBody)) -> bool {
        let run = self.run();
        let closed = {
            let mut steps = run.steps.lock();
            let open = steps.iter_mut().find(|step| step.seq == seq && step.is_open());
            open.map(|step| {
                change(&mut step.body);
                step.until = Some(self.session.now());
                step.clone()
            })
        };
        let Some(step) = closed else { return false };
        if let Err(error) = self.store(&step).await {
            self.finish(Err(error));
        }
        self.runs().0.report_step(run, &step);
        true
    }

    /// Notes the program's own name for its conversation.
    pub(super) async fn name_session(&self, seq: u32, name: String) -> Result<(), StoreError> {
        let changed = {
            let mut steps = self.run().steps.lock();
            let step = steps.iter_mut().find(|step| step.seq == seq);
            step.and_then(|step| match &mut step.body {
                StepBody::Turn { session, .. } if session.as_ref() != Some(&name) => {
                    *session = Some(name);
                    Some(step.clone())
                }
                StepBody::Turn { .. }
                | StepBody::Message { .. }
                | StepBody::Model { .. }
                | StepBody::Call { .. }
                | StepBody::Trimmed { .. }
                | StepBody::Summary { .. } => None,
            })
        };
        match changed {
            Some(step) => self.store(&step).await,
            None => Ok(()),
        }
    }

    async fn store(&self, step: &Step) -> Result<(), StoreError> {
        self.runs().0.store.commit(&[Change::Step(&self.run().id, step)]).await
    }
}

/// A program that has shown its token.
#[derive(Clone)]
pub struct RunProgram(pub(super) Arc<Program>);

impl RunProgram {
    pub(super) const fn new(program: Arc<Program>) -> Self {
        Self(program)
    }

    /// The run, as a caller of the gate.
    #[must_use]
    pub fn caller(&self) -> Caller {
        self.0.run().caller()
    }
}
