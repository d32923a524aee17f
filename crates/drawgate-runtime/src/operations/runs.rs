//! Runs and conversations of agents: starting, watching, ending.

use std::time::Duration;

use drawgate_agents::profile::Budget;
use drawgate_agents::runs::{
    NewRun, Origin, Phase, RunDetails, RunEvent, RunSummary, ThreadSummary,
};
use drawgate_core::model::{Caller, Principal};
use serde::{Deserialize, Serialize};

use super::{AgentError, OperationError, Operations};

/// The longest time that a look at events waits for one.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// What a run is told that goes on where another one ended.
const GO_ON: &str = "Go on where you stopped.";

/// A run to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartRun {
    /// The profile.
    pub profile: String,
    /// What it is to do.
    pub prompt: String,
    /// Another model than the profile's.
    #[serde(default)]
    pub model: Option<String>,
    /// A tighter budget than the profile's.
    #[serde(default)]
    pub budget: Budget,
    /// A conversation to go on with, instead of a new one.
    #[serde(default)]
    pub thread: Option<String>,
    /// The agent in whose name it works, instead of the operator.
    #[serde(default)]
    pub agent: Option<Principal>,
}

/// A run that was started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StartedRun {
    /// Its id.
    pub id: String,
}

/// Which events of a run's tree are wanted.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunEventsQuery {
    /// Those after this number.
    pub after: u64,
    /// Milliseconds to wait for one.
    pub wait_ms: u64,
}

/// What happened in a run's tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunEvents {
    /// The events.
    pub events: Vec<RunEvent>,
    /// Whether the run has ended, so that no more will come.
    pub ended: bool,
}

impl Operations {
    /// Starts a run in a caller's name.
    pub async fn start_run(
        &self,
        caller: Caller,
        start: StartRun,
    ) -> Result<StartedRun, OperationError> {
        self.agents.refresh().await;
        let Some(profile) = self.profiles.get(&start.profile) else {
            return Err(self.no_profile(start.profile).into());
        };
        let thread = match &start.thread {
            Some(thread) => Some(self.thread_of(thread).await?),
            None => None,
        };
        let id = self.agents.runs.start(NewRun {
            caller,
            profile,
            tool: None,
            prompt: start.prompt,
            model: start.model,
            answer: None,
            budget: start.budget,
            origin: thread.map_or(Origin::New, Origin::Thread),
            trace: None,
        });
        Ok(StartedRun { id: id.await? })
    }

    fn no_profile(&self, name: String) -> AgentError {
        let is_known = self.profiles.known().iter().any(|known| known.name == name);
        if is_known { AgentError::ProfileWaits(name) } else { AgentError::UnknownProfile(name) }
    }

    /// All runs, newest first.
    pub async fn runs(&self) -> Result<Vec<RunSummary>, OperationError> {
        Ok(self.agents.runs.list().await?)
    }

    /// A run with its steps and what is below it.
    pub async fn run(&self, id: &str) -> Result<RunDetails, OperationError> {
        let id = self.run_id(id).await?;
        let found = self.agents.runs.show(&id).await?;
        found.ok_or_else(|| AgentError::UnknownRun(id).into())
    }

    /// What happens in a run's tree.
    pub async fn run_events(
        &self,
        id: &str,
        query: RunEventsQuery,
    ) -> Result<RunEvents, OperationError> {
        let id = self.run_id(id).await?;
        let wait = Duration::from_millis(query.wait_ms).min(LONGEST_WAIT);
        let Some(events) = self.agents.runs.events(&id, query.after, wait).await else {
            return Ok(RunEvents { events: Vec::new(), ended: true });
        };
        // The last event of a run is its end, so that there is none after it to wait for.
        let ended = events.is_empty() && !self.agents.runs.is_at_work(&id);
        Ok(RunEvents { events, ended })
    }

    /// Cancels a run and everything below it.
    pub async fn cancel_run(&self, actor: &Principal, id: &str) -> Result<(), OperationError> {
        let id = self.run_id(id).await?;
        let was_at_work = self.agents.runs.cancel(&id, &format!("cancelled by `{actor}`"));
        if was_at_work { Ok(()) } else { Err(AgentError::NotRunning(id).into()) }
    }

    /// Has a run go on: one that is suspended where it is, one that has ended in a new run of the same
    /// conversation.
    pub async fn resume_run(&self, caller: Caller, id: &str) -> Result<StartedRun, OperationError> {
        let shown = self.run(id).await?;
        match shown.run.phase {
            Phase::Suspended if self.agents.runs.resume_suspended(&shown.run.id) => {
                Ok(StartedRun { id: shown.run.id })
            }
            Phase::Ended if shown.run.parent.is_none() => {
                let start = StartRun {
                    profile: shown.run.profile,
                    prompt: GO_ON.to_owned(),
                    model: shown.run.model,
                    budget: Budget::default(),
                    thread: Some(shown.run.thread),
                    agent: None,
                };
                self.start_run(caller, start).await
            }
            Phase::Ended
            | Phase::Suspended
            | Phase::Queued
            | Phase::Thinking
            | Phase::Acting
            | Phase::Asking
            | Phase::Waiting => Err(AgentError::NotResumable(shown.run.id).into()),
        }
    }

    /// All conversations, newest first.
    pub async fn threads(&self) -> Result<Vec<ThreadSummary>, OperationError> {
        Ok(self.agents.runs.threads().await?)
    }

    /// The runs of a conversation, oldest first.
    pub async fn thread(&self, id: &str) -> Result<Vec<RunDetails>, OperationError> {
        let thread = self.thread_of(id).await?;
        let mut runs = Vec::new();
        for run in self.agents.runs.list().await?.into_iter().rev() {
            if run.thread == thread && run.parent.is_none() {
                runs.extend(self.agents.runs.show(&run.id).await?);
            }
        }
        Ok(runs)
    }

    pub(super) async fn thread_of(&self, id: &str) -> Result<String, OperationError> {
        let threads = self.agents.runs.threads().await?;
        let ids = threads.into_iter().map(|thread| thread.id);
        only(ids, id).ok_or_else(|| AgentError::UnknownThread(id.to_owned()).into())
    }

    /// The id of a run, also by its end as far as only one run has it.
    async fn run_id(&self, id: &str) -> Result<String, OperationError> {
        if self.agents.runs.is_at_work(id) {
            return Ok(id.to_owned());
        }
        let runs = self.agents.runs.list().await?;
        let ids = runs.into_iter().map(|run| run.id);
        only(ids, id).ok_or_else(|| AgentError::UnknownRun(id.to_owned()).into())
    }
}

/// The one id that is this text, or the only one that ends with it.
pub(super) fn only(ids: impl Iterator<Item = String>, wanted: &str) -> Option<String> {
    let mut ending: Vec<String> = ids.filter(|id| id.ends_with(wanted)).collect();
    if let Some(at) = ending.iter().position(|id| id == wanted) {
        return Some(ending.swap_remove(at));
    }
    match ending.as_slice() {
        [_] => ending.pop(),
        _ => None,
    }
}
