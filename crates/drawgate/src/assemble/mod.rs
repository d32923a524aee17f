//! From configuration to a gateway: the only place that sees all parts.

mod keys;
mod restart;
mod sources;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use drawgate_core::audit::{EventDraft, EventKind};
use drawgate_core::model::{CapabilityGrant, Principal, SourceId};
use drawgate_core::pipeline::{Gateway, GatewayParts, GatewaySettings};
use drawgate_core::policy::{Approvals, ApprovalsConfig, Grants, Rules, standing_grants};
use drawgate_core::redact::Redactor;
use drawgate_core::registry::{Keeper, Registry, SourceTerms};
use drawgate_core::secret::Secret;
use drawgate_core::store::{Agent, AuditLog, Store};
use drawgate_host::Host;
use drawgate_host::secrets::Secrets;
use drawgate_host::store::{
    ArtifactLimits, AuditOptions, DataDir, DataDirLock, Durability, FileArtifacts, OnAuditFailure,
    ResilientAudit, SqliteAudit, SqliteStore,
};
use parking_lot::Mutex;

use crate::config::{self, Config, Loaded};
use crate::operations::Operations;
use crate::surface::callers::Callers;

/// The file with the local user's token.
pub const ADMIN_TOKEN: &str = "admin.token";

/// The built-in tools need no time; this is for a machine that stands still.
const BUILTIN_TIME: Duration = Duration::from_secs(5);

/// Whether the sources of tools are started. Commands that only look at the data folder do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// All that is configured.
    Sources,
    /// None.
    Nothing,
}

/// A gateway, put together.
pub struct Assembly {
    /// What an operator can do to it.
    pub operations: Arc<Operations>,
    /// Its sources.
    pub keeper: Arc<Keeper>,
    /// Its audit log.
    pub audit: Arc<ResilientAudit>,
    /// Outputs that were too long to return.
    pub artifacts: Arc<FileArtifacts>,
    /// The machine.
    pub host: Arc<Host>,
    /// The data folder.
    pub data: PathBuf,
    /// The same, without its fallback.
    pub log: Arc<SqliteAudit>,
    start: Start,
    /// What the running sources were started with.
    servers: Mutex<BTreeMap<SourceId, (config::Server, SourceTerms)>>,
    builtin: Mutex<Option<(config::Builtin, SourceTerms)>>,
    /// The configuration at the start, for the sections that are read only then.
    at_start: Config,
    _lock: DataDirLock,
}

impl Assembly {
    /// Opens the data folder, which no other gateway may be using, and puts a gateway together.
    /// `redactor` learns every secret as it becomes known.
    pub async fn open(
        loaded: &Loaded,
        data: &Path,
        start: Start,
        redactor: Arc<ArcSwap<Redactor>>,
    ) -> anyhow::Result<Self> {
        let dir = DataDir::open(data)?;
        let lock = dir.exclusive()?;
        let secrets = Secrets::from_process();
        let admin = keys::admin_token(&dir.file(ADMIN_TOKEN))?;
        secrets.remember(admin.expose());
        let host = Arc::new(Host::new(secrets, std::env::current_exe().ok())?);
        teach(&redactor, &host);
        let Storage { store, log, audit, artifacts } = Storage::open(&dir, &loaded.config, &host)?;
        let agents = store.agents().await?;
        let standing = agents.iter().flat_map(standing_grants).chain(local_grants(&loaded.config));
        let key = keys::approval_key(&dir.file("approvals.key"))?;
        let (clock, ids) = (Arc::clone(&host.clock), Arc::clone(&host.ids));
        let approvals =
            Approvals::load(Arc::clone(&store), Arc::clone(&clock), Arc::clone(&ids), key);
        let parts = GatewayParts {
            registry: Arc::new(Registry::default()),
            grants: Arc::new(Grants::load(Arc::clone(&store), standing.collect()).await?),
            approvals: Arc::new(approvals.await?),
            rules: Arc::new(ArcSwap::from_pointee(rules(loaded)?)),
            redactor,
            settings: Arc::new(ArcSwap::from_pointee(settings(&loaded.config))),
            audit: audit.clone(),
            artifacts: artifacts.clone(),
            clock,
            ids,
        };
        let keeper = Arc::new(Keeper::new(Arc::clone(&parts.registry)));
        let callers = Arc::new(Callers::default());
        callers.set(&admin, &agents);
        let operations = Arc::new(Operations {
            gateway: Gateway::new(parts),
            store,
            callers,
            admin,
            acting: tokio::sync::Mutex::default(),
        });
        let assembly = Self {
            operations,
            keeper,
            audit,
            artifacts,
            host,
            data: data.to_owned(),
            log,
            start,
            servers: Mutex::default(),
            builtin: Mutex::default(),
            at_start: loaded.config.clone(),
            _lock: lock,
        };
        if start == Start::Sources {
            assembly.apply_builtin(loaded).await?;
            // They are there at once, and nobody should find them missing.
            assembly.keeper.settle(BUILTIN_TIME).await;
            assembly.apply_servers(loaded).await;
        }
        Ok(assembly)
    }

    /// The gate.
    #[must_use]
    pub fn gateway(&self) -> &Gateway {
        &self.operations.gateway
    }

    /// The local user's token.
    #[must_use]
    pub fn admin_token(&self) -> &Secret<String> {
        &self.operations.admin
    }

    /// Takes over an edited configuration. Rules, limits, the local user's capabilities and sources
    /// change at once, sources by a restart of those that the edit touches; one that can't be set
    /// up is reported and left out. What is read only at the start stays, and a warning names it.
    /// On an error nothing changes: the audit log must hold the event first.
    pub async fn apply(&self, loaded: &Loaded) -> anyhow::Result<()> {
        let rules = rules(loaded)?;
        let parts = self.gateway().parts();
        let now = self.host.clock.now_ms();
        let draft =
            EventDraft::new(EventKind::ConfigLoaded, now).text("configHash", &loaded.text_hash);
        parts.audit.append(draft).await.context("the audit log can't be written")?;
        parts.rules.store(Arc::new(rules));
        parts.settings.store(Arc::new(settings(&loaded.config)));
        parts.grants.stand(&Principal::local(), local_grants(&loaded.config)).await;
        if self.start == Start::Sources {
            // What can't be set up has been reported, and the rest is in force.
            let _ = self.apply_builtin(loaded).await;
            self.apply_servers(loaded).await;
        }
        restart::warn(&self.at_start, &loaded.config);
        Ok(())
    }

    /// Ends sources and closes the log. Calls under way should have ended.
    pub async fn close(&self) {
        self.keeper.close().await;
        self.audit.flush().await;
        if let Err(error) = self.log.close().await {
            tracing::error!(error = %error, "the audit log could not be closed");
        }
    }
}

/// What is kept in the data folder.
struct Storage {
    store: Arc<dyn Store>,
    log: Arc<SqliteAudit>,
    audit: Arc<ResilientAudit>,
    artifacts: Arc<FileArtifacts>,
}

impl Storage {
    fn open(dir: &DataDir, config: &Config, host: &Host) -> anyhow::Result<Self> {
        let durability = match config.audit.durability {
            config::Durability::Process => Durability::Process,
            config::Durability::Power => Durability::Power,
        };
        let options = AuditOptions {
            durability,
            checkpoint_every: config.audit.checkpoint_every,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            clock: Arc::clone(&host.clock),
        };
        let log = Arc::new(SqliteAudit::open(dir, options)?);
        let on_failure = match config.audit.on_audit_failure {
            config::AuditFailure::Memory => OnAuditFailure::Memory,
            config::AuditFailure::Refuse => OnAuditFailure::Refuse,
        };
        let appendable: Arc<dyn AuditLog> = log.clone();
        let limits = ArtifactLimits {
            quota: config.artifacts.quota_bytes,
            max_age_ms: config.artifacts.max_age_days.saturating_mul(24 * 60 * 60 * 1000),
        };
        Ok(Self {
            store: Arc::new(SqliteStore::open(dir, durability)?),
            log,
            audit: Arc::new(ResilientAudit::new(appendable, on_failure, Arc::clone(&host.clock))),
            artifacts: Arc::new(FileArtifacts::open(
                dir,
                durability,
                limits,
                Arc::clone(&host.clock),
            )?),
        })
    }
}

/// What the local user holds, by configuration.
fn local_grants(config: &Config) -> Vec<CapabilityGrant> {
    standing_grants(&Agent {
        name: Principal::local(),
        token_hash: String::new(),
        capabilities: config.local.capabilities.clone(),
        created_at: 0,
    })
}

fn rules(loaded: &Loaded) -> anyhow::Result<Rules> {
    let policy = &loaded.config.policy;
    let document = match (&policy.file, policy.inline()) {
        (Some(file), _) => {
            let path = loaded.resolve(file);
            let text = std::fs::read(&path)
                .with_context(|| format!("policy file `{}`", path.display()))?;
            let parsed = drawgate_core::json::parse(&text);
            Some(parsed.with_context(|| format!("policy file `{}`", path.display()))?)
        }
        (None, inline) => inline,
    };
    Ok(document.map(Rules::from_value).transpose()?.unwrap_or_default())
}

fn settings(config: &Config) -> GatewaySettings {
    let limits = &config.limits;
    GatewaySettings {
        max_timeout: Duration::from_secs(limits.max_timeout_seconds),
        max_calls: limits.max_concurrent_calls,
        max_calls_per_caller: limits.max_concurrent_calls_per_agent,
        max_argument_bytes: limits.max_argument_bytes as u64,
        approvals: ApprovalsConfig {
            ask: config.approvals.mode == config::ApprovalsMode::Ask,
            hold: Duration::from_secs(config.approvals.hold_seconds),
            expire: Duration::from_secs(config.approvals.expire_seconds),
        },
        keep_payloads: config.audit.payloads == config::Payloads::Redacted,
    }
}

/// Keeps a redactor up to date with what is known to be secret.
fn teach(redactor: &Arc<ArcSwap<Redactor>>, host: &Arc<Host>) {
    let build = |host: &Host| {
        let known = host.secrets.known_values();
        Arc::new(Redactor::new(known.iter().map(String::as_str)))
    };
    redactor.store(build(host));
    let (host, redactor) = (Arc::downgrade(host), Arc::downgrade(redactor));
    let Some(mut changes) = host.upgrade().map(|host| host.secrets.watch()) else { return };
    changes.mark_changed();
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            let (Some(host), Some(redactor)) = (host.upgrade(), redactor.upgrade()) else { return };
            redactor.store(build(&host));
        }
    });
}
