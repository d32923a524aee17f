//! Delegation, as a plugin that comes with the gateway: work is given to a run of its own, which reports back.
//! It is thin over [tasks](crate::tasks).

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use drawgate_core::model::{IdError, SourceId, ToolOutput};
use drawgate_core::source::{CallContext, SourceError};
use serde_json::{Map, Value, json};

use crate::plugin::{
    CallMeta, Hook, HookAnswer, HookEvent, NewTask, Plugin, PluginContext, PluginError, PluginTool,
    TaskView,
};

const DELEGATE: &str = "delegate";
const CHECKIN: &str = "checkin";
const RESULT: &str = "result";

/// The plugin.
pub struct Delegation {
    name: SourceId,
    context: Arc<dyn PluginContext>,
}

impl Delegation {
    /// Its name.
    pub const NAME: &str = "delegation";

    /// The plugin, with what it may ask of the gateway.
    pub fn new(context: Arc<dyn PluginContext>) -> Result<Self, IdError> {
        Ok(Self { name: SourceId::new(Self::NAME)?, context })
    }

    async fn delegate(&self, input: &Map<String, Value>, meta: &CallMeta) -> Outcome {
        let iterations = input.get("maxIterations").and_then(Value::as_u64);
        let task = NewTask {
            parent_thread_id: meta.thread_id.clone(),
            prompt: text(input, "prompt"),
            model: input.get("model").and_then(Value::as_str).map(str::to_owned),
            max_iterations: iterations.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        };
        let task = self.context.delegate(task).await?;
        Ok(format!(
            "Task `{}` was delegated. You will be told when it is over; `{RESULT}` shows how it is.",
            task.id
        ))
    }

    async fn check_in(&self, input: &Map<String, Value>, meta: &CallMeta) -> Outcome {
        self.context.check_in(&meta.thread_id, text(input, "message")).await?;
        Ok("The check-in was sent.".to_owned())
    }

    async fn result(&self, input: &Map<String, Value>, meta: &CallMeta) -> Outcome {
        let id = text(input, "taskId");
        let unknown = || PluginError(format!("this conversation has not delegated a task `{id}`"));
        let task = self.context.task(&id).await.map_err(|_| unknown())?;
        if task.parent_thread_id != meta.thread_id {
            return Err(unknown());
        }
        Ok(shown(&task))
    }
}

type Outcome = Result<String, PluginError>;

fn text(input: &Map<String, Value>, key: &str) -> String {
    input.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// How a task is, for whoever delegated it.
fn shown(task: &TaskView) -> String {
    let mut shown = json!({
        "taskId": task.id,
        "state": task.state,
        "iteration": task.iteration,
        "maxIterations": task.max_iterations,
    });
    let texts = [("result", &task.result), ("feedback", &task.feedback)];
    if let Value::Object(members) = &mut shown {
        for (key, value) in texts {
            members.extend(value.as_ref().map(|value| (key.to_owned(), json!(value))));
        }
        if !task.messages.is_empty() {
            members.insert("messages".to_owned(), json!(task.messages));
        }
    }
    shown.to_string()
}

#[async_trait]
impl Plugin for Delegation {
    fn name(&self) -> &SourceId {
        &self.name
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    fn tools(&self) -> Vec<PluginTool> {
        vec![
            tool(
                DELEGATE,
                "Gives a task to another agent, which works on it in a conversation of its own while you go \
                on. Returns at once; the result comes as a message.",
                &json!({
                    "prompt": { "type": "string", "minLength": 1, "description": "the task, with all that the agent needs to know" },
                    "model": { "type": "string", "description": "another model than yours" },
                    "maxIterations": { "type": "integer", "minimum": 1, "maximum": 20, "description": "how often it may be tried, if reviewers reject the result; 5 without it" },
                }),
                &["prompt"],
            ),
            tool(
                CHECKIN,
                "Tells the conversation that delegated your task how you get on, without ending your work.",
                &json!({ "message": { "type": "string", "minLength": 1 } }),
                &["message"],
            ),
            tool(
                RESULT,
                "Shows how a task is that you delegated, and its result if there is one.",
                &json!({ "taskId": { "type": "string", "minLength": 1 } }),
                &["taskId"],
            ),
        ]
    }

    fn repeatable(&self) -> &'static [&'static str] {
        // The task of a call is found again by the call.
        &[DELEGATE, RESULT]
    }

    fn hooks(&self) -> BTreeSet<Hook> {
        BTreeSet::new()
    }

    async fn call(
        &self,
        tool: &str,
        input: Map<String, Value>,
        meta: &CallMeta,
        _cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let done = match tool {
            DELEGATE => self.delegate(&input, meta).await,
            CHECKIN => self.check_in(&input, meta).await,
            RESULT => self.result(&input, meta).await,
            other => return Err(SourceError::Protocol(format!("there is no tool `{other}`"))),
        };
        let failed = |error: PluginError| SourceError::Failed { message: error.0, details: None };
        done.map(ToolOutput::text).map_err(failed)
    }

    async fn hook(&self, _event: &HookEvent) -> Result<HookAnswer, PluginError> {
        Ok(HookAnswer::Nothing)
    }
}

fn tool(name: &str, description: &str, properties: &Value, required: &[&str]) -> PluginTool {
    PluginTool {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
    }
}
