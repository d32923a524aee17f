//! Why an operation was not done.

use std::sync::Arc;

use drawgate_agents::runs::StartError;
use drawgate_agents::tasks::TaskError;
use drawgate_core::acts::ActError;
use drawgate_core::audit::search::QueryError;
use drawgate_core::model::{CapabilityError, IdError, Principal, ScopeError, ToolPatternError};
use drawgate_core::policy::{ApprovalError, GrantError};
use drawgate_core::registry::ReviewError;
use drawgate_core::store::StoreError;
use drawgate_host::store::backup::CopyError;
use drawgate_sources::mcp::oauth::LoginError;

use crate::peers::KeyExists;
use crate::plugins::PluginFault;
use crate::toolpacks::{PackIdError, ToolpackError};

/// Why an operation was not done. The texts name no command: programs that have commands add which one
/// helps.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// No agent of this name has a token.
    #[error("there is no agent `{0}`")]
    UnknownAgent(Principal),
    /// A grant for a caller that is not known by token, key or issuer.
    #[error("there is no agent `{0}`")]
    UnknownGrantee(Principal),
    /// What should name an approval does not.
    #[error("`{}` is not the id of an approval; use 1 to 128 visible ASCII characters without spaces", .0.escape_debug())]
    ApprovalId(String),
    /// What should name a grant does not.
    #[error("`{}` is not the id of a grant; use 1 to 128 visible ASCII characters without spaces and `:`", .0.escape_debug())]
    GrantId(String),
    /// Another grant has the id.
    #[error("there is another grant `{}` already; revoke that one first", .0.escape_debug())]
    GrantExists(String),
    /// A pattern means no tool.
    #[error("no tool is called `{0}`")]
    NoSuchTool(String),
    /// A text can't be a pattern for tools.
    #[error(transparent)]
    ToolPattern(#[from] ToolPatternError),
    /// The name is in use.
    #[error("there is an agent `{0}` already")]
    AgentExists(Principal),
    /// The name means the owner of the data folder.
    #[error("`local` is the owner of the data folder; choose another name")]
    NameIsLocal,
    /// The name could be that of a caller with a token of the configured issuer.
    #[error("names like `{0}` are kept for callers of `auth.issuer`; choose another")]
    NameIsReserved(Principal),
    /// The name could be that in which a plugin acts.
    #[error("names like `{0}` are kept for plugins; choose another")]
    NameIsPlugins(Principal),
    /// The grant comes from the configuration.
    #[error("`{0}` is set in the configuration; change `[local] capabilities` there")]
    ConfiguredGrant(String),
    /// The token that came with it is another, or none came.
    #[error("this is not the operator's token; it is in `admin.token` in the data folder")]
    NotOperator,
    /// Keys are for packs and agents only.
    #[error("a key is for a `pack` or an `agent`")]
    UnknownPurpose,
    /// Neither a fingerprint nor a name was given.
    #[error("say which key: its fingerprint, or whose it is")]
    NoKeySelected,
    /// The key is authorised for the same already.
    #[error(transparent)]
    KeyExists(#[from] KeyExists),
    /// No key is selected by what was given.
    #[error("there is no such key")]
    UnknownKey,
    /// No pack of this id is connected.
    #[error("no pack `{0}` is connected")]
    UnknownPack(String),
    /// No artifact has this hash.
    #[error("there is no artifact `{0}`")]
    UnknownArtifact(String),
    /// Nothing looks after the servers: the gateway was put together for one command.
    #[error("no gateway is running")]
    NotServed,
    /// The source is not a server of the configuration.
    #[error("`{0}` is not a server of the configuration, and can't be started again by itself")]
    NotConfigured(String),
    /// The source has no standard error that is kept.
    #[error("`{0}` is not an MCP server, and what it writes is not kept")]
    NoLog(String),
    /// The gateway is not logged in at this server.
    #[error("there is no login at `{0}`")]
    NotLoggedIn(String),
    /// The gateway can't log in at this server.
    #[error(
        "there is no login at `{0}`; it takes an MCP server with a `url` and without an `Authorization` header"
    )]
    NoLogin(String),
    /// What was staged is not what a person was shown.
    #[error("the pack has changed since it was shown; try once more")]
    ToolpackChanged,
    /// Something else has the id of a toolpack, or the name of one of its tools.
    #[error("`{id}` can't be enabled: {}; disable or rename one of the two", .conflicts.join("; "))]
    ToolpackConflict {
        /// The toolpack.
        id: String,
        /// What it has in common with others.
        conflicts: Vec<String>,
    },
    /// It is about agents that the gateway runs.
    #[error(transparent)]
    Agents(#[from] AgentError),
    /// It is about plugins.
    #[error(transparent)]
    Plugins(#[from] PluginRefusal),
    /// The work on the folder of toolpacks failed. The text has its causes.
    #[error("{0}")]
    Toolpack(ToolpackError),
    /// Not an id of a toolpack.
    #[error(transparent)]
    ToolpackId(#[from] PackIdError),
    /// Not a name.
    #[error(transparent)]
    Name(#[from] IdError),
    /// Not a capability.
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    /// Not a scope of a grant.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// The audit log can't be asked this.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The approval can't be decided.
    #[error(transparent)]
    Approval(#[from] ApprovalError),
    /// The grant can't be changed.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// A definition can't be shown or accepted.
    #[error(transparent)]
    Review(#[from] ReviewError),
    /// A login can't be begun or ended.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// A login that was begun has failed.
    #[error(transparent)]
    LoginFailed(Arc<LoginError>),
    /// The act could not be kept or written down.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The data folder could not be copied.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Everything else: the file of keys, the configuration of toolpacks.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

/// Why an operation on profiles, models, runs or threads was not done.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No provider of models has this name.
    #[error("there is no provider `{0}`")]
    UnknownProvider(String),
    /// The file of a profile waits for an operator's word.
    #[error("profile `{0}` is not accepted, or its file has changed since")]
    ProfileWaits(String),
    /// No run has this id, or several end like this.
    #[error("there is no run `{0}`")]
    UnknownRun(String),
    /// No conversation has this id, or several end like this.
    #[error("there is no thread `{0}`")]
    UnknownThread(String),
    /// No delegated task has this id, or several end like this.
    #[error("there is no task `{0}`")]
    UnknownTask(String),
    /// A message could not be put into a conversation.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The run has ended.
    #[error("run `{0}` is not at work")]
    NotRunning(String),
    /// The run is at work, or part of another one's work.
    #[error("run `{0}` can't be resumed: it is at work, or was started by another run")]
    NotResumable(String),
    /// A run can't be started.
    #[error(transparent)]
    Run(#[from] StartError),
    /// No file has a profile of this name, and none was accepted.
    #[error("there is no profile `{0}`")]
    UnknownProfile(String),
    /// The profile's file has problems, or is gone.
    #[error("the file of `{0}` can't be used")]
    ProfileUnusable(String),
    /// The profile's file is not what a person was shown.
    #[error("`{0}` has changed since it was shown; look at it once more")]
    ProfileChanged(String),
    /// The profile does not count anyway.
    #[error("`{0}` is not accepted")]
    ProfileNotAccepted(String),
}

/// Why an operation on plugins was not done.
#[derive(Debug, thiserror::Error)]
pub enum PluginRefusal {
    /// No plugin of this name was added or comes with the gateway.
    #[error("there is no plugin `{0}`")]
    Unknown(String),
    /// The name begins like those of hooks of the configuration, or of the tools of profiles.
    #[error(
        "names like `{0}` are kept for `[[hooks]]` and profiles; choose another one in the plugin's manifest"
    )]
    KeptPrefix(String),
    /// Another source has the name, or one that looks like it. The text says which.
    #[error("{0}; choose another name in the plugin's manifest")]
    NameTaken(String),
    /// The plugin's files are not what a person was shown.
    #[error("the files of `{0}` have changed since they were shown; look at it once more")]
    Changed(String),
    /// It can't be removed, only disabled.
    #[error("`{0}` comes with the gateway, and can only be disabled")]
    Shipped(String),
    /// A setting is wrong. The text says how.
    #[error("{0}")]
    Setting(String),
    /// It can't be used, and nothing has changed.
    #[error(transparent)]
    Fault(#[from] PluginFault),
}

impl From<PluginFault> for OperationError {
    fn from(fault: PluginFault) -> Self {
        Self::Plugins(fault.into())
    }
}

impl From<TaskError> for OperationError {
    fn from(error: TaskError) -> Self {
        Self::Agents(error.into())
    }
}

impl From<StartError> for OperationError {
    fn from(error: StartError) -> Self {
        Self::Agents(error.into())
    }
}

impl From<ToolpackError> for OperationError {
    fn from(error: ToolpackError) -> Self {
        Self::Toolpack(error)
    }
}
