//! From configuration to a gateway: the only place that sees all parts.

mod confine;
mod door;
mod edits;
mod keys;
mod logins;
mod packs;
mod restart;
mod set_aside;
mod sources;
mod toolpacks;
mod trusted;

pub use edits::{Applied, ConfigStatus, Edits, InForce, Pending};
pub use logins::follow_logins;
pub(crate) use sources::declared_terms;
pub use toolpacks::{Toolpacks, complaint};
pub use trusted::trusted_paths;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use drawgate_core::acts::{Acts, ActsParts};
use drawgate_core::model::{CapabilityGrant, Principal, SourceId};
use drawgate_core::pipeline::{Gateway, GatewayParts, GatewaySettings};
use drawgate_core::policy::{Approvals, ApprovalsConfig, Expose, Grants, Rules, standing_grants};
use drawgate_core::redact::Redactor;
use drawgate_core::registry::{Keeper, Pins, Registry, SourceTerms};
use drawgate_core::secret::Secret;
use drawgate_core::store::{Agent, AuditLog, Documents, Store};
use drawgate_host::Host;
use drawgate_host::egress::{Authorities, HostRule};
use drawgate_host::seal::SealingKey;
use drawgate_host::store::{
    ArtifactLimits, AuditOptions, DataDir, DataDirLock, Durability, FileArtifacts, OnAuditFailure,
    ResilientAudit, SqliteAudit, SqliteStore,
};
use drawgate_sources::mcp::oauth::Logins;
use parking_lot::Mutex;

use crate::config::{self, Config, Loaded};
use crate::operations::Operations;
use crate::surface::callers::Callers;
use crate::surface::mcp::tasks::Tasks;
use crate::telemetry::Anchors;
use edits::Files;

/// The key that logins and tasks are sealed with.
const SEALING_KEY: &str = "sealing.key";

/// The file with the local user's token.
pub const ADMIN_TOKEN: &str = "admin.token";

/// How long the signed head that is kept outside the audit log may lag behind it.
const HEAD_PAUSE: Duration = Duration::from_millis(200);

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
    /// The configuration in force, and the edit that is not.
    pub edits: Arc<Edits>,
    /// Where its head is sent.
    pub anchors: Anchors,
    start: Start,
    /// What the running sources were started with.
    servers: Mutex<BTreeMap<SourceId, sources::Wanted>>,
    builtin: Mutex<Option<(config::Builtin, SourceTerms)>>,
    /// The configuration in force, for servers that are started again.
    in_force: Mutex<Loaded>,
    /// Where people decide about calls, once there is such a place.
    pages: OnceLock<String>,
    /// One change of the servers at a time.
    changing: tokio::sync::Mutex<()>,
    /// The configuration at the start, for the sections that are read only then.
    at_start: Config,
    _lock: DataDirLock,
}

impl Assembly {
    /// Opens the data folder, which no other gateway may be using, and puts a gateway together on this
    /// host.
    /// `redactor` learns every secret as it becomes known.
    pub async fn open(
        mut host: Host,
        loaded: &Loaded,
        data: &Path,
        start: Start,
        redactor: Arc<ArcSwap<Redactor>>,
    ) -> anyhow::Result<Self> {
        let dir = DataDir::open(data)?;
        let lock = dir.exclusive()?;
        let admin = keys::admin_token(&dir.file(ADMIN_TOKEN))?;
        host.secrets.remember(admin.expose());
        host.processes.trusted().replace(trusted_paths(loaded, data, &host.processes));
        teach(&redactor, &host);
        let Storage { store, documents, log, audit, artifacts } =
            Storage::open(&dir, &loaded.config, &host)?;
        host.processes = set_aside::noted(&host, audit.clone(), Arc::clone(&redactor));
        let sealing = SealingKey::new(&keys::sealing_key(&dir.file(SEALING_KEY))?)?;
        let acts = acts(&store, &log, &host, &redactor);
        let logins = hold_logins(&mut host, &documents, &acts, &sealing);
        let host = Arc::new(host);
        let (edits, rules) = open_files(&host, loaded)?;
        let agents = store.agents().await?;
        let books = Books { store: &store, agents: &agents, dir: &dir };
        let parts = books.parts(&loaded.config, rules, redactor, &host, &audit, &artifacts).await?;
        let pins = pins(&documents, &audit, &acts, &host);
        let keeper = Arc::new(Keeper::new(parts.registry.clone(), pins));
        let gateway = Gateway::new(parts);
        let door = door::open(loaded, &dir, &host, &audit, start)?;
        let packs = packs::open(&loaded.config, &gateway, &keeper, &host, &door);
        let parts = toolpacks::Parts::of(&host, &keeper, &audit, &documents);
        let toolpacks = Toolpacks::new(parts, data, start, loaded);
        let operations = Arc::new(Operations {
            gateway,
            store,
            documents,
            logins,
            sealing,
            callers: callers(&loaded.config, &admin, &agents),
            toolpacks,
            door,
            packs,
            admin,
            acts,
        });
        operations.settle().await;
        let assembly = Self {
            operations,
            keeper,
            audit,
            artifacts,
            anchors: Anchors::new(&loaded.config.audit, &log, &host),
            host,
            data: data.to_owned(),
            log,
            edits,
            start,
            servers: Mutex::default(),
            builtin: Mutex::default(),
            in_force: Mutex::new(loaded.clone()),
            pages: OnceLock::new(),
            changing: tokio::sync::Mutex::default(),
            at_start: loaded.config.clone(),
            _lock: lock,
        };
        assembly.apply_logins(loaded, assembly.operations.logins.stored().await?);
        assembly.start_sources(loaded).await;
        Ok(assembly)
    }

    /// Starts what is configured, if anything is to be started.
    async fn start_sources(&self, loaded: &Loaded) {
        if self.start == Start::Nothing {
            return;
        }
        // What can't be set up has been reported.
        let _ = self.apply_builtin(loaded).await;
        // They are there at once, and nobody should find them missing.
        self.keeper.settle(BUILTIN_TIME).await;
        self.apply_servers(loaded).await;
        self.operations.toolpacks.refresh().await;
    }

    /// The gate.
    #[must_use]
    pub fn gateway(&self) -> &Gateway {
        &self.operations.gateway
    }

    /// The calls that nobody waits for; those of earlier runs are taken up again.
    pub async fn tasks(&self, config: &Config) -> anyhow::Result<Tasks> {
        let operations = &self.operations;
        let after = Duration::from_secs(config.limits.task_after_seconds);
        let (documents, key) = (Arc::clone(&operations.documents), operations.sealing.clone());
        Tasks::load(operations.gateway.clone(), documents, key, after).await
    }

    /// The local user's token.
    #[must_use]
    pub fn admin_token(&self) -> &Secret<String> {
        &self.operations.admin
    }

    /// From now on people can be sent to pages at this address to decide about calls.
    pub fn serve_pages(&self, address: String) {
        let page = self.pages.get_or_init(|| address);
        let settings = &self.gateway().parts().settings;
        let mut next = GatewaySettings::clone(&settings.load());
        next.approval_page = Some(page.clone());
        settings.store(Arc::new(next));
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

/// What a gate is made from.
struct Books<'a> {
    store: &'a Arc<dyn Store>,
    agents: &'a [Agent],
    dir: &'a DataDir,
}

impl Books<'_> {
    async fn parts(
        &self,
        config: &Config,
        rules: Rules,
        redactor: Arc<ArcSwap<Redactor>>,
        host: &Host,
        audit: &Arc<ResilientAudit>,
        artifacts: &Arc<FileArtifacts>,
    ) -> anyhow::Result<GatewayParts> {
        let standing = self.agents.iter().flat_map(standing_grants).chain(local_grants(config));
        let key = keys::approval_key(&self.dir.file("approvals.key"))?;
        let (clock, ids) = (Arc::clone(&host.clock), Arc::clone(&host.ids));
        let store = || Arc::clone(self.store);
        let approvals = Approvals::load(store(), Arc::clone(&clock), Arc::clone(&ids), key);
        let parts = GatewayParts {
            registry: Arc::new(Registry::default()),
            grants: Arc::new(Grants::load(store(), standing.collect()).await?),
            approvals: Arc::new(approvals.await?),
            exposures: Arc::default(),
            rules: Arc::new(ArcSwap::from_pointee(rules)),
            redactor,
            settings: Arc::new(ArcSwap::from_pointee(settings(config, None))),
            audit: audit.clone(),
            artifacts: artifacts.clone(),
            clock,
            ids,
        };
        parts.exposures.set_agents(self.agents);
        parts.exposures.set(&Principal::local(), config.local.expose.into());
        Ok(parts)
    }
}

/// What is kept in the data folder.
struct Storage {
    store: Arc<dyn Store>,
    documents: Arc<dyn Documents>,
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
            head_pause: HEAD_PAUSE,
            payload_quota: config.audit.payload_quota_bytes,
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
        let store = Arc::new(SqliteStore::open(dir, durability)?);
        Ok(Self {
            documents: store.clone(),
            store,
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

fn callers(config: &Config, admin: &Secret<String>, agents: &[Agent]) -> Arc<Callers> {
    let callers = Arc::new(Callers::new(config.auth.as_ref()));
    callers.set(admin, agents);
    callers
}

fn acts(
    store: &Arc<dyn Store>,
    log: &Arc<SqliteAudit>,
    host: &Host,
    redactor: &Arc<ArcSwap<Redactor>>,
) -> Acts {
    Acts::new(ActsParts {
        store: Arc::clone(store),
        log: log.clone(),
        clock: Arc::clone(&host.clock),
        ids: Arc::clone(&host.ids),
        redactor: Arc::clone(redactor),
    })
}

/// The logins, which the machine's sources use too.
fn hold_logins(
    host: &mut Host,
    documents: &Arc<dyn Documents>,
    acts: &Acts,
    sealing: &SealingKey,
) -> Arc<Logins> {
    let logins = Logins::new(host, Arc::clone(documents), acts.clone(), sealing.clone());
    let logins = Arc::new(logins);
    host.credentials = Some(logins.clone());
    logins
}

fn pins(
    documents: &Arc<dyn Documents>,
    audit: &Arc<ResilientAudit>,
    acts: &Acts,
    host: &Host,
) -> Pins {
    Pins {
        documents: Arc::clone(documents),
        audit: audit.clone(),
        acts: acts.clone(),
        clock: Arc::clone(&host.clock),
    }
}

/// What the local user holds, by configuration.
fn local_grants(config: &Config) -> Vec<CapabilityGrant> {
    standing_grants(&Agent {
        name: Principal::local(),
        token_hash: String::new(),
        capabilities: config.local.capabilities.clone(),
        created_at: 0,
        expose: Expose::All,
    })
}

/// Reads what the configuration says in other files, and sets up the machine as it says.
fn open_files(host: &Host, loaded: &Loaded) -> anyhow::Result<(Arc<Edits>, Rules)> {
    let files = Files::read(loaded)?;
    let edits = Edits::new(loaded, &files);
    host.egress.allow(allowed_hosts(&loaded.config));
    host.egress.trust(files.authorities);
    host.processes.limit_memory(loaded.config.limits.sandbox_memory_mb);
    Ok((edits, files.rules))
}

/// Hosts that the operator opens to tools, wherever they are. The configuration has been checked.
fn allowed_hosts(config: &Config) -> Vec<HostRule> {
    let rules = config.egress.allow.iter().filter_map(|text| text.parse::<HostRule>().ok());
    rules.map(HostRule::anywhere).collect()
}

/// Whom the operator trusts to vouch for servers, beside the authorities of this machine.
pub(crate) fn authorities(loaded: &Loaded) -> anyhow::Result<Authorities> {
    authorities_and_text(loaded).map(|(authorities, _)| authorities)
}

/// The same, with the text of their file.
fn authorities_and_text(loaded: &Loaded) -> anyhow::Result<(Authorities, Vec<u8>)> {
    let Some(file) = &loaded.config.egress.ca_file else {
        return Ok((Authorities::default(), Vec::new()));
    };
    let path = loaded.resolve(file);
    let named = || format!("`egress.ca_file`, `{}`", path.display());
    let text = std::fs::read(&path).with_context(named)?;
    Ok((Authorities::from_pem(&text).with_context(named)?, text))
}

/// The rules in force, with the text of their file.
fn rules(loaded: &Loaded) -> anyhow::Result<(Rules, Vec<u8>)> {
    let policy = &loaded.config.policy;
    let (document, text) = match (&policy.file, policy.inline()) {
        (Some(file), _) => {
            let path = loaded.resolve(file);
            let text = std::fs::read(&path)
                .with_context(|| format!("policy file `{}`", path.display()))?;
            let parsed = drawgate_core::json::parse(&text);
            (Some(parsed.with_context(|| format!("policy file `{}`", path.display()))?), text)
        }
        (None, inline) => (inline, Vec::new()),
    };
    Ok((document.map(Rules::from_value).transpose()?.unwrap_or_default(), text))
}

fn settings(config: &Config, pages: Option<&String>) -> GatewaySettings {
    let limits = &config.limits;
    GatewaySettings {
        max_timeout: Duration::from_secs(limits.max_timeout_seconds),
        max_task_time: Duration::from_secs(limits.max_task_seconds),
        max_calls: limits.max_concurrent_calls,
        max_calls_per_caller: limits.max_concurrent_calls_per_agent,
        max_argument_bytes: limits.max_argument_bytes as u64,
        approvals: ApprovalsConfig {
            ask: config.approvals.mode == config::ApprovalsMode::Ask,
            hold: Duration::from_secs(config.approvals.hold_seconds),
            expire: Duration::from_secs(config.approvals.expire_seconds),
        },
        approval_page: pages.cloned(),
        keep_payloads: config.audit.payloads == config::Payloads::Redacted,
        payload_bytes: config.audit.payload_bytes,
        payload_quota_bytes: config.audit.payload_quota_bytes,
    }
}

/// Keeps a redactor up to date with what is known to be secret.
fn teach(redactor: &Arc<ArcSwap<Redactor>>, host: &Host) {
    let redactor = Arc::downgrade(redactor);
    host.secrets.tell(move |known| {
        if let Some(redactor) = redactor.upgrade() {
            redactor.store(Arc::new(Redactor::new(known.iter().copied())));
        }
    });
}
