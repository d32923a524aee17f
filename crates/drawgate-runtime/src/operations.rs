//! Everything that an operator can do to a gateway, or look at: one file for each kind of thing, with the
//! requests and answers that control socket, command line and pages share.
//!
//! Whoever acts is an argument, and is named in the audit log. Every act goes through [`Acts`], which
//! keeps the order: intent, store, memory, outcome.

mod agents;
mod approvals;
mod artifacts;
mod audit;
mod backup;
mod delegated;
mod error;
mod files;
mod grants;
mod keys;
mod packs;
mod plugins;
mod profiles;
mod providers;
mod reset;
mod runs;
mod servers;
mod status;
mod toolpacks;
mod tools;

pub use agents::{AddedAgent, AgentToken, NewAgent};
pub use approvals::{Decided, Decision, ExactArguments, ListedApproval, Reveal};
pub use audit::{Prune, Pruned, find_audit, search_audit};
pub use backup::{BackUp, BackedUp};
pub use delegated::Say;
pub use error::{AgentError, OperationError, PluginRefusal};
pub use grants::{IssueGrant, NewGrant};
pub use keys::{AddKey, GatewayKey, KeyFaultView, KeyListView, KeyOwner, KeyView, RemoveKeys};
pub use packs::PackDetails;
pub use plugins::{
    AddPlugin, ConfigurePlugin, FileChange, PluginPreview, PluginSource, PluginState, ShownPlugin,
};
pub use profiles::{AcceptProfile, ProfileChange, ShownProfile};
pub use providers::{ProviderReport, ProviderState};
pub use reset::ResetSummary;
pub use runs::{RunEvents, RunEventsQuery, StartRun, StartedRun};
pub use servers::{
    Accept, LogQuery, Refusal, Restart, Review, ServerLog, ServerReport, ServersQuery,
    SourceReport, StartedLogin,
};
pub use status::{FailedSource, Status, Waiting};
pub use toolpacks::{
    Commit, StateAfterUpdate, ToolpackList, ToolpackToolView, ToolpackView, tools_of,
};
pub use tools::{ListedTool, NewCall, ServedBy, ToolAccess};

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use drawgate_core::acts::Acts;
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::Principal;
use drawgate_core::pipeline::{Gateway, GatewayControl};
use drawgate_core::registry::SourceSupervisor;
use drawgate_core::secret::Secret;
use drawgate_core::store::{AuditLog, Documents, Store};
use drawgate_host::seal::SealingKey;
use drawgate_sources::mcp::oauth::Logins;
use tokio::sync::mpsc;

use crate::agents::Agents;
use crate::callers::Callers;
use crate::packs::Packs;
use crate::peers::PeerAuthenticator;
use crate::plugins::PluginTable;
use crate::profiles::Profiles;
use crate::providers::Providers;
use crate::tasks::Tasks;
use crate::toolpack_sources::Toolpacks;

/// Everything that an operator can do to a gateway, or look at.
pub struct Operations {
    /// The gate.
    pub gateway: Gateway,
    /// The handle by which acts change it.
    pub(crate) control: GatewayControl,
    /// Its sources.
    pub(crate) supervisor: Arc<SourceSupervisor>,
    /// Its audit log.
    pub(crate) audit: Arc<dyn AuditLog>,
    /// Where agents are kept.
    pub store: Arc<dyn Store>,
    /// Where pins, tasks and logins are kept.
    pub documents: Arc<dyn Documents>,
    /// Logins at protected servers.
    pub logins: Arc<Logins>,
    /// What logins and tasks are sealed with.
    pub sealing: SealingKey,
    /// Who has a token.
    pub callers: Arc<Callers>,
    /// Installed toolpacks.
    pub toolpacks: Arc<Toolpacks>,
    /// Profiles of agents.
    pub profiles: Arc<Profiles>,
    /// Where packs and agents come in.
    pub authenticator: Arc<PeerAuthenticator>,
    /// The packs that have come in.
    pub packs: Arc<Packs>,
    /// The providers of models.
    pub providers: Arc<Providers>,
    /// Agents that the gateway runs itself.
    pub agents: Arc<Agents>,
    /// Plugins.
    pub plugins: Arc<PluginTable>,
    /// Its data folder, as an absolute path.
    pub(crate) data: PathBuf,
    /// When it was put together, in milliseconds since the epoch.
    pub(crate) started: u64,
    /// The local user's token.
    pub admin: Secret<String>,
    /// How acts are done.
    pub acts: Acts,
    /// Calls that go on without their client, where a surface offers that.
    pub tasks: OnceLock<Tasks>,
    /// The name under which the program calls that the gateway is a part of.
    pub embedder: Option<Principal>,
    /// Where servers are started again, once the gateway looks after itself.
    pub(crate) restarts: OnceLock<mpsc::Sender<Restart>>,
}

impl Operations {
    /// Writes down what the log is owed, as far as that is possible now.
    pub async fn settle(&self) {
        if let Err(error) = self.acts.settle(&*self.files()).await {
            tracing::warn!(%error, "outcomes of acts can't be written down yet");
        }
    }

    /// The event of an act.
    fn draft(&self, actor: &Principal, kind: EventKind) -> EventDraft {
        let now = self.gateway.clock().now_ms();
        EventDraft::new(kind, now).text("principal", actor.as_str())
    }
}

#[cfg(test)]
#[path = "operations_tests.rs"]
mod tests;
