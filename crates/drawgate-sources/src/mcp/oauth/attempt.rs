//! A login under way: begun by one request, ended by the browser, reported to another request.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::model::Principal;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::error::LoginError;
use super::flow::Plan;
use super::login::{LoginSummary, ServerLogin, Shared};

/// How long a person may take.
const PATIENCE: Duration = Duration::from_mins(10);

/// A login that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingLogin {
    /// By which its end can be waited for.
    pub attempt: String,
    /// What the person must open in a browser: `https`, or `http` on this machine.
    pub url: String,
}

type Outcome = Result<LoginSummary, Arc<LoginError>>;

/// The attempt of a server; a new one ends the one before.
pub(super) struct Attempt {
    id: String,
    outcome: watch::Receiver<Option<Outcome>>,
    _stop: DropGuard,
}

impl ServerLogin {
    /// Begins a login, in place of one that may be under way.
    pub async fn begin(&self, actor: &Principal) -> Result<PendingLogin, LoginError> {
        let shared = &self.shared;
        shared.demand_person()?;
        shared.abandon().await;
        let plan = Plan::prepare(shared).await?;
        let begun = PendingLogin {
            attempt: shared.context.ids.unique(),
            url: plan.url.as_str().to_owned(),
        };
        let stop = CancellationToken::new();
        let (sender, outcome) = watch::channel(None);
        let (login, stopped, actor) = (Arc::clone(shared), stop.clone(), actor.clone());
        tokio::spawn(async move {
            let done = tokio::select! {
                done = timeout(PATIENCE, login.complete(&actor, plan)) => done,
                () = stopped.cancelled() => Ok(Err(LoginError::Replaced)),
            };
            let done = done.unwrap_or(Err(LoginError::TooLate)).map_err(Arc::new);
            sender.send_replace(Some(done));
        });
        let attempt = Attempt { id: begun.attempt.clone(), outcome, _stop: stop.drop_guard() };
        *shared.attempt.lock() = Some(attempt);
        Ok(begun)
    }

    /// Waits for the end of a login.
    pub async fn outcome(&self, attempt: &str) -> Outcome {
        let gone = || Arc::new(LoginError::NoAttempt);
        let mut outcome = match &*self.shared.attempt.lock() {
            Some(known) if known.id == attempt => known.outcome.clone(),
            Some(_) | None => return Err(gone()),
        };
        let done = outcome.wait_for(Option::is_some).await.map_err(|_| gone())?;
        done.clone().unwrap_or_else(|| Err(gone()))
    }
}

impl Shared {
    /// Ends the attempt under way, and waits until its port is free.
    pub(super) async fn abandon(&self) {
        let earlier = self.attempt.lock().take();
        if let Some(Attempt { mut outcome, _stop: stop, .. }) = earlier {
            drop(stop);
            // An error means that its task is gone, which is what is waited for.
            let _ = outcome.wait_for(Option::is_some).await;
        }
    }

    async fn complete(
        self: &Arc<Self>,
        actor: &Principal,
        plan: Plan,
    ) -> Result<LoginSummary, LoginError> {
        let kept = plan.finish(self).await?;
        self.adopt(actor, kept).await
    }
}
