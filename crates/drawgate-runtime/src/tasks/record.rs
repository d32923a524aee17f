//! One task, as it is kept: sealed, since it holds a call's arguments and its result.

use std::sync::Arc;

use drawgate_core::model::{Caller, CapabilityGrant, Principal, Surface, ToolInvocation};
use drawgate_host::seal::SealingKey;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// How long a task is kept after it was made.
pub const LIFETIME_MS: u64 = 24 * 60 * 60 * 1000;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The call is under way.
    Working,
    /// The client is asked something.
    InputRequired,
    /// There is a result.
    Completed,
    /// There is an error.
    Failed,
    /// The client ended it.
    Cancelled,
}

impl Status {
    /// Whether nothing will change any more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        match self {
            Self::Working | Self::InputRequired => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }
}

/// A task, as its owner sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub status: Status,
    /// When it was made, in milliseconds since the epoch.
    pub created_at: u64,
    /// When it last changed.
    pub updated_at: u64,
    /// How it ended, if it has.
    pub outcome: Option<Outcome>,
    /// What its owner is asked, by keys that are unique in its life.
    pub questions: Map<String, Value>,
}

/// A task, as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) principal: Principal,
    pub(super) surface: Surface,
    pub(super) status: Status,
    pub(super) created_at: u64,
    pub(super) updated_at: u64,
    /// What the caller's own token gave it.
    pub(super) carried: Vec<CapabilityGrant>,
    /// What the client declared.
    pub(super) capabilities: Map<String, Value>,
    pub(super) call: ToolInvocation,
    /// By this its source takes it up again after a restart.
    pub(super) handle: Option<String>,
    pub(super) outcome: Option<Outcome>,
    /// What the client is asked now, by keys that are unique in the task's life.
    #[serde(skip)]
    pub(super) questions: Map<String, Value>,
    /// What it has answered of that.
    #[serde(skip)]
    pub(super) answers: Map<String, Value>,
    #[serde(skip)]
    pub(super) state: Option<String>,
    #[serde(skip)]
    pub(super) rounds: u32,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The result of the call, which may say that the tool failed.
    Result(Value),
    /// An error of the protocol.
    Error(Value),
}

impl Record {
    pub(super) fn caller(&self) -> Caller {
        Caller {
            principal: self.principal.clone(),
            session: None,
            surface: self.surface.clone(),
            carried: self.carried.iter().cloned().map(Arc::new).collect(),
            lineage: None,
        }
    }

    /// The task as its owner sees it.
    pub(super) fn task(&self) -> Task {
        Task {
            id: self.id.clone(),
            status: self.status,
            created_at: self.created_at,
            updated_at: self.updated_at,
            outcome: self.outcome.clone(),
            questions: self.questions.clone(),
        }
    }

    pub(super) fn expires_at(&self) -> u64 {
        self.created_at.saturating_add(LIFETIME_MS)
    }

    /// As it is kept.
    pub(super) fn seal(&self, key: &SealingKey) -> Option<Value> {
        let bytes = serde_json::to_vec(self).ok()?;
        let sealed = key.seal(context(&self.id).as_bytes(), bytes).ok()?;
        // In clear, so that all of a caller's can be found without the key.
        Some(json!({ "principal": self.principal, "sealed": sealed }))
    }

    /// From how it was kept.
    pub(super) fn open(id: &str, stored: &Value, key: &SealingKey) -> Option<Self> {
        let bytes = key.open(context(id).as_bytes(), stored.get("sealed")?.as_str()?)?;
        serde_json::from_slice(&bytes).ok()
    }
}

fn context(id: &str) -> String {
    format!("task {id}")
}
