//! Tasks as people look at them.

use drawgate_core::model::Principal;
use drawgate_core::store::StoreError;
use serde::{Deserialize, Serialize};

use super::Tasks;
use super::record::{Question, TaskRecord};
use crate::plugin::TaskView;

/// A task with all that is known about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskDetails {
    /// The task.
    #[serde(flatten)]
    pub task: TaskView,
    /// The run that delegated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run: Option<String>,
    /// The plugin by which it was delegated.
    pub plugin: String,
    /// Whose rights it has.
    pub principal: Principal,
    /// The runs that worked on it, one for each iteration.
    pub runs: Vec<String>,
    /// What plugins were told and asked, and what they answered.
    pub questions: Vec<Question>,
    /// When it was delegated, in milliseconds since the epoch.
    pub created_at: u64,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
}

impl From<TaskRecord> for TaskDetails {
    fn from(record: TaskRecord) -> Self {
        Self {
            task: record.view(),
            parent_run: record.parent.map(|parent| parent.run),
            plugin: record.plugin,
            principal: record.principal,
            runs: record.runs,
            questions: record.questions,
            created_at: record.created_at,
            ended_at: record.ended_at,
        }
    }
}

impl Tasks {
    /// All tasks, newest first.
    pub async fn list(&self) -> Result<Vec<TaskDetails>, StoreError> {
        let mut tasks = self.0.stored("").await?;
        tasks.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        Ok(tasks.into_iter().map(TaskDetails::from).collect())
    }

    /// The record of a task; nothing if there is none of this id.
    pub async fn get(&self, id: &str) -> Result<Option<TaskRecord>, StoreError> {
        if let Some(task) = self.0.open.lock().get(id) {
            return Ok(Some(task.read()));
        }
        Ok(self.0.stored(id).await?.into_iter().find(|task| task.id == id))
    }
}
