//! What is kept of a task.

use drawgate_core::model::{CapabilityGrant, Principal};
use serde::{Deserialize, Serialize};

use crate::plugin::{Hook, TaskView};
use crate::profile::Profile;

/// Delegated work as it is kept. Its id is also that of its own conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRecord {
    /// Its id.
    pub id: String,
    /// The conversation from which it was delegated.
    pub parent_thread: String,
    /// The run that delegated it; nothing for a caller that is no run.
    pub parent: Option<TaskParent>,
    /// The plugin by which it was delegated.
    pub plugin: String,
    /// Whose rights it has.
    pub principal: Principal,
    /// Grants that came with the request of a caller that is no run.
    pub carried: Vec<CapabilityGrant>,
    /// What its runs are.
    pub profile: Profile,
    /// The model that was asked for.
    pub model: Option<String>,
    /// What is to be done.
    pub prompt: String,
    /// How far it is.
    pub state: TaskState,
    /// Which try this is, from 1.
    pub iteration: u32,
    /// How often it may be tried.
    pub max_iterations: u32,
    /// The runs that worked on it, one for each iteration.
    pub runs: Vec<String>,
    /// What came of the last try.
    pub result: Option<String>,
    /// What the reviewers said last, or why it failed.
    pub feedback: Option<String>,
    /// What plugins are told and asked about it.
    pub questions: Vec<Question>,
    /// Messages for a caller that is no run.
    pub messages: Vec<String>,
    /// When it was delegated, in milliseconds since the epoch.
    pub created_at: u64,
    /// When it was over.
    pub ended_at: Option<u64>,
    /// Nothing is left to do, not even to tell.
    pub settled: bool,
}

/// Where a task was delegated from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskParent {
    /// The run.
    pub run: String,
    /// The step of its call, where calls are steps.
    pub step: Option<u32>,
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// A run works on it.
    Working,
    /// Plugins review the result.
    Reviewing,
    /// It is done, and no reviewer rejected the result.
    Complete,
    /// It is done, but a reviewer could not say whether well.
    Unreviewed,
    /// The result of the last try was rejected, too.
    Rejected,
    /// Its run did not come to a result.
    Failed,
}

impl TaskState {
    /// Its name in lists and in the audit log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Reviewing => "reviewing",
            Self::Complete => "complete",
            Self::Unreviewed => "unreviewed",
            Self::Rejected => "rejected",
            Self::Failed => "failed",
        }
    }

    /// Whether it is over.
    #[must_use]
    pub const fn is_over(self) -> bool {
        match self {
            Self::Working | Self::Reviewing => false,
            Self::Complete | Self::Unreviewed | Self::Rejected | Self::Failed => true,
        }
    }
}

/// Something that a plugin is told or asked about a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// At which point.
    pub hook: Hook,
    /// About which try.
    pub iteration: u32,
    /// Which plugin.
    pub plugin: String,
    /// What it answered; nothing as long as it has not.
    pub answer: Option<Said>,
}

/// What a plugin answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// Nothing in particular.
    Nothing,
    /// The result is good enough.
    Accepted,
    /// It is not.
    Rejected {
        /// What is to be done better.
        feedback: String,
    },
    /// It failed, took too long, or is gone.
    Failed {
        /// Why.
        reason: String,
    },
}

impl TaskRecord {
    /// The run of this iteration.
    #[must_use]
    pub fn run(&self) -> &str {
        self.runs.last().map(String::as_str).unwrap_or_default()
    }

    /// What the reviewers said about the result of this iteration.
    pub(crate) fn reviews(&self) -> impl Iterator<Item = (&str, &Said)> {
        let of_now = |question: &&Question| {
            question.hook == Hook::OnTaskComplete && question.iteration == self.iteration
        };
        self.questions
            .iter()
            .filter(of_now)
            .filter_map(|question| Some((question.plugin.as_str(), question.answer.as_ref()?)))
    }

    /// Asks these plugins at a point from now on.
    pub(crate) fn ask(&mut self, hook: Hook, plugins: Vec<String>) {
        let iteration = self.iteration;
        let question = |plugin| Question { hook, iteration, plugin, answer: None };
        self.questions.extend(plugins.into_iter().map(question));
    }

    /// Those who were not heard yet at a point.
    pub(crate) fn unheard(&self, hook: Hook) -> Vec<String> {
        let is_open = |question: &&Question| question.hook == hook && question.answer.is_none();
        self.questions.iter().filter(is_open).map(|question| question.plugin.clone()).collect()
    }

    /// Notes what a plugin answered.
    pub(crate) fn note(&mut self, hook: Hook, plugin: &str, said: Said) {
        let is_it = |question: &&mut Question| {
            question.hook == hook && question.plugin == plugin && question.answer.is_none()
        };
        if let Some(question) = self.questions.iter_mut().find(is_it) {
            question.answer = Some(said);
        }
    }

    /// The task as plugins and people see it.
    #[must_use]
    pub fn view(&self) -> TaskView {
        TaskView {
            id: self.id.clone(),
            thread_id: self.id.clone(),
            parent_thread_id: self.parent_thread.clone(),
            prompt: self.prompt.clone(),
            state: self.state.as_str().to_owned(),
            iteration: self.iteration,
            max_iterations: self.max_iterations,
            result: self.result.clone(),
            feedback: self.feedback.clone(),
            messages: self.messages.clone(),
        }
    }
}
