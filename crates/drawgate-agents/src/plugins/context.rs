//! What a plugin may ask of the gateway. Everything is bounded, and everything is in the plugin's own name, or
//! in that of a caller who has called one of its tools.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use drawgate_core::model::{Caller, IdError, Principal, SourceId, Surface};
use serde_json::Value;

use super::known::Known;
use super::set::PluginSet;
use super::storage;
use crate::plugin::{
    HookEvent, InvokeOptions, InvokeResult, NewTask, PluginContext, PluginError, TaskView,
};
use crate::profile::{Budget, Invoker, Profile, ToolChoice};
use crate::runs::session::READ;
use crate::runs::{NewRun, Origin, Runs};
use crate::source::CancelOnDrop;
use crate::tasks::{Delegation, Tasks};

/// What the names of principals of plugins begin with; the plugin's name follows.
pub(super) const PRINCIPAL: &str = "plugin.";
/// Bytes of a prompt, and of an announcement.
const MAX_PROMPT: usize = 1024 * 1024;
const MAX_BROADCAST: usize = 64 * 1024;

/// What an operator says about a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginTerms {
    /// Its settings, which it reads itself.
    pub settings: Value,
    /// What each of the runs that it starts by `invoke` may use up.
    pub budget: Budget,
}

impl Default for PluginTerms {
    fn default() -> Self {
        Self {
            settings: Value::Object(serde_json::Map::new()),
            budget: Budget {
                tokens: Some(200_000),
                cost_usd: None,
                seconds: Some(600),
                tool_calls: Some(100),
                runs: Some(20),
            },
        }
    }
}

/// The context of one plugin.
pub(super) struct Context {
    pub(super) name: SourceId,
    /// In whose name its runs work. It holds nothing but what an operator grants it.
    principal: Principal,
    terms: PluginTerms,
    known: Arc<Known>,
    set: Arc<PluginSet>,
    runs: Runs,
    tasks: Tasks,
}

impl Context {
    pub(super) fn new(
        name: SourceId,
        terms: PluginTerms,
        set: &Arc<PluginSet>,
        runs: &Runs,
        tasks: &Tasks,
    ) -> Result<Self, IdError> {
        Ok(Self {
            principal: principal_of(&name)?,
            known: set.known(&name),
            set: Arc::clone(set),
            runs: runs.clone(),
            tasks: tasks.clone(),
            terms,
            name,
        })
    }

    async fn run(&self, prompt: String, options: InvokeOptions) -> Result<InvokeResult, String> {
        if prompt.is_empty() || prompt.len() > MAX_PROMPT {
            return Err(format!(
                "a prompt must have 1 to {MAX_PROMPT} bytes; it has {}",
                prompt.len()
            ));
        }
        let Ok(_slot) = self.known.invokes.try_acquire() else {
            return Err("the plugin waits for too many models already; wait for one".to_owned());
        };
        let seconds = options.timeout.map(|ms| Duration::from_millis(ms).as_secs().max(1));
        let new = NewRun {
            caller: Caller {
                principal: self.principal.clone(),
                session: None,
                surface: Surface::RUN,
                carried: Arc::default(),
                lineage: None,
            },
            profile: Arc::new(self.profile(options.allowed_tools)),
            tool: None,
            prompt,
            model: options.model,
            answer: options.schema,
            budget: Budget { seconds, ..Budget::default() },
            origin: Origin::Plugin(self.name.to_string()),
            trace: None,
        };
        let run = self.runs.start(new).await.map_err(|error| error.to_string())?;
        let _cancel = CancelOnDrop { runs: &self.runs, run: &run };
        let outcome = self.runs.outcome(&run).await;
        outcome.ok_or_else(|| "what came of the run can't be read".to_owned())
    }

    /// An agent without instructions. Its name can't be that of a profile.
    fn profile(&self, tools: Vec<String>) -> Profile {
        let denied = if tools.is_empty() { vec![READ.to_owned()] } else { Vec::new() };
        Profile {
            name: format!("plugin:{}", self.name),
            description: format!("asked by plugin `{}`", self.name),
            invoker: Invoker::Api,
            model: None,
            instructions: String::new(),
            tools: ToolChoice { allowed: Some(tools), denied, agents: None },
            custom: Vec::new(),
            ceiling: None,
            budget: self.terms.budget,
            max_turns: None,
            temperature: None,
            public: false,
            hash: String::new(),
        }
    }

    fn check_known(&self, thread: &str) -> Result<(), PluginError> {
        if self.known.knows(thread) {
            return Ok(());
        }
        Err(PluginError(format!(
            "plugin `{}` was not told of a conversation `{thread}`",
            self.name
        )))
    }
}

/// The principal in whose name a plugin's runs work.
pub(super) fn principal_of(name: &SourceId) -> Result<Principal, IdError> {
    Principal::new(&format!("{PRINCIPAL}{name}"))
}

#[async_trait]
impl PluginContext for Context {
    async fn invoke(&self, prompt: String, options: InvokeOptions) -> InvokeResult {
        match self.run(prompt, options).await {
            Ok(result) => result,
            Err(error) => {
                InvokeResult { error: Some(error), exit_code: 1, ..InvokeResult::default() }
            }
        }
    }

    async fn send_to_thread(&self, thread: &str, message: String) -> Result<(), PluginError> {
        self.check_known(thread)?;
        let from = format!("plugin {}", self.name);
        self.tasks.say(thread, Some(&from), message).await.map_err(failed)
    }

    async fn broadcast(&self, event: String, data: Value) -> Result<(), PluginError> {
        let size = event.len().saturating_add(data.to_string().len());
        if size > MAX_BROADCAST {
            let reason = format!("an announcement may have {MAX_BROADCAST} bytes; it has {size}");
            return Err(PluginError(reason));
        }
        if !self.known.may_broadcast() {
            let reason = "the plugin has announced too much within a minute; announce less";
            return Err(PluginError(reason.to_owned()));
        }
        self.set.tell(HookEvent::OnBroadcast { event, data }, Some(&self.name));
        Ok(())
    }

    async fn delegate(&self, task: NewTask) -> Result<TaskView, PluginError> {
        let thread = task.parent_thread_id;
        let Some(call) = self.known.call_from(&thread) else {
            let reason = format!("no tool of plugin `{}` was called from `{thread}`", self.name);
            return Err(PluginError(reason));
        };
        let delegation = Delegation {
            caller: call.caller,
            step: call.step,
            parent_thread: thread,
            plugin: self.name.to_string(),
            prompt: task.prompt,
            model: task.model,
            max_iterations: task.max_iterations,
        };
        let view = self.tasks.delegate(delegation).await.map_err(failed)?;
        self.known.learn(&view.thread_id);
        Ok(view)
    }

    async fn task(&self, id: &str) -> Result<TaskView, PluginError> {
        let found = self.tasks.get(id).await.map_err(failed)?;
        let own =
            found.filter(|task| task.plugin == self.name.as_str() || self.known.knows(&task.id));
        own.map(|task| task.view()).ok_or_else(|| PluginError(format!("there is no task `{id}`")))
    }

    async fn check_in(&self, thread: &str, message: String) -> Result<(), PluginError> {
        self.check_known(thread)?;
        self.tasks.check_in(thread, message).await.map_err(failed)
    }

    async fn load(&self, key: &str) -> Result<Option<Value>, PluginError> {
        storage::load(&self.runs, &self.name, key).await
    }

    async fn save(&self, key: &str, value: Option<Value>) -> Result<(), PluginError> {
        let mut keys = self.known.storing.lock().await;
        storage::save(&self.runs, &self.name, (key, value), &mut keys).await
    }

    fn settings(&self) -> Value {
        self.terms.settings.clone()
    }
}

fn failed(error: impl std::error::Error) -> PluginError {
    PluginError(error.to_string())
}
