//! The points at which others are told of runs, or may change what a run is asked. Without any set, a run
//! pays nothing for them.
//!
//! Runs that a plugin started, and those below them, pass none of these points: otherwise two plugins that
//! ask models when something is said could go on for ever.

use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::model::Lineage;
use drawgate_core::store::StoreError;

use super::live::Live;
use super::observe::usage_of;
use super::record::{Ending, RunRecord, Step, StepBody};
use super::store::Change;
use super::{Inner, Runs};
use crate::plugin::InvokeResult;

/// Who speaks in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The caller, another run, or the gateway.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Its name for plugins.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Is told of runs, and may change what they are asked.
#[async_trait]
pub trait RunHooks: Send + Sync + 'static {
    /// A message came into a conversation. Must not block.
    fn message(&self, run: &Lineage, role: Role, content: &str);

    /// Whether [`before_invoke`](Self::before_invoke) would ask anyone now.
    fn rewrites(&self) -> bool;

    /// What a run is to work on instead of a prompt. Keeps its own time.
    async fn before_invoke(&self, run: &Lineage, prompt: String) -> String;

    /// The work of a run is over. Must not block.
    fn after_invoke(&self, run: &Lineage, result: InvokeResult);
}

impl Runs {
    /// Has these hooks asked from now on. Later calls change nothing.
    pub fn set_hooks(&self, hooks: Arc<dyn RunHooks>) {
        // The first ones stay.
        let _ = self.0.hooks.set(hooks);
    }

    /// Stores the prompt of a run as its first step, if it is not stored yet: those who may change it are
    /// asked before.
    pub(super) async fn begin(&self, run: &Arc<Live>) -> Result<(), StoreError> {
        if !run.steps.lock().is_empty() {
            return Ok(());
        }
        let prompt = run.record.lock().prompt.clone();
        let prompt = self.0.before_invoke(run, prompt).await;
        let first = first_step(prompt, self.0.now());
        self.0.store.commit(&[Change::Step(&run.id, &first)]).await?;
        self.0.tell_first(run, &first);
        run.steps.lock().push(first);
        Ok(())
    }
}

impl Runs {
    /// Waits until a run has ended: what came of it, as plugins see it.
    pub(crate) async fn outcome(&self, id: &str) -> Option<InvokeResult> {
        if let Some(run) = self.0.find(id) {
            run.ended().await;
            let record = run.record.lock().clone();
            return invoke_result(&record, &run.steps.lock());
        }
        let record = self.stored(id).await.ok()??;
        invoke_result(&record, &self.0.store.steps(id).await.ok()?)
    }
}

/// The first step of a run.
pub(super) fn first_step(prompt: String, now: u64) -> Step {
    let body = StepBody::Message { from: None, text: prompt };
    Step { seq: 0, at: now, until: Some(now), body }
}

impl Inner {
    fn hooks_of(&self, run: &Live) -> Option<&Arc<dyn RunHooks>> {
        let hooks = self.hooks.get()?;
        let is_of_plugin = run.lineage.upwards().any(|above| above.plugin.is_some());
        (!is_of_plugin).then_some(hooks)
    }

    /// Whether someone may change what a run is asked.
    pub(super) fn is_rewritten(&self, run: &Live) -> bool {
        self.hooks_of(run).is_some_and(|hooks| hooks.rewrites())
    }

    /// What a run is asked, after those who may change it were.
    pub(crate) async fn before_invoke(&self, run: &Live, prompt: String) -> String {
        match self.hooks_of(run).filter(|hooks| hooks.rewrites()) {
            Some(hooks) => hooks.before_invoke(&run.lineage, prompt).await,
            None => prompt,
        }
    }

    pub(crate) fn tell_message(&self, run: &Live, role: Role, content: &str) {
        if let Some(hooks) = self.hooks_of(run).filter(|_| !content.is_empty()) {
            hooks.message(&run.lineage, role, content);
        }
    }

    pub(super) fn tell_first(&self, run: &Live, first: &Step) {
        if let StepBody::Message { text, .. } = &first.body {
            self.tell_message(run, Role::User, text);
        }
    }

    pub(super) fn tell_after(&self, run: &Live, record: &RunRecord) {
        if let Some(hooks) = self.hooks_of(run)
            && let Some(result) = invoke_result(record, &run.steps.lock())
        {
            hooks.after_invoke(&run.lineage, result);
        }
    }
}

/// What came of a run, as plugins see it. Nothing if it has not ended.
pub(crate) fn invoke_result(record: &RunRecord, steps: &[Step]) -> Option<InvokeResult> {
    let end = record.end.as_ref()?;
    let usage = usage_of(steps);
    let is_done = end.ending == Ending::Done;
    let error = || end.reason.clone().unwrap_or_else(|| end.ending.as_str().to_owned());
    let output = end.answer.as_ref().map_or_else(|| end.text.clone(), ToString::to_string);
    Some(InvokeResult {
        output,
        error: (!is_done).then(error),
        duration_ms: end.at.saturating_sub(record.created_at),
        exit_code: i32::from(!is_done),
        input_tokens: usage.read(),
        output_tokens: usage.output,
    })
}
