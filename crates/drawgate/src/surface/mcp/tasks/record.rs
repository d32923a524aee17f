//! One task, as it is kept: sealed, since it holds a call's arguments and its result.

use std::sync::Arc;

use drawgate_core::model::{Caller, CapabilityGrant, Principal, Surface, ToolInvocation};
use drawgate_host::seal::SealingKey;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::time::iso;

/// How long a task is kept after it was made.
pub(super) const LIFETIME_MS: u64 = 24 * 60 * 60 * 1000;
/// How often a client should look.
const POLL_MS: u64 = 2000;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    pub(super) const fn is_over(self) -> bool {
        match self {
            Self::Working | Self::InputRequired => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }
}

/// A task.
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
pub(super) enum Outcome {
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
        }
    }

    /// The task as the protocol shows it, without what belongs to its status.
    pub(super) fn summary(&self) -> Map<String, Value> {
        let task = json!({
            "taskId": self.id,
            "status": self.status,
            "createdAt": iso(self.created_at),
            "lastUpdatedAt": iso(self.updated_at),
            "ttlMs": LIFETIME_MS,
            "pollIntervalMs": POLL_MS,
        });
        match task {
            Value::Object(task) => task,
            _ => Map::new(),
        }
    }

    /// The same with its result, its error or its questions.
    pub(super) fn details(&self) -> Map<String, Value> {
        let mut task = self.summary();
        match (self.status, &self.outcome) {
            (Status::InputRequired, _) => {
                task.insert("inputRequests".to_owned(), Value::Object(self.questions.clone()));
            }
            (Status::Completed, Some(Outcome::Result(result))) => {
                task.insert("result".to_owned(), result.clone());
            }
            (Status::Failed, Some(Outcome::Error(error))) => {
                task.insert("error".to_owned(), error.clone());
            }
            _ => {}
        }
        task
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
    pub(super) fn open(id: &str, kept: &Value, key: &SealingKey) -> Option<Self> {
        let bytes = key.open(context(id).as_bytes(), kept.get("sealed")?.as_str()?)?;
        serde_json::from_slice(&bytes).ok()
    }
}

fn context(id: &str) -> String {
    format!("task {id}")
}
