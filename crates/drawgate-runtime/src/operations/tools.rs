//! Tools, as an operator lists and calls them.

use drawgate_core::model::{
    Caller, Capability, Narrowing, Principal, SourceId, ToolInvocation, ToolResult, WireName,
};
use drawgate_core::pipeline::CallOptions;
use drawgate_core::policy::Expose;
use drawgate_core::registry::{Entry, Provider, ServerDemands, SourceState, SourceStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{OperationError, Operations};

/// A tool that can be called.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedTool {
    /// `source:tool`.
    pub tool_id: String,
    /// The source.
    pub server_id: SourceId,
    /// The name that models see.
    pub wire_name: WireName,
    /// What a caller needs.
    pub requires: Vec<Capability>,
    /// Whether a person must confirm each call.
    #[serde(default)]
    pub requires_confirmation: bool,
    /// The policy action by which all rules know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_action: Option<String>,
    /// What its server's own annotations demand; the above has it if it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_demands: Option<ServerDemands>,
    /// The definition, as its author wrote it.
    pub tool: Value,
    /// How the agent comes by it whose list this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<ToolAccess>,
    /// Its source, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_by: Option<ServedBy>,
}

/// How an agent comes by a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolAccess {
    /// It is in the agent's list.
    Listed,
    /// The agent is not shown it, and finds it by searching.
    Search,
    /// It is in the list only over gRPC, where the agent's key allows more than its token.
    Key,
}

/// The source of a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServedBy {
    /// What it calls itself.
    pub server: Option<String>,
    /// Its state.
    pub state: SourceState,
    /// Since when, in milliseconds since the epoch.
    pub since: u64,
}

/// A call by an operator, or on behalf of an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewCall {
    /// The tool.
    pub tool: String,
    /// The arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// How the caller narrows it.
    #[serde(default)]
    pub narrowing: Narrowing,
    /// On whose behalf.
    pub agent: Option<Principal>,
}

impl Operations {
    /// The tools that a caller may call.
    pub fn tools(&self, caller: &Caller) -> Result<Vec<ListedTool>, OperationError> {
        let statuses = self.supervisor.status();
        let listed = |entry: &Entry| {
            let source = statuses.iter().find(|status| status.id == *entry.id.source());
            listed(entry, source)
        };
        self.gateway.tools(caller).iter().map(|entry| listed(entry)).collect()
    }

    /// The tools of an agent, and how it comes by each.
    pub async fn tools_of(&self, agent: Caller) -> Result<Vec<ListedTool>, OperationError> {
        let (with_token, by_key) = self.known_agent(&agent.principal).await?;
        let expose = self.gateway.exposure(&agent.principal);
        let own = self.tools(&agent)?;
        let mut all = self.tools(&Caller { carried: by_key, ..agent })?;
        for tool in &mut all {
            let is_own = own.iter().any(|own| own.tool_id == tool.tool_id);
            tool.access = Some(match (with_token, is_own, expose) {
                (true, true, Expose::Search) => ToolAccess::Search,
                (true, false, _) => ToolAccess::Key,
                (true, true, Expose::All) | (false, ..) => ToolAccess::Listed,
            });
        }
        Ok(all)
    }

    /// The same tools in the form that a model provider takes.
    #[must_use]
    pub fn tools_for(&self, caller: &Caller, provider: Provider) -> Vec<Value> {
        self.gateway.tools(caller).iter().map(|entry| entry.definition_for(provider)).collect()
    }

    /// Calls a tool.
    pub async fn call(&self, caller: &Caller, call: NewCall) -> ToolResult {
        let unique = self.gateway.ids().unique();
        let invocation = call.narrowing.of(ToolInvocation {
            tool_id: call.tool,
            request_id: format!("{}-{unique}", caller.surface.name()),
            arguments: call.arguments,
            ..ToolInvocation::default()
        });
        self.gateway.call(caller, invocation, CallOptions::default()).await
    }
}

fn listed(entry: &Entry, source: Option<&SourceStatus>) -> Result<ListedTool, OperationError> {
    Ok(ListedTool {
        tool_id: entry.id.to_string(),
        server_id: entry.id.source().clone(),
        wire_name: entry.wire.clone(),
        requires: entry.requires.clone(),
        requires_confirmation: entry.confirm,
        policy_action: entry.action.clone(),
        server_demands: entry.demands.clone(),
        access: None,
        tool: serde_json::to_value(&entry.spec).map_err(anyhow::Error::from)?,
        served_by: source.map(|SourceStatus { server, state, since, .. }| ServedBy {
            server: server.clone(),
            state: *state,
            since: *since,
        }),
    })
}
