//! Sources from configuration: what is new is started, what is gone is ended, what changed is both.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use drawgate_core::model::{Capability, SourceId};
use drawgate_core::registry::{Absence, Holder, Naming, Origin, SourceState, SourceTerms};
use drawgate_core::store::StoreError;
use drawgate_host::sandbox::ResourceLimits;
use drawgate_sources::builtin::{BuiltinConfig, BuiltinSource};
use drawgate_sources::confine::check_writable;
use drawgate_sources::server::{DeclaredRole, ServerConfig};
use serde_json::json;
use tokio::sync::mpsc;

use super::packages::InstalledPackage;
use super::{Runtime, confine};
use crate::agents;
use crate::config::{Config, Loaded, Server, Transport, base_terms, declared_terms};
use crate::operations::Restart;

/// How a server is to run: its configuration and its terms.
#[derive(Clone, PartialEq)]
pub(super) struct ServerPlan {
    /// What its process or connection is made from: with anything else it is started again.
    pub(super) server: Server,
    sandbox: ResourceLimits,
    /// What it runs from, if a package runner starts it, or why it can't.
    package: Result<Option<InstalledPackage>, String>,
    /// What its tools are registered under: with anything else they are registered again.
    terms: SourceTerms,
}

impl ServerPlan {
    fn of(loaded: &Loaded, id: &SourceId, server: &Server) -> Self {
        Self {
            server: server.without_terms(loaded.config.kinds),
            sandbox: loaded.config.sandbox,
            package: InstalledPackage::of(loaded, id, server),
            terms: terms(loaded, server),
        }
    }

    fn starts_same_as(&self, other: &Self) -> bool {
        let boxes =
            self.server.connection.transport() != Transport::Stdio || self.sandbox == other.sandbox;
        self.server == other.server
            && self.package == other.package
            && boxes
            && self.terms.identity == other.terms.identity
    }
}

/// Starts servers again when an operator asks for it.
pub(crate) async fn follow_restarts(runtime: Arc<Runtime>, mut requests: mpsc::Receiver<Restart>) {
    while let Some(Restart { id, done }) = requests.recv().await {
        let is_known = runtime.restart(&id).await;
        // Whoever asked may have gone away.
        let _ = done.send(is_known);
    }
}

impl Runtime {
    /// Asks the store for what other terms of running sources need.
    pub(super) async fn prepare_terms(&self, loaded: &Loaded) -> Result<(), StoreError> {
        let before = self.servers.lock().clone();
        for (id, new) in plans(loaded) {
            if before.get(&id).is_some_and(|old| old.starts_same_as(&new) && *old != new) {
                self.supervisor().prepare_terms(&id, &new.terms).await?;
            }
        }
        Ok(())
    }

    /// Brings the built-in tools in line with the configuration.
    pub(super) async fn apply_builtin(&self, loaded: &Loaded) -> anyhow::Result<()> {
        let builtin = loaded.config.builtin.clone();
        let terms = SourceTerms { naming: Naming::Flat, ..base_terms(&loaded.config) };
        let wanted = builtin.enabled.then_some((builtin, terms));
        let before = std::mem::replace(&mut *self.builtin.lock(), wanted.clone());
        if before == wanted {
            return Ok(());
        }
        let id = SourceId::new("builtin")?;
        if let (Some((before, _)), Some((builtin, terms))) = (&before, &wanted)
            && before == builtin
            && self.supervisor().set_terms(&id, terms.clone()).await
        {
            return Ok(());
        }
        self.supervisor().remove(&id).await;
        let Some((builtin, terms)) = wanted else { return Ok(()) };
        let workspace = loaded.workspace(&self.data);
        let settings = BuiltinConfig { workspace, unprotected: builtin.unprotected };
        let source = BuiltinSource::new(id.clone(), &settings, &self.host);
        let added = source.map_err(anyhow::Error::from).and_then(|source| {
            Ok(self.supervisor().add(Arc::new(source), terms, Origin::Declared)?)
        });
        added.inspect_err(|error| self.report_unusable(&id, &[], error))
    }

    /// Brings the running servers in line with the configuration. A server that can't be set up is
    /// reported and left out; those that are made from the same stay, under the terms that they have
    /// now.
    pub(super) async fn apply_servers(&self, loaded: &Loaded) {
        let _turn = self.changing.lock().await;
        let config = &loaded.config;
        let plans = plans(loaded);
        let before = std::mem::replace(&mut *self.servers.lock(), plans.clone());
        let stays = |id: &SourceId, old: &ServerPlan| {
            plans.get(id).is_some_and(|new| old.starts_same_as(new))
        };
        for (id, _) in before.iter().filter(|(id, old)| !stays(id, old)) {
            self.supervisor().remove(id).await;
        }
        let mut refused = Vec::new();
        for (id, new) in plans.iter().filter(|(id, new)| before.get(*id) != Some(new)) {
            if self.supervisor().set_terms(id, new.terms.clone()).await {
                refused.extend(self.is_refused(id).then_some((id, new)));
            } else if let Err(error) = self.start_server(loaded, id, new) {
                self.report_unusable(id, &new.terms.capabilities, &error);
            }
        }
        self.supervisor().registry().set_aside(Holder::Server, disabled(config));
        // A name that it wants may have been given up by one that came after it.
        for (id, new) in refused {
            self.supervisor().set_terms(id, new.terms.clone()).await;
        }
    }

    /// Keeps the ids of the configuration's servers for them: what an operator configures goes before
    /// all other sources.
    pub(super) async fn reserve_servers(&self, loaded: &Loaded) {
        let ids = loaded.config.servers.keys().cloned().chain(own_ids()).collect();
        self.supervisor().reserve(Holder::Server, ids).await;
    }

    fn is_refused(&self, id: &SourceId) -> bool {
        let statuses = self.supervisor().status();
        statuses.iter().any(|status| status.id == *id && status.state == SourceState::Refused)
    }

    /// Starts a server again that is not at work.
    pub(super) async fn start_again(&self, id: &SourceId) {
        let _turn = self.changing.lock().await;
        let statuses = self.supervisor().status();
        if !statuses.iter().any(|status| status.id == *id && status.state == SourceState::Ready) {
            self.set_up_again(id).await;
        }
    }

    /// Ends a server and starts it again. `false` if the configuration has no such server.
    async fn restart(&self, id: &SourceId) -> bool {
        let _turn = self.changing.lock().await;
        self.set_up_again(id).await
    }

    async fn set_up_again(&self, id: &SourceId) -> bool {
        let Some(plan) = self.servers.lock().get(id).cloned() else { return false };
        let loaded = self.in_force.lock().clone();
        self.supervisor().remove(id).await;
        if let Err(error) = self.start_server(&loaded, id, &plan) {
            self.report_unusable(id, &plan.terms.capabilities, &error);
        }
        true
    }

    fn report_unusable(&self, id: &SourceId, capabilities: &[Capability], error: &anyhow::Error) {
        tracing::error!(source = %id, error = format!("{error:#}"), "server could not be set up");
        self.supervisor().report_unusable(id, capabilities, format!("{error:#}"));
    }

    fn start_server(
        &self,
        loaded: &Loaded,
        id: &SourceId,
        plan: &ServerPlan,
    ) -> anyhow::Result<()> {
        let server = &plan.server;
        let package = plan.package.as_ref().map_err(|reason| anyhow!("{reason}"))?.as_ref();
        let settings = server.settings(loaded.config.kinds)?;
        let origin = match settings.declared() {
            Some(_) => Origin::Declared,
            None => Origin::Discovered,
        };
        let source = match package {
            None => settings.build(id.clone(), self.server(loaded, id, server)?, &self.host)?,
            Some(package) => {
                let installed = package.installed(&self.data, id, server)?;
                let host = package.checking(&self.data, id, &self.host);
                settings.build(id.clone(), self.server(loaded, id, &installed)?, &host)?
            }
        };
        self.supervisor().add(source, plan.terms.clone(), origin)?;
        Ok(())
    }

    /// A server as its source is made for it: paths absolute, its program in the sandbox. References
    /// stay references, which the source follows.
    pub(super) fn server(
        &self,
        loaded: &Loaded,
        id: &SourceId,
        server: &Server,
    ) -> anyhow::Result<ServerConfig> {
        let mut connection = server.connection.clone();
        connection.working_dir = connection.working_dir.map(|path| loaded.resolve(&path));
        if connection.transport() != Transport::Stdio {
            return Ok(ServerConfig { connection, sandbox: None, hosts: None });
        }
        for (field, folder) in confine::writable(loaded, &self.data, id, server) {
            check_writable(self.host.processes.trusted(), field, &folder)?;
        }
        let sandbox = self.sandbox(loaded, id, server).context("its folder can't be made")?;
        Ok(ServerConfig { connection, sandbox: Some(sandbox), hosts: None })
    }
}

/// The servers that are to run.
fn plans(loaded: &Loaded) -> BTreeMap<SourceId, ServerPlan> {
    let servers = loaded.config.servers.iter().filter(|(_, server)| server.enabled);
    servers.map(|(id, server)| (id.clone(), ServerPlan::of(loaded, id, server))).collect()
}

/// What callers of a disabled server hear.
pub const DISABLED_SERVER: &str = "is disabled in the configuration";

/// The servers that are not, by the operator's word.
fn disabled(config: &Config) -> BTreeMap<SourceId, Absence> {
    let servers = config.servers.iter().filter(|(_, server)| !server.enabled);
    let absence = |id, server: &Server| Absence::new(id, &server.capabilities, DISABLED_SERVER);
    servers.map(|(id, server)| (id.clone(), absence(id, server))).collect()
}

/// The ids of the gateway's own tools, which are theirs even where they are switched off.
fn own_ids() -> impl Iterator<Item = SourceId> {
    ["builtin", agents::SOURCE].into_iter().filter_map(|id| SourceId::new(id).ok())
}

fn terms(loaded: &Loaded, server: &Server) -> SourceTerms {
    let mut terms = declared_terms(&loaded.config, server);
    // A configuration in force has been read, its definitions too.
    if let Ok((tools, DeclaredRole::Terms)) = server.declared_tools(loaded.config.kinds) {
        for tool in tools {
            let own = terms.tools.entry(tool.name.clone()).or_default();
            own.declared = Some(tool);
        }
    }
    SourceTerms { identity: identity(loaded, server), ..terms }
}

/// Which server it is: what is started, or where it is.
fn identity(loaded: &Loaded, server: &Server) -> String {
    let connection = &server.connection;
    let folder = connection.working_dir.as_ref().map(|path| loaded.resolve(path));
    json!([connection.command, connection.args, folder, connection.url]).to_string()
}
