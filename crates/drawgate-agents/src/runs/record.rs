//! What is kept of a run: the record of the run itself, and its steps.

use drawgate_core::model::{CapabilityGrant, ErrorCode, Principal, TraceParent};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pool::Amount;
use crate::model::{ModelErrorKind, Reply, ToolCall};
use crate::profile::{Budget, Profile};

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its id.
    pub id: String,
    /// The conversation that it belongs to.
    pub thread: String,
    /// The run at the top of its tree; itself, if it has no parent.
    pub root: String,
    /// Where it was started from.
    pub parent: Option<Parent>,
    /// How many runs are above it.
    pub depth: u8,
    /// Whose rights it has.
    pub principal: Principal,
    /// Grants that came with the request that started the tree.
    pub carried: Vec<CapabilityGrant>,
    /// The profile, as it was when the run began.
    pub profile: Profile,
    /// The custom tool that it is the answer of.
    pub tool: Option<String>,
    /// The delegated task that it works on.
    #[serde(default)]
    pub task: Option<String>,
    /// The plugin that started it.
    #[serde(default)]
    pub plugin: Option<String>,
    /// What its answer must satisfy.
    pub answer: Option<Value>,
    /// The model, as it was asked for; the default one without.
    pub model: Option<String>,
    /// What it is to do.
    pub prompt: String,
    /// What it may use up.
    pub budget: Budget,
    /// The span of the call from outside that started its tree, if the caller has a trace.
    #[serde(default)]
    pub trace: Option<TraceParent>,
    /// When it was started, in milliseconds since the epoch.
    pub created_at: u64,
    /// Milliseconds in which it waited for a person.
    pub waited_ms: u64,
    /// How it ended.
    pub end: Option<End>,
}

/// Where a run was started from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The run.
    pub run: String,
    /// Its step: the call that started this run.
    pub step: u32,
    /// Who hears of the end.
    pub report: Report,
}

/// How a parent hears of the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// By the result of the call that started it.
    Result,
    /// By a message in its conversation.
    Message,
    /// Not at all: by that of the task that the run works on.
    Task,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Of what kind.
    pub ending: Ending,
    /// The last text of the model.
    pub text: String,
    /// The answer, where the run was to give one of a form.
    pub answer: Option<Value>,
    /// Why, unless it is done.
    pub reason: Option<String>,
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// What the run used itself, without its children.
    pub own: Amount,
}

/// The kinds of ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It did what it was asked.
    Done,
    /// The model could not be asked, or refused.
    Failed,
    /// Somebody cancelled it, or a run above it ended.
    Cancelled,
    /// A budget is used up.
    Budget,
    /// Its time is over.
    Deadline,
    /// The conversation does not fit into the model's context any more.
    Context,
    /// It made no progress.
    Stuck,
    /// The answer does not have the form that was asked for.
    Invalid,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::Failed,
        Self::Cancelled,
        Self::Budget,
        Self::Deadline,
        Self::Context,
        Self::Stuck,
        Self::Invalid,
    ];

    /// Its name in lists and in the audit log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Budget => "budget",
            Self::Deadline => "deadline",
            Self::Context => "context",
            Self::Stuck => "stuck",
            Self::Invalid => "invalid",
        }
    }
}

/// One step of a run. It is written before its effect, and again with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its place in the run, from 0.
    pub seq: u32,
    /// When it began, in milliseconds since the epoch.
    pub at: u64,
    /// When it ended; nothing while it is open.
    pub until: Option<u64>,
    /// What it is.
    pub body: StepBody,
}

/// What a step is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepBody {
    /// A message in the conversation.
    Message {
        /// The run that it is from; the caller's own words without one.
        from: Option<String>,
        /// The message.
        text: String,
    },
    /// A request to a model.
    Model {
        /// What the request is for.
        purpose: Purpose,
        /// The model's full name.
        model: String,
        /// What was reserved for it.
        reserved: Amount,
        /// What came of it.
        outcome: Option<ModelOutcome>,
    },
    /// A call of a tool.
    Call {
        /// What the model asked for.
        call: ToolCall,
        /// What came of it.
        outcome: Option<CallOutcome>,
    },
    /// A program does the work: from its start to its answer.
    Turn {
        /// The program's own name for the conversation, once it is known.
        session: Option<String>,
        /// What came of it.
        outcome: Option<TurnOutcome>,
    },
    /// From here on, results of calls before a step are left out of the conversation.
    Trimmed {
        /// The step.
        before: u32,
    },
    /// From here on, a summary takes the place of everything before a step.
    Summary {
        /// The step.
        before: u32,
        /// The summary.
        text: String,
    },
}

/// What a request to a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The agent's work.
    Work,
    /// A summary of the conversation, to make room.
    Summary,
    /// The work of a program, which made the request itself.
    Relayed,
}

/// What came of the work of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOutcome {
    /// An answer.
    Answered {
        /// The answer.
        text: String,
    },
    /// None.
    Failed {
        /// Why.
        message: String,
    },
    /// The gateway was stopped meanwhile.
    Interrupted,
}

/// What came of a request to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelOutcome {
    /// A reply.
    Reply {
        /// The reply.
        reply: Reply,
        /// What it cost.
        spent: Amount,
    },
    /// None.
    Failed {
        /// Of what kind; nothing where the gateway was stopped meanwhile.
        kind: Option<ModelErrorKind>,
        /// Why.
        message: String,
        /// What it may have cost.
        spent: Amount,
    },
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallOutcome {
    /// The result as the model reads it.
    pub text: String,
    /// The code, if it failed or was refused.
    pub error: Option<ErrorCode>,
}

impl CallOutcome {
    /// A result.
    #[must_use]
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: None }
    }

    /// A failure.
    #[must_use]
    pub fn failed(code: ErrorCode, message: &str) -> Self {
        Self { text: format!("{code}: {message}"), error: Some(code) }
    }
}

impl Step {
    /// What the step used; of an open request that is not known yet.
    #[must_use]
    pub fn used(&self) -> Amount {
        match &self.body {
            StepBody::Model {
                outcome:
                    Some(ModelOutcome::Reply { spent, .. } | ModelOutcome::Failed { spent, .. }),
                ..
            } => *spent,
            StepBody::Call { .. } => Amount::calls(1),
            StepBody::Model { outcome: None, .. }
            | StepBody::Message { .. }
            | StepBody::Turn { .. }
            | StepBody::Trimmed { .. }
            | StepBody::Summary { .. } => Amount::default(),
        }
    }

    /// What is reserved for the step, if it is an open request.
    #[must_use]
    pub fn reserved(&self) -> Amount {
        match &self.body {
            StepBody::Model { reserved, outcome: None, .. } => *reserved,
            StepBody::Model { outcome: Some(_), .. }
            | StepBody::Message { .. }
            | StepBody::Call { .. }
            | StepBody::Turn { .. }
            | StepBody::Trimmed { .. }
            | StepBody::Summary { .. } => Amount::default(),
        }
    }

    /// Whether its outcome is missing.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        match &self.body {
            StepBody::Model { outcome, .. } => outcome.is_none(),
            StepBody::Call { outcome, .. } => outcome.is_none(),
            StepBody::Turn { outcome, .. } => outcome.is_none(),
            StepBody::Message { .. } | StepBody::Trimmed { .. } | StepBody::Summary { .. } => false,
        }
    }
}

/// What steps used together.
#[must_use]
pub fn used(steps: &[Step]) -> Amount {
    steps.iter().fold(Amount::RUN, |sum, step| sum.plus(step.used()))
}

/// What is reserved for steps together.
#[must_use]
pub fn reserved(steps: &[Step]) -> Amount {
    steps.iter().fold(Amount::default(), |sum, step| sum.plus(step.reserved()))
}

/// A message on its way to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxMessage {
    /// Its id: the run that it is for, and a number.
    pub id: String,
    /// The run that it is from; the caller's own words without one.
    pub from: Option<String>,
    /// The message.
    pub text: String,
}
