//! Failures of operations as answers, with the command that helps.

use axum::Json;
use axum::response::{IntoResponse, Response};
use drawgate_agents::runs::StartError;
use drawgate_agents::runs::programs::NoProgram;
use drawgate_core::policy::{ApprovalError, GrantError};
use drawgate_core::registry::ReviewError;
use drawgate_runtime::operations::{AgentError, OperationError, PluginRefusal};
use drawgate_runtime::peers::KeyExists;
use drawgate_runtime::toolpacks::{Code, ToolpackError};
use http::StatusCode;
use serde::{Deserialize, Serialize};

/// A refusal, as the command line shows it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The sentence.
    pub error: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The name that is not known, for which a similar one may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UnknownName>,
}

/// A name that is in no list.
#[derive(Debug, Serialize, Deserialize)]
pub struct UnknownName {
    /// What was asked for.
    pub name: String,
    /// Where it should stand.
    pub list: NameList,
}

/// What has names that people type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameList {
    /// Agents with a token.
    Agents,
    /// Servers, and other sources of tools.
    Servers,
    /// Tools.
    Tools,
    /// Packs that are connected.
    Packs,
    /// Providers of models.
    Providers,
    /// Profiles of agents.
    Profiles,
    /// Plugins.
    Plugins,
}

impl NameList {
    /// The route that lists them.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Agents => "/agents",
            Self::Servers => "/servers",
            Self::Tools => "/tools",
            Self::Packs => "/packs",
            Self::Providers => "/providers",
            Self::Profiles => "/profiles",
            Self::Plugins => "/plugins",
        }
    }

    /// The members of an entry that are its names.
    #[must_use]
    pub const fn members(self) -> &'static [&'static str] {
        match self {
            Self::Tools => &["/wireName", "/tool/name", "/toolId"],
            Self::Servers | Self::Packs => &["/id"],
            Self::Agents | Self::Providers | Self::Profiles | Self::Plugins => &["/name"],
        }
    }
}

/// An operation that was not done.
pub(super) struct Failure(OperationError);

impl<E: Into<OperationError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match &self.0 {
            OperationError::Review(ReviewError::ChangedAgain(_)) => StatusCode::CONFLICT,
            OperationError::NotOperator => StatusCode::FORBIDDEN,
            OperationError::NotServed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        let (advice, unknown) = (advice(&self.0), unknown(&self.0));
        let error = format!("{:#}", anyhow::Error::from(self.0));
        (status, Json(Refused { error, advice, unknown })).into_response()
    }
}

/// The name that an error is about, if there could be a similar one.
fn unknown(error: &OperationError) -> Option<UnknownName> {
    let (name, list) = match error {
        OperationError::UnknownAgent(name) | OperationError::UnknownGrantee(name) => {
            (name.as_str(), NameList::Agents)
        }
        OperationError::NoSuchTool(name) => (name.as_str(), NameList::Tools),
        OperationError::UnknownPack(name) => (name.as_str(), NameList::Packs),
        OperationError::Review(ReviewError::NoServer(name))
        | OperationError::NoLogin(name)
        | OperationError::NotLoggedIn(name) => (name.as_str(), NameList::Servers),
        OperationError::Agents(AgentError::UnknownProvider(name)) => {
            (name.as_str(), NameList::Providers)
        }
        OperationError::Agents(
            AgentError::UnknownProfile(name) | AgentError::ProfileNotAccepted(name),
        ) => (name.as_str(), NameList::Profiles),
        OperationError::Plugins(PluginRefusal::Unknown(name)) => (name.as_str(), NameList::Plugins),
        _ => return None,
    };
    Some(UnknownName { name: name.to_owned(), list })
}

/// The list that shows what there is.
fn shows(command: &str) -> String {
    format!("`drawgate {command} list` shows them")
}

/// The command that helps with an error.
fn advice(error: &OperationError) -> Option<String> {
    match error {
        OperationError::UnknownAgent(_) => Some(shows("agents")),
        OperationError::UnknownGrantee(name) => Some(format!(
            "`drawgate agents list` and `drawgate keys list` show them, `drawgate agents add {name}` adds one"
        )),
        OperationError::NoSuchTool(_) => Some(shows("tools")),
        OperationError::AgentExists(name) => {
            Some(format!("`drawgate agents rotate {name}` gives it a new token"))
        }
        OperationError::KeyExists(KeyExists { purpose, name, fingerprint, .. }) => {
            Some(format!("`drawgate keys remove {fingerprint} --{purpose} {name}` takes it out"))
        }
        OperationError::UnknownKey => Some(shows("keys")),
        OperationError::UnknownPack(_) => Some("`drawgate packs list` shows those that are".into()),
        OperationError::UnknownArtifact(_) => Some(shows("artifacts")),
        OperationError::Agents(error) => agent_advice(error),
        OperationError::Plugins(error) => plugin_advice(error),
        OperationError::Approval(ApprovalError::Unknown(_)) => Some(shows("approvals")),
        OperationError::Grant(GrantError::Unknown(_)) => Some(shows("grants")),
        OperationError::Review(ReviewError::NoServer(_)) => Some(shows("servers")),
        OperationError::NotServed => Some("`drawgate serve` starts one".to_owned()),
        OperationError::Toolpack(error) => toolpack_advice(error),
        OperationError::NameIsLocal
        | OperationError::ApprovalId(_)
        | OperationError::GrantId(_)
        | OperationError::GrantExists(_)
        | OperationError::NameIsReserved(_)
        | OperationError::NameIsPlugins(_)
        | OperationError::ConfiguredGrant(_)
        | OperationError::NotOperator
        | OperationError::UnknownPurpose
        | OperationError::NoKeySelected
        | OperationError::NotConfigured(_)
        | OperationError::NoLog(_)
        | OperationError::NotLoggedIn(_)
        | OperationError::NoLogin(_)
        | OperationError::ToolpackChanged
        | OperationError::ToolpackConflict { .. }
        | OperationError::ToolpackId(_)
        | OperationError::Name(_)
        | OperationError::Capability(_)
        | OperationError::Scope(_)
        | OperationError::Query(_)
        | OperationError::ToolPattern(_)
        | OperationError::Approval(_)
        | OperationError::Grant(_)
        | OperationError::Review(_)
        | OperationError::Login(_)
        | OperationError::LoginFailed(_)
        | OperationError::Act(_)
        | OperationError::Copy(_)
        | OperationError::Store(_)
        | OperationError::Other(_) => None,
    }
}

/// The command or option that helps with an error about agents that the gateway runs.
fn agent_advice(error: &AgentError) -> Option<String> {
    match error {
        AgentError::UnknownProvider(_) => Some(shows("providers")),
        AgentError::UnknownProfile(_) | AgentError::ProfileNotAccepted(_) => {
            Some(shows("profiles"))
        }
        AgentError::ProfileWaits(name) => {
            Some(format!("`drawgate profiles accept {name}` shows what it may do, and accepts it"))
        }
        AgentError::ProfileUnusable(name) => {
            Some(format!("`drawgate profiles show {name}` shows why"))
        }
        AgentError::UnknownRun(_) => Some(shows("runs")),
        AgentError::UnknownThread(_) => Some(shows("threads")),
        AgentError::UnknownTask(_) => Some(shows("tasks")),
        AgentError::NotRunning(id) => Some(format!("`drawgate runs show {id}` shows how it ended")),
        AgentError::Run(StartError::Program(NoProgram::NotServed(_))) => {
            Some("`drawgate serve` starts a gateway".to_owned())
        }
        AgentError::NotResumable(_)
        | AgentError::Run(_)
        | AgentError::Task(_)
        | AgentError::ProfileChanged(_) => None,
    }
}

/// The command that helps with an error about plugins.
fn plugin_advice(error: &PluginRefusal) -> Option<String> {
    match error {
        PluginRefusal::Unknown(_) => Some(shows("plugins")),
        PluginRefusal::Shipped(name) => Some(format!("`drawgate plugins disable {name}`")),
        PluginRefusal::KeptPrefix(_)
        | PluginRefusal::NameTaken(_)
        | PluginRefusal::Changed(_)
        | PluginRefusal::Setting(_)
        | PluginRefusal::Fault(_) => None,
    }
}

/// The command or option that helps with an error about a toolpack.
#[must_use]
pub fn toolpack_advice(error: &ToolpackError) -> Option<String> {
    match (error, error.code()) {
        (ToolpackError::Moved { id, .. }, _) => {
            Some(format!("`drawgate toolpacks update {id}` shows what is different"))
        }
        (_, Some(Code::Downgrade)) => Some("use `--allow-downgrade` if you want it".to_owned()),
        _ => None,
    }
}
