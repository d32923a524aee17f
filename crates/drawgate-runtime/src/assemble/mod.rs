//! From configuration to a gateway: the only place that sees all parts.

mod apply;
mod authenticator;
mod confine;
mod hooks;
mod keys;
mod logins;
mod packages;
mod packs;
mod restart;
mod set_aside;
mod sources;
mod trusted;

pub use crate::start::Start;
pub(crate) use logins::follow_logins;
pub use sources::DISABLED_SERVER;
pub(crate) use sources::follow_restarts;
pub use trusted::{trusted_paths, writable_folders};

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use arc_swap::ArcSwap;
use drawgate_agents::runs::RunsParts;
use drawgate_agents::runs::programs::ProgramParts;
use drawgate_core::acts::{Acts, ActsParts};
use drawgate_core::model::{CapabilityGrant, McpManifest, McpToolSpec, Principal, SourceId};
use drawgate_core::pipeline::{Gateway, GatewayControl, GatewayParts, GatewaySettings};
use drawgate_core::policy::{Approvals, ApprovalsConfig, Expose, Grants, Rules, standing_grants};
use drawgate_core::redact::Redactor;
use drawgate_core::registry::{
    BadTool, Pins, RegistrationError, Registry, SourceSupervisor, SourceTerms, declared_faults,
};
use drawgate_core::secret::Secret;
use drawgate_core::source::ToolSource;
use drawgate_core::store::{
    Agent, ArtifactLimits, Artifacts, AuditLog, Documents, Storage, Store, StoreError,
};
use drawgate_host::Host;
use drawgate_host::egress::{Authorities, HostRule};
use drawgate_host::seal::SealingKey;
use drawgate_host::store::{
    self, DataDir, DataDirLock, Durability, OnAuditFailure, StorageChoice, StorageOptions,
};
use drawgate_host::trusted::Trusted;
use drawgate_host::user_files;
use drawgate_sources::mcp::oauth::Logins;
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::agents::{Agents, program_settings};
use crate::anchors::Anchors;
use crate::background::Background;
use crate::callers::Callers;
use crate::config::{self, Config, Loaded, base_terms};
use crate::edits::Edits;
use crate::operations::Operations;
use crate::plugins::{PluginTable, PluginTableParts};
use crate::profiles::Profiles;
use crate::providers::Providers;
use crate::tasks::{Format, Tasks};
use crate::toolpack_sources::{self, Toolpacks};
pub(crate) use apply::Files;

/// The file with the local user's token.
pub const ADMIN_TOKEN: &str = "admin.token";

/// How long the signed head that is kept outside the audit log may lag behind it.
const HEAD_PAUSE: Duration = Duration::from_millis(200);

/// The built-in tools need no time; this is for a machine that stands still.
const BUILTIN_TIME: Duration = Duration::from_secs(5);
/// How often a gateway that stops looks whether calls are under way.
const IDLE_PAUSE: Duration = Duration::from_millis(5);
/// How long reading the pins of all servers may take.
const REMEMBERED_TIME: Duration = Duration::from_secs(5);

/// A running gateway.
pub struct Runtime {
    /// What an operator can do to it.
    pub operations: Arc<Operations>,
    /// The machine.
    pub host: Arc<Host>,
    /// The data folder.
    pub data: PathBuf,
    /// The configuration in force, and the edit that is not.
    pub edits: Arc<Edits>,
    /// Where its head is sent.
    pub anchors: Anchors,
    start: Start,
    /// What the running sources were started with.
    servers: Mutex<BTreeMap<SourceId, sources::ServerPlan>>,
    builtin: Mutex<Option<(config::Builtin, SourceTerms)>>,
    /// The configuration in force, for servers that are started again.
    in_force: Mutex<Loaded>,
    /// The address of the approval pages, once they are served.
    pages: OnceLock<String>,
    /// One change of the servers at a time.
    changing: tokio::sync::Mutex<()>,
    /// The configuration at the start, for the sections that are read only then.
    at_start: Config,
    pub(crate) background: Background,
    _folder: HeldFolder,
}

/// The folder's lock, and what removes a temporary folder.
type HeldFolder = (DataDirLock, Option<TempDir>);

/// Where a gateway keeps its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateLocation {
    /// In a folder, which no other gateway may be using.
    Folder(PathBuf),
    /// In memory: it ends with the runtime. Keys, and the folders of sandboxed programs, are in a private
    /// temporary folder that is removed with it.
    Memory,
}

impl StateLocation {
    /// Opens the folder for files, with its lock and what removes it if it is a temporary one.
    fn open(self) -> anyhow::Result<(DataDir, HeldFolder)> {
        let (data, temporary) = match self {
            Self::Folder(data) => (data, None),
            Self::Memory => {
                let private = Permissions::from_mode(0o700);
                let folder =
                    tempfile::Builder::new().prefix("drawgate-").permissions(private).tempdir()?;
                (folder.path().to_owned(), Some(folder))
            }
        };
        let dir = DataDir::open(&data)?;
        let lock = dir.exclusive()?;
        Ok((dir, (lock, temporary)))
    }
}

/// The options for opening a [`Runtime`].
pub struct RuntimeOptions<'a> {
    /// The machine, with the environment and the launcher that the embedder gives.
    pub host: Host,
    /// The configuration.
    pub loaded: &'a Loaded,
    /// Where state is kept.
    pub state: StateLocation,
    /// Whether sources are started.
    pub start: Start,
    /// Updated with every secret that becomes known.
    pub redactor: Arc<ArcSwap<Redactor>>,
    /// The name under which a program calls that the gateway is a part of: grants can be issued to it.
    pub embedder: Option<Principal>,
}

impl Runtime {
    /// Opens the store and puts a gateway together.
    pub async fn open(options: RuntimeOptions<'_>) -> anyhow::Result<Self> {
        let in_memory = options.state == StateLocation::Memory;
        let open_store = |dir: &DataDir, options: &StorageOptions| {
            let choice =
                if in_memory { StorageChoice::Memory } else { StorageChoice::Folder(dir.clone()) };
            store::open(&choice, options)
        };
        Box::pin(Self::open_with(options, open_store)).await
    }

    /// The same, on a store that the caller opens.
    #[expect(
        clippy::too_many_lines,
        reason = "the parts, in the order in which they need each other"
    )]
    pub(crate) async fn open_with(
        RuntimeOptions { mut host, loaded, state, start, redactor, embedder }: RuntimeOptions<'_>,
        open_store: impl FnOnce(&DataDir, &StorageOptions) -> Result<Storage, StoreError>,
    ) -> anyhow::Result<Self> {
        let config = &loaded.config;
        let (dir, held) = state.open()?;
        let admin = prepare(&host, loaded, &dir, &redactor)?;
        let sealing = SealingKey::new(&keys::sealing_key(&dir)?)?;
        let storage = open_store(&dir, &storage_options(config, &host))?;
        let Storage { store, documents, log, audit, artifacts } = storage.clone();
        host.processes = set_aside::with_audit(&host, audit.clone(), Arc::clone(&redactor));
        let acts = acts(&store, &log, &host, &redactor);
        let logins = open_logins(&mut host, &documents, &acts, &sealing);
        let host = Arc::new(host);
        let (edits, rules) = open_files(&host, loaded)?;
        let agents = store.agents().await?;
        let inputs = GateInputs { store: &store, agents: &agents, dir: &dir };
        let parts = inputs.parts(config, rules, redactor, &host, &audit, &artifacts).await?;
        let supervisor = supervisor(&parts.registry, &documents, &audit, &acts, &host);
        let control = GatewayControl::new(parts);
        let authenticator = authenticator::open(loaded, &dir, &host, &audit, start)?;
        let packs = packs::open(config, control.gateway(), &supervisor, &host, &authenticator);
        let toolpacks =
            toolpack_sources::Parts::of(&host, &supervisor, &audit, &documents, &sealing);
        let profiles = Profiles::open(&*documents, loaded).await?;
        let providers = Arc::new(Providers::new(loaded, &host));
        let run_parts = RunsParts {
            gateway: control.gateway().clone(),
            storage,
            key: sealing.clone(),
            acts: acts.clone(),
            models: providers.clone(),
            settings: config.runs.clone(),
            programs: Some(programs(&host, &dir, loaded)),
        };
        let own_agents = Agents::new(run_parts, &profiles, &supervisor);
        let plugins =
            open_plugins(&own_agents, &control, &supervisor, &documents, &host, &dir).await?;
        let operations = Arc::new(Operations {
            gateway: control.gateway().clone(),
            control,
            supervisor,
            audit: audit.clone(),
            store,
            profiles,
            documents,
            logins,
            sealing,
            callers: callers(config, &admin, &agents),
            toolpacks: Toolpacks::new(toolpacks, dir.path(), start, loaded),
            authenticator,
            packs,
            providers,
            agents: own_agents,
            plugins,
            data: std::path::absolute(dir.path())?,
            started: host.clock.now_ms(),
            admin,
            acts,
            tasks: OnceLock::new(),
            embedder,
            restarts: OnceLock::new(),
        });
        let runtime = Self::around(operations, host, edits, loaded, start, (dir.path(), held));
        runtime.begin(loaded).await?;
        Ok(runtime)
    }

    /// A gateway in which nothing has been started.
    fn around(
        operations: Arc<Operations>,
        host: Arc<Host>,
        edits: Arc<Edits>,
        loaded: &Loaded,
        start: Start,
        (data, held): (&Path, HeldFolder),
    ) -> Self {
        Self {
            anchors: Anchors::new(&loaded.config.audit, &operations.audit, &host),
            operations,
            host,
            data: data.to_owned(),
            edits,
            start,
            servers: Mutex::default(),
            builtin: Mutex::default(),
            in_force: Mutex::new(loaded.clone()),
            pages: OnceLock::new(),
            changing: tokio::sync::Mutex::default(),
            at_start: loaded.config.clone(),
            background: Background::default(),
            _folder: held,
        }
    }

    /// Puts logins into force, and starts what is configured if anything is to be started.
    async fn begin(&self, loaded: &Loaded) -> anyhow::Result<()> {
        self.operations.toolpacks.take_over().await;
        self.operations.settle().await;
        self.apply_logins(loaded, self.operations.logins.stored().await?);
        // Before anything is started, so that names clash in the same way whatever comes first.
        self.reserve_servers(loaded).await;
        self.operations.plugins.reserve_names().await;
        if self.start == Start::Nothing {
            return Ok(());
        }
        // Guards come first, so that no call passes before they are there.
        self.apply_hooks(loaded).await;
        self.operations.plugins.start().await;
        self.operations.profiles.refresh().await;
        // What can't be set up has been reported.
        let _ = self.apply_builtin(loaded).await;
        // They are there at once, and nobody should find them missing.
        self.supervisor().settle(BUILTIN_TIME).await;
        self.operations.agents.configure(loaded, base_terms(&loaded.config)).await;
        self.apply_servers(loaded).await;
        self.operations.toolpacks.refresh().await;
        // So are tools that are known from before, whether or not their servers are there yet.
        self.supervisor().settle_remembered(REMEMBERED_TIME).await;
        Ok(())
    }

    /// Its sources.
    #[must_use]
    pub fn supervisor(&self) -> &Arc<SourceSupervisor> {
        &self.operations.supervisor
    }

    /// Registers tools of the program that the gateway is a part of, whole or not at all, under the terms
    /// that hold for every source. They replace what was declared under the same id before.
    pub async fn declare(
        &self,
        source: Arc<dyn ToolSource>,
        manifest: McpManifest,
    ) -> Result<(), RegistrationError> {
        let terms = base_terms(&self.in_force.lock().config);
        self.supervisor().declare(source, manifest, terms).await.map(drop)
    }

    /// Everything for which [`declare`](Self::declare) would refuse these tools, but names that others have.
    #[must_use]
    pub fn declared_faults(&self, id: &SourceId, tools: Vec<McpToolSpec>) -> Vec<BadTool> {
        declared_faults(id, tools, base_terms(&self.in_force.lock().config))
    }

    /// Its audit log.
    #[must_use]
    pub fn audit(&self) -> &Arc<dyn AuditLog> {
        &self.operations.audit
    }

    /// Outputs that were too long to return.
    pub(crate) fn artifacts(&self) -> &Arc<dyn Artifacts> {
        &self.operations.control.parts().artifacts
    }

    /// The gate.
    #[must_use]
    pub fn gateway(&self) -> &Gateway {
        &self.operations.gateway
    }

    /// Calls that go on without their client, which `format` writes for it. Those of earlier runs are
    /// taken up again.
    pub async fn open_tasks(&self, format: Format) -> anyhow::Result<Tasks> {
        let operations = &self.operations;
        let after = Duration::from_secs(self.at_start.limits.task_after_seconds);
        let (documents, key) = (Arc::clone(&operations.documents), operations.sealing.clone());
        let gateway = operations.gateway.clone();
        let tasks = Tasks::load(gateway, documents, key, after, format).await?;
        Ok(operations.tasks.get_or_init(|| tasks).clone())
    }

    /// The local user's token.
    #[must_use]
    pub fn admin_token(&self) -> &Secret<String> {
        &self.operations.admin
    }

    /// From now on people can be sent to pages at this address to decide about calls.
    pub fn serve_pages(&self, address: String) {
        let page = self.pages.get_or_init(|| address);
        let settings = &self.operations.control.parts().settings;
        let mut next = GatewaySettings::clone(&settings.load());
        next.approval_page = Some(page.clone());
        settings.store(Arc::new(next));
    }

    /// The configuration in force.
    #[must_use]
    pub fn configuration(&self) -> Loaded {
        self.in_force.lock().clone()
    }

    /// Begins to stop: calls under way go on, those of runs and tasks too, and no run takes another step.
    pub fn hold(&self) {
        self.operations.agents.runs.hold();
    }

    /// Waits until no call is under way, and what runs and tasks learned by theirs is stored.
    pub async fn idle(&self) {
        self.operations.agents.runs.at_rest().await;
        let are_working = || self.operations.tasks.get().is_some_and(Tasks::are_working);
        while self.gateway().under_way() > 0 || are_working() {
            tokio::time::sleep(IDLE_PAUSE).await;
        }
    }

    /// Ends the calls under way: those who wait for them are answered. Tasks that the next start can't take up
    /// again have failed.
    pub async fn end_calls(&self) {
        if let Some(tasks) = self.operations.tasks.get() {
            tasks.cut().await;
        }
        self.gateway().stop();
    }

    /// Ends background tasks and sources, closes the log, and sends its last head where heads are sent.
    /// Calls under way should have ended.
    pub async fn close(&self) {
        self.background.stop().await;
        // They are left where they are, and go on with the next start.
        self.operations.agents.close().await;
        self.supervisor().close().await;
        if let Err(error) = self.audit().close().await {
            tracing::error!(error = %error, "the audit log could not be closed");
        }
        // After the log, whose newest head is kept in the state.
        if let Err(error) = self.operations.store.close().await {
            tracing::error!(error = %error, "the state could not be closed");
        }
        self.anchors.send().await;
    }
}

/// The stored data that a gate is made from.
struct GateInputs<'a> {
    store: &'a Arc<dyn Store>,
    agents: &'a [Agent],
    dir: &'a DataDir,
}

impl GateInputs<'_> {
    async fn parts(
        &self,
        config: &Config,
        rules: Rules,
        redactor: Arc<ArcSwap<Redactor>>,
        host: &Host,
        audit: &Arc<dyn AuditLog>,
        artifacts: &Arc<dyn Artifacts>,
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
            hooks: Arc::default(),
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

/// How the store is kept, as configured.
fn storage_options(config: &Config, host: &Host) -> StorageOptions {
    StorageOptions {
        durability: match config.audit.durability {
            config::Durability::Process => Durability::Process,
            config::Durability::Power => Durability::Power,
        },
        checkpoint_every: config.audit.checkpoint_every,
        head_pause: HEAD_PAUSE,
        payload_quota: config.audit.payload_quota_bytes,
        on_audit_failure: match config.audit.on_audit_failure {
            config::AuditFailure::Memory => OnAuditFailure::Memory,
            config::AuditFailure::Refuse => OnAuditFailure::Refuse,
        },
        artifacts: ArtifactLimits {
            quota: config.artifacts.quota_bytes,
            max_age_ms: config.artifacts.max_age_days.saturating_mul(24 * 60 * 60 * 1000),
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Arc::clone(&host.clock),
    }
}

/// Tells the machine what is secret and what its programs must not write. Returns the operator's token.
fn prepare(
    host: &Host,
    loaded: &Loaded,
    dir: &DataDir,
    redactor: &Arc<ArcSwap<Redactor>>,
) -> anyhow::Result<Secret<String>> {
    let admin = keys::admin_token(&dir.file(ADMIN_TOKEN))?;
    host.secrets.remember(admin.expose());
    trusted::tell(loaded, dir.path(), &host.processes);
    remember_writable(host.processes.trusted(), dir).context("the list of writable folders")?;
    follow_secrets(redactor, host);
    Ok(admin)
}

/// Reads which folders programs could write before, and begins with those of the data folder.
fn remember_writable(trusted: &Trusted, dir: &DataDir) -> std::io::Result<()> {
    trusted.keep_writable_in(&dir.file(DataDir::WRITABLE_LIST))?;
    DataDir::WRITABLE.iter().try_for_each(|room| trusted.add_writable(&dir.file(room)))
}

fn callers(config: &Config, admin: &Secret<String>, agents: &[Agent]) -> Arc<Callers> {
    let callers = Arc::new(Callers::new(config.auth.as_ref()));
    callers.set(admin, agents);
    callers
}

fn acts(
    store: &Arc<dyn Store>,
    log: &Arc<dyn AuditLog>,
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
fn open_logins(
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

/// What programs that do the work of runs stand on.
fn programs(host: &Arc<Host>, dir: &DataDir, loaded: &Loaded) -> ProgramParts {
    ProgramParts {
        host: Arc::clone(host),
        folder: dir.file(DataDir::RUNS),
        settings: program_settings(loaded),
    }
}

async fn open_plugins(
    agents: &Agents,
    control: &GatewayControl,
    supervisor: &Arc<SourceSupervisor>,
    documents: &Arc<dyn Documents>,
    host: &Arc<Host>,
    dir: &DataDir,
) -> Result<Arc<PluginTable>, StoreError> {
    let parts = PluginTableParts {
        plugins: agents.plugins.clone(),
        host,
        audit: &control.parts().audit,
        hooks: Arc::clone(&control.parts().hooks),
        supervisor,
        data: dir.path(),
    };
    PluginTable::open(&**documents, parts).await
}

fn supervisor(
    registry: &Arc<Registry>,
    documents: &Arc<dyn Documents>,
    audit: &Arc<dyn AuditLog>,
    acts: &Acts,
    host: &Host,
) -> Arc<SourceSupervisor> {
    let pins = Pins {
        documents: Arc::clone(documents),
        audit: audit.clone(),
        acts: acts.clone(),
        clock: Arc::clone(&host.clock),
    };
    Arc::new(SourceSupervisor::new(Arc::clone(registry), pins))
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
    let edits = Edits::new(files.in_force(loaded));
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
pub fn authorities(loaded: &Loaded) -> anyhow::Result<Authorities> {
    authorities_and_text(loaded).map(|(authorities, _)| authorities)
}

/// The same, with the text of their file.
fn authorities_and_text(loaded: &Loaded) -> anyhow::Result<(Authorities, Vec<u8>)> {
    let Some(file) = &loaded.config.egress.ca_file else {
        return Ok((Authorities::default(), Vec::new()));
    };
    let path = loaded.resolve(file);
    let named = || format!("`egress.ca_file`, `{}`", path.display());
    let text = user_files::read(&path).with_context(named)?;
    Ok((Authorities::from_pem(&text).with_context(named)?, text))
}

/// The rules in force, with the text of their file.
fn rules(loaded: &Loaded) -> anyhow::Result<(Rules, Vec<u8>)> {
    let policy = &loaded.config.policy;
    let (document, text) = match (&policy.file, policy.inline()) {
        (Some(file), _) => {
            let path = loaded.resolve(file);
            let text = user_files::read(&path)
                .with_context(|| format!("policy file `{}`", path.display()))?;
            let parsed = drawgate_core::json::parse(&text);
            let is_json = || format!("policy file `{}`, which has to be JSON", path.display());
            (Some(parsed.with_context(is_json)?), text)
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
        caller_redaction: config.audit.caller_redaction,
        keep_payloads: config.audit.payloads == config::Payloads::Redacted,
        payload_bytes: config.audit.payload_bytes,
        payload_quota_bytes: config.audit.payload_quota_bytes,
    }
}

/// Keeps a redactor up to date with the known secrets.
fn follow_secrets(redactor: &Arc<ArcSwap<Redactor>>, host: &Host) {
    let redactor = Arc::downgrade(redactor);
    host.secrets.tell(move |known| {
        if let Some(redactor) = redactor.upgrade() {
            redactor.store(Arc::new(Redactor::new(known.iter().copied())));
        }
    });
}
