//! The life of a task: work, review, work again with what the reviewers say, and an end that is told once.
//! What comes next is read off the record, so that a task that is taken up again needs no other way in.

use std::sync::Arc;
use std::time::Duration;

use drawgate_core::store::Write;
use futures_util::future::join;

use super::record::{Said, TaskRecord, TaskState};
use super::verdict::{Verdict, clipped, describe, next_prompt, verdict};
use super::{Inner, OpenTask, Tasks};
use crate::plugin::{Hook, HookAnswer, HookEvent};
use crate::runs::ended::describe_end;
use crate::runs::store::Change;
use crate::runs::{End, Ending, StartError};

/// How long a write that must not be lost waits before it is tried again.
const STORE_PAUSE: Duration = Duration::from_secs(1);
/// Bytes that are kept of why a plugin failed.
const MAX_REASON: usize = 1024;

/// Whether there is more to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    Nowhere,
}

impl Tasks {
    /// Lets a task go its way. When the gateway stops, it is left where it is.
    pub(super) fn drive(&self, task: Arc<OpenTask>) {
        let inner = Arc::clone(&self.0);
        self.0.runs.drive_beside(async move { while inner.advance(&task).await == Goes::On {} });
    }
}

impl Inner {
    async fn advance(&self, task: &Arc<OpenTask>) -> Goes {
        let state = task.record.lock().state;
        match state {
            TaskState::Working => self.work(task).await,
            TaskState::Reviewing => self.review(task).await,
            TaskState::Complete
            | TaskState::Unreviewed
            | TaskState::Rejected
            | TaskState::Failed => self.settle(task).await,
        }
    }

    /// Waits for the end of the run, and tells plugins of the task meanwhile.
    async fn work(&self, task: &Arc<OpenTask>) -> Goes {
        let run = task.record.lock().run().to_owned();
        let told = self.ask_all(task, Hook::OnTaskCreate);
        let ((), end) = join(told, self.runs.ended(&run)).await;
        match end {
            Some(End { ending: Ending::Done, text, answer, .. }) => {
                let result = answer.map_or(text, |answer| answer.to_string());
                let reviewers = self.hooks.wanting(Hook::OnTaskComplete);
                self.change(task, |next| {
                    next.state = TaskState::Reviewing;
                    next.result = Some(result);
                    next.ask(Hook::OnTaskComplete, reviewers);
                })
                .await;
                Goes::On
            }
            Some(end) => {
                let result = Some(end.text.clone()).filter(|text| !text.is_empty());
                let reason = describe_end(&End { text: String::new(), ..end });
                self.finish(task, TaskState::Failed, |next| {
                    next.result = result;
                    next.feedback = Some(reason);
                })
                .await
            }
            None => {
                let reason = "what is stored of its run can't be read".to_owned();
                self.finish(task, TaskState::Failed, |next| next.feedback = Some(reason)).await
            }
        }
    }

    async fn review(&self, task: &Arc<OpenTask>) -> Goes {
        self.ask_all(task, Hook::OnTaskComplete).await;
        let record = task.read();
        match verdict(&record) {
            Verdict::Accepted => {
                self.finish(task, TaskState::Complete, |next| next.feedback = None).await
            }
            Verdict::Unreviewed(reason) => {
                let note = |next: &mut TaskRecord| next.feedback = Some(reason);
                self.finish(task, TaskState::Unreviewed, note).await
            }
            Verdict::Rejected(feedback) if record.iteration >= record.max_iterations => {
                let note = |next: &mut TaskRecord| next.feedback = Some(feedback);
                self.finish(task, TaskState::Rejected, note).await
            }
            Verdict::Rejected(feedback) => self.try_again(task, &feedback).await,
        }
    }

    /// Starts the next iteration: its run and the record are stored in one step.
    async fn try_again(&self, task: &Arc<OpenTask>, feedback: &str) -> Goes {
        loop {
            let turn = task.changing.lock().await;
            let mut next = task.read();
            next.iteration = next.iteration.saturating_add(1);
            next.state = TaskState::Working;
            next.feedback = Some(feedback.to_owned());
            let started = match self.run_of(&next, next_prompt(feedback)) {
                Ok(new) => {
                    let with = |run: &crate::runs::record::RunRecord| {
                        next.runs.push(run.id.clone());
                        Ok(vec![self.put(&next)?])
                    };
                    self.runs.start_with(new, with).await
                }
                Err(error) => Err(error),
            };
            match started {
                Ok(_) => {
                    *task.record.lock() = next;
                    return Goes::On;
                }
                Err(StartError::Stopping) => return Goes::Nowhere,
                Err(StartError::Store(error)) => {
                    tracing::error!(%error, task = next.id, "a task can't be stored yet");
                    drop(turn);
                    tokio::time::sleep(STORE_PAUSE).await;
                }
                Err(error) => {
                    drop(turn);
                    let reason = format!(
                        "the result was rejected, and no run can be started to do better: {error}\n\n{feedback}"
                    );
                    let note = |next: &mut TaskRecord| next.feedback = Some(reason);
                    return self.finish(task, TaskState::Failed, note).await;
                }
            }
        }
    }

    /// Ends a task: the record, the message to the run that delegated it and the event are stored in one
    /// step.
    async fn finish(
        &self,
        task: &OpenTask,
        state: TaskState,
        change: impl FnOnce(&mut TaskRecord),
    ) -> Goes {
        let turn = task.changing.lock().await;
        let mut next = task.read();
        next.state = state;
        next.ended_at = Some(self.runs.0.now());
        change(&mut next);
        if matches!(state, TaskState::Failed | TaskState::Rejected) {
            next.ask(Hook::OnTaskFailed, self.hooks.wanting(Hook::OnTaskFailed));
        }
        let message = next.parent.as_ref().and_then(|parent| {
            self.runs.0.find(&parent.run).filter(|run| run.end().is_none())?;
            let from = format!("task {}", next.id);
            Some(self.runs.0.message(&parent.run, Some(&from), describe(&next)))
        });
        let owed = self.owe_end(&next);
        let mut changes = vec![Change::Owe(&owed)];
        changes.extend(message.as_ref().map(Change::Message));
        self.store(&next, changes).await;
        let (id, parent) = (next.id.clone(), next.parent.clone());
        *task.record.lock() = next;
        drop(turn);
        if let Some(parent) = parent {
            if let Some(message) = message {
                self.runs.0.hand_over(&parent.run, message);
            }
            self.runs.0.task_is_over(&parent.run, &id);
        }
        self.runs.0.acts.report(owed).await;
        Goes::On
    }

    /// Tells those who want to know of a failure, and lets the task rest.
    async fn settle(&self, task: &Arc<OpenTask>) -> Goes {
        // A restart may have come before everyone was told of the beginning.
        self.ask_all(task, Hook::OnTaskCreate).await;
        self.ask_all(task, Hook::OnTaskFailed).await;
        self.change(task, |next| next.settled = true).await;
        let id = task.record.lock().id.clone();
        self.open.lock().remove(&id);
        Goes::Nowhere
    }

    /// Asks those who were not heard yet, one after the other, and stores each answer as it comes.
    async fn ask_all(&self, task: &OpenTask, hook: Hook) {
        let settings = self.settings.load_full();
        let unheard = task.record.lock().unheard(hook);
        for plugin in unheard {
            let Some(event) = event(&task.record.lock(), hook) else { return };
            let time = if hook == Hook::OnTaskComplete { settings.review } else { settings.notice };
            let answer = self.hooks.ask(&plugin, event, settings.absent, time).await;
            let said = match answer {
                Ok(HookAnswer::Verdict { accepted: true, .. }) => Said::Accepted,
                Ok(HookAnswer::Verdict { accepted: false, feedback }) => Said::Rejected {
                    feedback: feedback.unwrap_or_else(|| "no reason was given".to_owned()),
                },
                Ok(HookAnswer::Nothing | HookAnswer::Prompt(_)) => Said::Nothing,
                Err(error) => Said::Failed { reason: clipped(&error.to_string(), MAX_REASON) },
            };
            self.change(task, |next| next.note(hook, &plugin, said)).await;
        }
    }

    pub(super) async fn change(&self, task: &OpenTask, change: impl FnOnce(&mut TaskRecord)) {
        let _turn = task.changing.lock().await;
        let mut next = task.read();
        change(&mut next);
        self.store(&next, Vec::new()).await;
        *task.record.lock() = next;
    }

    /// Stores a record with other changes, and tries again until that is done.
    async fn store(&self, task: &TaskRecord, mut with: Vec<Change<'_>>) {
        let write: Write = loop {
            match self.put(task) {
                Ok(write) => break write,
                Err(error) => self.wait(task, &error).await,
            }
        };
        with.push(Change::Beside(&write));
        while let Err(error) = self.runs.0.store.commit(&with).await {
            self.wait(task, &error).await;
        }
    }

    async fn wait(&self, task: &TaskRecord, error: &drawgate_core::store::StoreError) {
        tracing::error!(%error, task = task.id, "a task can't be stored yet");
        tokio::time::sleep(STORE_PAUSE).await;
    }
}

/// What plugins are told or asked about a task.
fn event(task: &TaskRecord, hook: Hook) -> Option<HookEvent> {
    let (thread_id, task_id) = (task.id.clone(), task.id.clone());
    match hook {
        Hook::OnTaskCreate => Some(HookEvent::OnTaskCreate { thread_id, task_id }),
        Hook::OnTaskComplete => {
            let result = task.result.clone().unwrap_or_default();
            Some(HookEvent::OnTaskComplete { thread_id, task_id, result })
        }
        Hook::OnTaskFailed => {
            let error = task.feedback.clone().unwrap_or_default();
            Some(HookEvent::OnTaskFailed { thread_id, task_id, error })
        }
        Hook::OnMessage
        | Hook::OnBeforeInvoke
        | Hook::OnAfterInvoke
        | Hook::OnBroadcast
        | Hook::RewriteCall
        | Hook::BeforeCall
        | Hook::AfterCall => None,
    }
}
