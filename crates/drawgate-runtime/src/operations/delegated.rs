//! Delegated work, and messages to agents at work.

use drawgate_agents::profile::Budget;
use drawgate_agents::tasks::{TaskDetails, TaskError};
use drawgate_core::model::Caller;
use serde::{Deserialize, Serialize};

use super::runs::only;
use super::{AgentError, OperationError, Operations, StartRun, StartedRun};

/// Something to say in a conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Say {
    /// What.
    pub message: String,
}

impl Operations {
    /// All delegated tasks, newest first.
    pub async fn delegated_tasks(&self) -> Result<Vec<TaskDetails>, OperationError> {
        Ok(self.agents.plugins.tasks().list().await?)
    }

    /// A delegated task, also by the end of its id as far as only one task has it.
    pub async fn delegated_task(&self, id: &str) -> Result<TaskDetails, OperationError> {
        let mut tasks = self.delegated_tasks().await?;
        let found = only(tasks.iter().map(|task| task.task.id.clone()), id);
        let at = found.and_then(|id| tasks.iter().position(|task| task.task.id == id));
        let at = at.ok_or_else(|| AgentError::UnknownTask(id.to_owned()))?;
        Ok(tasks.swap_remove(at))
    }

    /// Says something in a conversation: to the run that is at work in it, or else to a new run that goes
    /// on with it.
    pub async fn say(
        &self,
        caller: Caller,
        thread: &str,
        say: Say,
    ) -> Result<StartedRun, OperationError> {
        let thread = match self.agents.runs.at_work_in(thread) {
            Some(_) => thread.to_owned(),
            None => self.thread_of(thread).await?,
        };
        if let Some(run) = self.agents.runs.at_work_in(&thread) {
            let said = self.agents.plugins.tasks().say(&thread, None, say.message.clone()).await;
            match said {
                Ok(()) => return Ok(StartedRun { id: run }),
                // It has just ended; the next one goes on.
                Err(TaskError::NobodyThere(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let last = self.thread(&thread).await?.pop();
        let Some(last) = last else { return Err(AgentError::UnknownThread(thread).into()) };
        let start = StartRun {
            profile: last.run.profile,
            prompt: say.message,
            model: last.run.model,
            budget: Budget::default(),
            thread: Some(last.run.thread),
            agent: None,
        };
        self.start_run(caller, start).await
    }
}
