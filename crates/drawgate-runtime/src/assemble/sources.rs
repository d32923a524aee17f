//! Sources from configuration: what is new is started, what is gone is ended, what changed is both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use drawgate_core::model::{Capability, SourceId};
use drawgate_core::registry::{
    Absence, Holder, Limits, Naming, Origin, SourceState, SourceTerms, ToolTerms, Trust, Validation,
};
use drawgate_core::store::StoreError;
use drawgate_host::sandbox::{Profile, ResourceLimits};
use drawgate_sources::builtin::{BuiltinConfig, BuiltinSource};
use drawgate_sources::confine::check_writable;
use drawgate_sources::server::ServerConfig;
use serde_json::json;

use super::{Runtime, confine};
use crate::config::{self, Config, Loaded, Names, Server, ToolSettings, Transport};

/// What a server is started with, and under which terms.
#[derive(Clone, PartialEq)]
pub(super) struct Wanted {
    /// What its process or connection is made from: with anything else it is started again.
    pub(super) server: Server,
    sandbox: ResourceLimits,
    /// What its tools are registered under: with anything else they are registered again.
    terms: SourceTerms,
}

impl Wanted {
    fn of(loaded: &Loaded, server: &Server) -> Self {
        let bare = server.without_terms();
        Self { terms: terms(loaded, server), sandbox: loaded.config.sandbox, server: bare }
    }

    fn is_made_like(&self, other: &Self) -> bool {
        let boxes =
            self.server.connection.transport() != Transport::Stdio || self.sandbox == other.sandbox;
        self.server == other.server && boxes && self.terms.identity == other.terms.identity
    }
}

impl Runtime {
    /// Asks the store for what other terms of running sources need.
    pub(super) async fn prepare_terms(&self, loaded: &Loaded) -> Result<(), StoreError> {
        let before = self.servers.lock().clone();
        for (id, new) in wanted(loaded) {
            if before.get(&id).is_some_and(|old| old.is_made_like(&new) && *old != new) {
                self.keeper.prepare_terms(&id, &new.terms).await?;
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
            && self.keeper.set_terms(&id, terms.clone()).await
        {
            return Ok(());
        }
        self.keeper.remove(&id).await;
        let Some((builtin, terms)) = wanted else { return Ok(()) };
        let workspace = confine::workspace(loaded, &self.data);
        let settings = BuiltinConfig { workspace, unprotected: builtin.unprotected };
        let source = BuiltinSource::new(id.clone(), &settings, &self.host);
        let added = source
            .map_err(anyhow::Error::from)
            .and_then(|source| Ok(self.keeper.add(Arc::new(source), terms, Origin::Declared)?));
        added.inspect_err(|error| self.report_unusable(&id, &[], error))
    }

    /// Brings the running servers in line with the configuration. A server that can't be set up is
    /// reported and left out; those that are made from the same stay, under the terms that they have
    /// now.
    pub(super) async fn apply_servers(&self, loaded: &Loaded) {
        let _turn = self.changing.lock().await;
        let config = &loaded.config;
        let wanted = wanted(loaded);
        let before = std::mem::replace(&mut *self.servers.lock(), wanted.clone());
        // What an operator configures goes before what has dialled in.
        let ids = config.servers.keys().cloned().chain(builtin()).collect();
        self.keeper.reserve(Holder::Server, ids).await;
        let stays =
            |id: &SourceId, old: &Wanted| wanted.get(id).is_some_and(|new| old.is_made_like(new));
        for (id, _) in before.iter().filter(|(id, old)| !stays(id, old)) {
            self.keeper.remove(id).await;
        }
        let mut refused = Vec::new();
        for (id, new) in wanted.iter().filter(|(id, new)| before.get(*id) != Some(new)) {
            if self.keeper.set_terms(id, new.terms.clone()).await {
                refused.extend(self.is_refused(id).then_some((id, new)));
            } else if let Err(error) = self.start_server(loaded, id, new) {
                self.report_unusable(id, &new.terms.capabilities, &error);
            }
        }
        self.keeper.registry().set_aside(Holder::Server, disabled(config));
        // A name that it wants may have been given up by one that came after it.
        for (id, new) in refused {
            self.keeper.set_terms(id, new.terms.clone()).await;
        }
    }

    fn is_refused(&self, id: &SourceId) -> bool {
        let statuses = self.keeper.status();
        statuses.iter().any(|status| status.id == *id && status.state == SourceState::Refused)
    }

    /// Starts a server again that is not at work.
    pub(super) async fn start_again(&self, id: &SourceId) {
        let _turn = self.changing.lock().await;
        let statuses = self.keeper.status();
        if statuses.iter().any(|status| status.id == *id && status.state == SourceState::Ready) {
            return;
        }
        let Some(wanted) = self.servers.lock().get(id).cloned() else { return };
        let loaded = self.in_force.lock().clone();
        self.keeper.remove(id).await;
        if let Err(error) = self.start_server(&loaded, id, &wanted) {
            self.report_unusable(id, &wanted.terms.capabilities, &error);
        }
    }

    fn report_unusable(&self, id: &SourceId, capabilities: &[Capability], error: &anyhow::Error) {
        tracing::error!(source = %id, error = format!("{error:#}"), "server could not be set up");
        self.keeper.report_unusable(id, capabilities, format!("{error:#}"));
    }

    fn start_server(&self, loaded: &Loaded, id: &SourceId, wanted: &Wanted) -> anyhow::Result<()> {
        let server = &wanted.server;
        if let Some(reason) = loaded.withheld(server) {
            bail!(reason);
        }
        let settings = server.settings(loaded.config.kinds)?;
        let origin = match settings.declared() {
            Some(_) => Origin::Declared,
            None => Origin::Discovered,
        };
        let source = settings.build(id.clone(), self.server(loaded, id, server)?, &self.host)?;
        self.keeper.add(source, wanted.terms.clone(), origin)?;
        Ok(())
    }

    /// A server as its source is made for it: paths absolute, its program in the sandbox. References
    /// stay references, which the source follows.
    fn server(
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
        if sandbox.profile != Profile::None {
            connection.args = confine::arguments(&connection.args);
        }
        Ok(ServerConfig { connection, sandbox: Some(sandbox), hosts: None })
    }
}

/// The servers that are to run.
fn wanted(loaded: &Loaded) -> BTreeMap<SourceId, Wanted> {
    let servers = loaded.config.servers.iter().filter(|(_, server)| server.enabled);
    servers.map(|(id, server)| (id.clone(), Wanted::of(loaded, server))).collect()
}

/// The servers that are not, by the operator's word.
fn disabled(config: &Config) -> BTreeMap<SourceId, Absence> {
    let servers = config.servers.iter().filter(|(_, server)| !server.enabled);
    let absence = |id, server: &Server| {
        Absence::new(id, &server.capabilities, "is disabled in the configuration")
    };
    servers.map(|(id, server)| (id.clone(), absence(id, server))).collect()
}

/// The id of the built-in tools, which is theirs even where they are switched off.
fn builtin() -> Option<SourceId> {
    SourceId::new("builtin").ok()
}

pub(super) fn base_terms(config: &Config) -> SourceTerms {
    let defaults = SourceTerms::default();
    SourceTerms {
        limits: Limits {
            timeout: Duration::from_secs(config.limits.timeout_seconds),
            max_output_bytes: config.limits.max_output_bytes,
            max_output_lines: config
                .limits
                .max_output_lines
                .unwrap_or(defaults.limits.max_output_lines),
        },
        actions: defaults
            .actions
            .iter()
            .cloned()
            .chain(config.policy.actions.iter().cloned())
            .collect(),
        require_action: config.policy.require_policy_action,
        ..defaults
    }
}

fn terms(loaded: &Loaded, server: &Server) -> SourceTerms {
    SourceTerms { identity: identity(loaded, server), ..declared_terms(&loaded.config, server) }
}

/// The operator's terms for a server's tools, whichever server it is.
pub(crate) fn declared_terms(config: &Config, server: &Server) -> SourceTerms {
    let base = base_terms(config);
    let tools = server.tools.iter().map(|(name, own)| (name.clone(), tool_terms(own)));
    SourceTerms {
        naming: match server.names {
            Names::Qualified => Naming::Qualified,
            Names::Flat => Naming::Flat,
        },
        capabilities: server.capabilities.clone(),
        limits: Limits {
            timeout: server.timeout_seconds.map_or(base.limits.timeout, Duration::from_secs),
            max_output_bytes: server.max_output_bytes.unwrap_or(base.limits.max_output_bytes),
            max_output_lines: server.max_output_lines.unwrap_or(base.limits.max_output_lines),
        },
        concurrency: server.concurrency.unwrap_or(base.concurrency),
        tools: tools.collect(),
        trust: match server.trust {
            config::Trust::Pin => Trust::Pin,
            config::Trust::Follow => Trust::Follow,
            config::Trust::Review => Trust::Review,
        },
        validation: match server.validation {
            config::Validation::Schema => Validation::Gate,
            config::Validation::Server => Validation::Source,
        },
        ..base
    }
}

/// The operator's terms for one tool.
pub(super) fn tool_terms(own: &ToolSettings) -> ToolTerms {
    ToolTerms {
        disabled: own.enabled == Some(false),
        // An empty list means what the server as a whole requires.
        capabilities: (!own.capabilities.is_empty()).then(|| own.capabilities.clone()),
        requires_confirmation: own.requires_confirmation,
        policy_action: own.policy_action.clone(),
        idempotent: own.idempotent == Some(true),
        description: own.description.clone(),
        timeout: own.timeout_seconds.map(Duration::from_secs),
        max_output_bytes: own.max_output_bytes,
        max_output_lines: own.max_output_lines,
        audience: None,
    }
}

/// Which server it is: what is started, or where it is.
fn identity(loaded: &Loaded, server: &Server) -> String {
    let connection = &server.connection;
    let folder = connection.working_dir.as_ref().map(|path| loaded.resolve(path));
    json!([connection.command, connection.args, folder, connection.url]).to_string()
}
