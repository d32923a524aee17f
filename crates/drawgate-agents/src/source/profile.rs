//! The tools of a profile: its custom tools, each a prompt that another run answers, and the agent itself
//! where it is public.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use drawgate_core::model::{
    Caller, Capability, IdError, McpManifest, McpToolSpec, Offer, Principal, SourceId, Surface,
    ToolOutput,
};
use drawgate_core::registry::{Audience, Naming, SourceTerms, ToolTerms};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use serde_json::{Map, Value, json};

use super::builtin::step_of;
use super::{CancelOnDrop, not_started};
use crate::profile::{Budget, CustomTool, Invoker, Profile, ToolChoice};
use crate::runs::ended::describe_end;
use crate::runs::{End, Ending, NewRun, Origin, Report, Runs};

/// Seconds that the answer of a custom tool may take.
const CUSTOM_SECONDS: u64 = 300;
/// Seconds that a call of an agent may take, unless its budget says less or the call is a task.
const AGENT_SECONDS: u64 = 3600;

/// The tools of one profile.
pub struct ProfileTools {
    id: SourceId,
    profile: Arc<Profile>,
    runs: Runs,
}

impl ProfileTools {
    /// What the ids of these sources begin with; the profile's name follows.
    pub const PREFIX: &str = "profile-";

    /// Offers the tools of a profile.
    pub fn new(profile: Arc<Profile>, runs: Runs) -> Result<Self, IdError> {
        Ok(Self { id: Self::id_of(&profile.name)?, profile, runs })
    }

    /// The id of the source of a profile's tools.
    pub fn id_of(profile: &str) -> Result<SourceId, IdError> {
        SourceId::new(&format!("{}{profile}", Self::PREFIX))
    }

    /// Whether a profile has any tools.
    #[must_use]
    pub fn any(profile: &Profile) -> bool {
        profile.public || !profile.custom.is_empty()
    }

    /// The terms of the tools. Those of the profile's own runs need no capability: their audience is
    /// restricted, and budgets hold them. Public ones need the use of the source.
    #[must_use]
    pub fn terms(&self, base: SourceTerms) -> SourceTerms {
        let open: Vec<Capability> = Capability::new("public").into_iter().collect();
        let custom = self.profile.custom.iter().map(|tool| {
            let mut terms = ToolTerms {
                timeout: Some(Duration::from_secs(CUSTOM_SECONDS)),
                ..ToolTerms::default()
            };
            if !tool.public {
                terms.capabilities = Some(open.clone());
                terms.audience = Some(Audience::Profile(self.profile.name.as_str().into()));
            }
            (tool.name.clone(), terms)
        });
        let mut tools: BTreeMap<String, ToolTerms> = custom.collect();
        if self.profile.public {
            let seconds = self.profile.budget.seconds.unwrap_or(AGENT_SECONDS);
            let timeout = Some(Duration::from_secs(seconds));
            tools.insert(self.profile.name.clone(), ToolTerms { timeout, ..ToolTerms::default() });
        }
        SourceTerms { naming: Naming::Flat, tools, ..base }
    }

    fn specs(&self) -> Vec<McpToolSpec> {
        let custom = self.profile.custom.iter().map(custom_spec);
        let agent = self.profile.public.then(|| agent_spec(&self.profile));
        let all = custom.chain(agent);
        all.filter_map(|spec| serde_json::from_value(spec).ok()).collect()
    }

    /// The run that answers a call.
    fn run_for(
        &self,
        tool: &str,
        arguments: &Map<String, Value>,
        cx: &CallContext,
    ) -> Result<NewRun, SourceError> {
        let caller = self.caller(cx)?;
        let is_run = caller.lineage.is_some();
        let origin = if is_run {
            Origin::Step { step: step_of(cx), report: Report::Result }
        } else {
            Origin::New
        };
        let Some(custom) = self.profile.custom.iter().find(|custom| custom.name == tool) else {
            let prompt = arguments.get("prompt").and_then(Value::as_str).unwrap_or_default();
            return Ok(NewRun {
                caller,
                profile: Arc::clone(&self.profile),
                tool: None,
                prompt: prompt.to_owned(),
                model: None,
                answer: None,
                budget: Budget::default(),
                origin,
                trace: cx.trace.clone(),
            });
        };
        // Without a run above it, the profile's model and budget hold.
        let (model, budget) = if is_run {
            (None, Budget::default())
        } else {
            (self.profile.model.clone(), self.profile.budget)
        };
        let seconds = Some(CUSTOM_SECONDS);
        Ok(NewRun {
            caller,
            profile: Arc::new(self.answerer()),
            tool: Some(custom.name.clone()),
            prompt: custom.prompt_for(arguments),
            model: custom.model.clone().or(model),
            answer: custom.result_schema.clone(),
            budget: budget.tighter(Budget { seconds, ..Budget::default() }),
            origin,
            trace: cx.trace.clone(),
        })
    }

    /// The agent behind a custom tool: no instructions but the prompt, and no tools.
    fn answerer(&self) -> Profile {
        Profile {
            instructions: String::new(),
            model: None,
            tools: ToolChoice { allowed: Some(Vec::new()), ..ToolChoice::default() },
            custom: Vec::new(),
            budget: Budget::default(),
            public: false,
            // One question needs no program.
            invoker: Invoker::Api,
            ..Profile::clone(&self.profile)
        }
    }

    fn caller(&self, cx: &CallContext) -> Result<Caller, SourceError> {
        if let Some(lineage) = &cx.lineage {
            let run = self.runs.0.find(&lineage.run);
            return run
                .map(|run| run.caller())
                .ok_or_else(|| SourceError::unreachable("the run has ended"));
        }
        let principal = Principal::new(cx.caller());
        Ok(Caller {
            principal: principal.map_err(|error| SourceError::Protocol(error.to_string()))?,
            session: None,
            surface: Surface::RUN,
            carried: Arc::clone(&cx.carried),
            lineage: None,
        })
    }
}

#[async_trait]
impl ToolSource for ProfileTools {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Ok(McpManifest {
            server_id: self.id.clone(),
            name: self.profile.name.clone(),
            version: self.profile.hash.chars().take(12).collect(),
            description: Some(self.profile.description.clone()),
            tools: self.specs(),
            offer: Offer::default(),
        })
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        let new = self.run_for(call.tool(), call.arguments(), cx)?;
        let run = self.runs.start(new).await.map_err(|error| not_started(&error))?;
        let _cancel = CancelOnDrop { runs: &self.runs, run: &run };
        output_of(self.runs.ended(&run).await)
    }

    fn waits(&self, _tool: &str) -> bool {
        true
    }
}

/// The end of a run as the result of the call that waited for it.
pub(super) fn output_of(end: Option<End>) -> Result<ToolOutput, SourceError> {
    let end = end.ok_or_else(|| SourceError::lost("the run is gone"))?;
    let text = describe_end(&end);
    match end.ending {
        Ending::Done => {
            let structured = end.answer.filter(Value::is_object);
            Ok(ToolOutput { structured, ..ToolOutput::text(text) })
        }
        Ending::Invalid => Err(SourceError::Invalid(text)),
        Ending::Deadline => Err(SourceError::Timeout(text)),
        Ending::Failed | Ending::Cancelled | Ending::Budget | Ending::Context | Ending::Stuck => {
            let details = Some(json!({ "ending": end.ending }));
            Err(SourceError::Failed { message: text, details })
        }
    }
}

fn custom_spec(tool: &CustomTool) -> Value {
    let mut spec = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.parameters,
    });
    // Clients expect structure of objects alone.
    let of_objects = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("object");
    if let (Some(schema), Value::Object(spec)) =
        (tool.result_schema.as_ref().filter(of_objects), &mut spec)
    {
        spec.insert("outputSchema".to_owned(), schema.clone());
    }
    spec
}

fn agent_spec(profile: &Profile) -> Value {
    json!({
        "name": profile.name,
        "description": profile.description,
        "inputSchema": {
            "type": "object",
            "properties": {
                "prompt": { "type": "string", "minLength": 1, "description": "the task, with all that the agent needs to know" }
            },
            "required": ["prompt"],
            "additionalProperties": false
        },
        "annotations": { "category": "control" }
    })
}
