//! The tools by which an agent works with other agents, and two that it needs itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use drawgate_core::model::{
    ArtifactRef, Capability, Lineage, McpManifest, Offer, SourceId, ToolOutput,
};
use drawgate_core::registry::{Audience, Naming, SourceTerms, ToolTerms};
use drawgate_core::source::{CallContext, PermittedCall, SourceError, ToolSource};
use serde_json::{Map, Value, json};

use super::specs::{
    LONGEST_WAIT, READ_AT_ONCE, SEARCH, SEARCH_RESULTS, SIGNAL, SPAWN, Search, WAIT, tools,
};
use super::{CancelOnDrop, Profiles, not_started};
use crate::profile::{Budget, Profile};
use crate::runs::ended::describe_end;
use crate::runs::live::Live;
use crate::runs::session::{READ, RETURN_RESULT, STEP_KEY, started};
use crate::runs::store::Change;
use crate::runs::{NewRun, Origin, Report, Runs};

/// Characters of an agent's description that other agents see.
const SHOWN_DESCRIPTION: usize = 200;
/// How long `wait_agents` waits unless it is told.
const WAIT_SECONDS: u64 = 300;

/// The tools for agents.
pub struct AgentTools {
    id: SourceId,
    runs: Runs,
    profiles: Arc<dyn Profiles>,
    /// The model that searches, as `provider/model`.
    search: Option<String>,
}

impl AgentTools {
    /// Offers the tools; `search` is the model by which the web is searched.
    #[must_use]
    pub fn new(
        id: SourceId,
        runs: Runs,
        profiles: Arc<dyn Profiles>,
        search: Option<String>,
    ) -> Self {
        Self { id, runs, profiles, search }
    }

    /// The names that are kept for tools of agents, whether or not a search is offered.
    pub fn names() -> impl Iterator<Item = &'static str> {
        [SPAWN, WAIT, SIGNAL, READ, SEARCH, RETURN_RESULT].into_iter()
    }

    /// The terms of the tools: for runs alone, and open to every run, since budgets and limits hold
    /// them. A search is for everybody who may use the network.
    #[must_use]
    pub fn terms(base: SourceTerms) -> SourceTerms {
        let public: Vec<Capability> = Capability::new("public").into_iter().collect();
        let open = |is_idempotent: bool| ToolTerms {
            capabilities: Some(public.clone()),
            audience: Some(Audience::Runs),
            idempotent: is_idempotent,
            timeout: Some(Duration::from_secs(LONGEST_WAIT)),
            ..ToolTerms::default()
        };
        let mut terms: BTreeMap<String, ToolTerms> =
            [(SPAWN, false), (WAIT, true), (SIGNAL, false), (READ, true)]
                .into_iter()
                .map(|(name, is_idempotent)| (name.to_owned(), open(is_idempotent)))
                .collect();
        let search =
            ToolTerms { capabilities: Some(public), idempotent: true, ..ToolTerms::default() };
        terms.insert(SEARCH.to_owned(), search);
        SourceTerms { naming: Naming::Flat, tools: terms, ..base }
    }

    async fn spawn(
        &self,
        arguments: &Map<String, Value>,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let parent = self.parent(cx)?;
        let profile = self.profile(arguments, &parent)?;
        let waits = arguments.get("wait").and_then(Value::as_bool).unwrap_or(true);
        let report = if waits { Report::Result } else { Report::Message };
        let text = |key: &str| arguments.get(key).and_then(Value::as_str).map(str::to_owned);
        let budget: Budget = match arguments.get("budget") {
            Some(budget) => serde_json::from_value(budget.clone())
                .map_err(|error| arguments_error(format!("`budget`: {error}")))?,
            None => Budget::default(),
        };
        let step = step_of(cx);
        let new = NewRun {
            caller: parent.caller(),
            profile,
            tool: None,
            prompt: text("prompt").unwrap_or_default(),
            model: text("model"),
            answer: None,
            budget,
            origin: Origin::Step { step, report },
            trace: None,
        };
        let run = self.runs.start(new).await.map_err(|error| not_started(&error))?;
        if !waits {
            return Ok(ToolOutput::text(started(&run)));
        }
        let _cancel = CancelOnDrop { runs: &self.runs, run: &run };
        super::profile::output_of(self.runs.ended(&run).await)
    }

    fn profile(
        &self,
        arguments: &Map<String, Value>,
        parent: &Live,
    ) -> Result<Arc<Profile>, SourceError> {
        let Some(name) = arguments.get("agent").and_then(Value::as_str) else {
            let mut own = parent.record.lock().profile.clone();
            // A child like its parent: the budget is drawn from the parent's anyway.
            own.budget = Budget::default();
            if let Some(tools) = arguments.get("tools").and_then(Value::as_array) {
                let names = tools.iter().filter_map(Value::as_str).map(str::to_owned);
                own.tools.allowed = Some(names.collect());
            }
            return Ok(Arc::new(own));
        };
        if arguments.contains_key("tools") {
            let message =
                "`tools` can only be given without `agent`: a profile says itself what it uses";
            return Err(arguments_error(message.to_owned()));
        }
        let own = parent.record.lock().profile.clone();
        // One that it may not start is to it as one that is not there.
        self.profiles.get(name).filter(|_| own.may_start(name)).ok_or_else(|| {
            let mut names = self.profiles.names();
            names.retain(|name| own.may_start(name));
            let names = names.join("`, `");
            arguments_error(format!("there is no agent `{name}`; there are: `{names}`"))
        })
    }

    /// The run that calls.
    fn parent(&self, cx: &CallContext) -> Result<Arc<Live>, SourceError> {
        let lineage: &Lineage = cx.lineage.as_deref().ok_or_else(only_for_runs)?;
        self.runs.0.find(&lineage.run).ok_or_else(only_for_runs)
    }

    async fn wait(
        &self,
        arguments: &Map<String, Value>,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let parent = self.parent(cx)?;
        let ids = arguments.get("ids").and_then(Value::as_array).into_iter().flatten();
        let mut children = Vec::new();
        for id in ids.filter_map(Value::as_str) {
            let child = self.runs.0.find(id).filter(|run| run.above().first() == Some(&parent.id));
            // Only what is below can be awaited, so that no two runs wait for each other.
            children
                .push(child.ok_or_else(|| {
                    arguments_error(format!("`{id}` is no run that you started"))
                })?);
        }
        let seconds = arguments.get("seconds").and_then(Value::as_u64).unwrap_or(WAIT_SECONDS);
        let all = async {
            for child in &children {
                child.ended().await;
            }
        };
        // Those that have not ended by then are shown as they are.
        let _ = tokio::time::timeout(Duration::from_secs(seconds), all).await;
        let shown: Vec<Value> = children.iter().map(|child| shown(child)).collect();
        Ok(ToolOutput::text(Value::Array(shown).to_string()))
    }

    async fn signal(
        &self,
        arguments: &Map<String, Value>,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let run = self.parent(cx)?;
        let above = run.above().first().and_then(|above| self.runs.0.find(above));
        let Some(above) = above.filter(|above| above.end().is_none()) else {
            return Err(SourceError::Failed {
                message: "no agent started you; say it in your answer".to_owned(),
                details: None,
            });
        };
        let text = arguments.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
        let message = self.runs.0.message(&above.id, Some(&run.id), text);
        let stored = self.runs.0.store.commit(&[Change::Message(&message)]).await;
        stored.map_err(|error| SourceError::unreachable(error.to_string()))?;
        self.runs.0.hand_over(&above.id, message);
        Ok(ToolOutput::text("sent"))
    }

    async fn read(
        &self,
        arguments: &Map<String, Value>,
        cx: &CallContext,
    ) -> Result<ToolOutput, SourceError> {
        let run = self.parent(cx)?;
        let uri = arguments.get("uri").and_then(Value::as_str).unwrap_or_default();
        let hash = uri.strip_prefix(ArtifactRef::URI_PREFIX).unwrap_or(uri);
        let number = |key: &str| arguments.get(key).and_then(Value::as_u64);
        let owner = run.record.lock().principal.clone();
        let found = self.runs.0.artifacts.get(hash, &owner).await;
        let found = found.map_err(|error| SourceError::unreachable(error.to_string()))?;
        let Some((_, bytes)) = found else {
            return Err(arguments_error(format!("there is no artifact `{uri}`")));
        };
        let from = usize::try_from(number("offset").unwrap_or(0)).unwrap_or(usize::MAX);
        let length = number("length").unwrap_or(READ_AT_ONCE).min(READ_AT_ONCE);
        let until = from.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        let part = bytes.get(from.min(bytes.len())..until.min(bytes.len())).unwrap_or_default();
        let text = String::from_utf8_lossy(part);
        let place = format!("[bytes {from} to {} of {}]", until.min(bytes.len()), bytes.len());
        Ok(ToolOutput::text(format!("{place}\n{text}")))
    }

    async fn search(&self, arguments: &Map<String, Value>) -> Result<ToolOutput, SourceError> {
        let Some(model) = &self.search else {
            return Err(SourceError::unreachable("no model is configured for searches"));
        };
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        let most = arguments.get("maxResults").and_then(Value::as_u64).unwrap_or(SEARCH_RESULTS);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let models = self.runs.0.models.models();
        match models.search(query, most, Some(model)).await {
            Ok(found) => Ok(ToolOutput::text(json!(found.results).to_string())),
            Err(error) => Err(SourceError::Failed { message: error.to_string(), details: None }),
        }
    }
}

#[async_trait]
impl ToolSource for AgentTools {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        let search = if self.search.is_some() { Search::Offered } else { Search::Absent };
        Ok(McpManifest {
            server_id: self.id.clone(),
            name: "Drawgate agents".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: Some("other agents, long results and searches".to_owned()),
            tools: tools(search),
            offer: Offer::default(),
        })
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        let arguments = call.arguments();
        match call.tool() {
            SPAWN => self.spawn(arguments, cx).await,
            WAIT => self.wait(arguments, cx).await,
            SIGNAL => self.signal(arguments, cx).await,
            READ => self.read(arguments, cx).await,
            SEARCH => self.search(arguments).await,
            other => Err(SourceError::Protocol(format!("there is no tool `{other}`"))),
        }
    }

    fn waits(&self, tool: &str) -> bool {
        matches!(tool, SPAWN | WAIT)
    }

    fn show_to_run(&self, tool: &str, run: &Lineage, listing: &mut Value) {
        if tool != SPAWN {
            return;
        }
        let Some(run) = self.runs.0.find(&run.run) else { return };
        let own = run.record.lock().profile.clone();
        let agents = self.profiles.names().into_iter().filter(|name| own.may_start(name));
        let agents: Vec<_> = agents.filter_map(|name| self.profiles.get(&name)).collect();
        if let Some(properties) = listing.pointer_mut("/inputSchema/properties") {
            show_agents(&agents, properties);
        }
    }
}

/// Names the agents that can be started in the schema of `spawn_agent`.
fn show_agents(agents: &[Arc<Profile>], properties: &mut Value) {
    let Some(properties) = properties.as_object_mut() else { return };
    if agents.is_empty() {
        properties.remove("agent");
        return;
    }
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let line = |agent: &Arc<Profile>| {
        let words: String = agent.description.chars().take(SHOWN_DESCRIPTION).collect();
        format!("\n- `{}`: {words}", agent.name)
    };
    let lines: String = agents.iter().map(line).collect();
    let description = format!("the profile; one like yours without it. There are:{lines}");
    let agent = json!({ "type": "string", "enum": names, "description": description });
    properties.insert("agent".to_owned(), agent);
}

/// How a child is, for the run that waits for it.
fn shown(child: &Live) -> Value {
    match child.end() {
        Some(end) => json!({
            "id": &*child.id,
            "state": "ended",
            "ending": end.ending.as_str(),
            "answer": describe_end(&end),
        }),
        None => json!({ "id": &*child.id, "state": child.phase.borrow().as_str() }),
    }
}

fn arguments_error(message: String) -> SourceError {
    SourceError::Arguments { message, details: None }
}

fn only_for_runs() -> SourceError {
    arguments_error("only an agent that the gateway runs can use this tool".to_owned())
}

/// The step that a call belongs to, as the session that makes it says.
pub(super) fn step_of(cx: &CallContext) -> u32 {
    let step = cx.meta.get(STEP_KEY).and_then(Value::as_u64);
    step.and_then(|step| u32::try_from(step).ok()).unwrap_or_default()
}
